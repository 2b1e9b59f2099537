"""BOAT: gradient steps (NGD) and conjugate gradients (CG), after its example of L2 coefficients."""

import os

import boat_torch
import torch
from torch import nn
from torch.nn.functional import cross_entropy


class Vector(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(value)

    def forward(self):
        return self.value


def inner_loss(feed, outer, inner, params=None):
    x, y = outer(), inner() if params is None else inner(params=params)
    return (
        cross_entropy(feed["inputs"] @ y, feed["labels"])
        + 0.5 * (x.exp()[:, None] * y.square()).sum()
    )


def outer_loss(feed, outer, inner, params=None):
    x, y = outer(), inner() if params is None else inner(params=params)
    away = x - feed["start"]
    error = cross_entropy(feed["inputs"] @ y, feed["labels"])
    return error + 0.5 * feed["prior"] * away.square().sum()


def solve(data, rounds, inner_steps, products, inner_lr, outer_lr):
    data = {name: torch.as_tensor(value) for name, value in data.items()}
    inner = Vector(torch.zeros(len(data["start"]), 10, dtype=torch.float64))
    outer = Vector(data["start"].clone())
    config = {
        "fo_op": None,
        "gm_op": ["NGD"],
        "na_op": ["CG"],
        "lower_iters": inner_steps,
        "lower_level_model": inner,
        "upper_level_model": outer,
        "lower_level_opt": torch.optim.SGD(
            inner.parameters(), inner_lr, momentum=0.9, nesterov=True
        ),
        "upper_level_opt": torch.optim.SGD(outer.parameters(), outer_lr),
        "lower_level_var": list(inner.parameters()),
        "upper_level_var": list(outer.parameters()),
        "RGT": {"truncate_iter": 0},
        "CG": {"k": products, "tolerance": 1e-12},
        "GDA": {"alpha_init": 0.0, "alpha_decay": 1.0},
        "accumulate_grad": False,
        "copy_last_param": True,
        "return_grad": False,
        "device": "cpu",
        "loss_log_path": os.devnull,
    }
    losses = {
        "lower_level_loss": {"function": f"{__name__}.inner_loss", "params": {}},
        "upper_level_loss": {"function": f"{__name__}.outer_loss", "params": {}},
    }
    problem = boat_torch.Problem(config, losses)
    problem.build_ll_solver()
    problem.build_ul_solver()
    train = {"inputs": data["inputs"], "labels": data["labels"]}
    validation = {
        "inputs": data["validation_inputs"],
        "labels": data["validation_labels"],
        "start": data["start"],
        "prior": data["prior"],
    }
    for k in range(rounds):
        problem.run_iter(train, validation, current_iter=k)
    return outer.value.detach().numpy()
