"""Betty: two problems, an engine that steps them in turn, a Neumann series for the coupling."""

import torch
from betty.configs import Config, EngineConfig
from betty.engine import Engine
from betty.problems import ImplicitProblem
from torch import nn
from torch.nn.functional import cross_entropy


class Vector(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(value)


def solve(data, rounds, inner_steps, products, inner_lr, outer_lr):
    data = {name: torch.as_tensor(value) for name, value in data.items()}
    weights, coefficients = (
        Vector(torch.zeros(len(data["start"]), 10, dtype=torch.float64)),
        Vector(data["start"].clone()),
    )

    class Outer(ImplicitProblem):
        def training_step(self, batch):
            inputs, labels = batch
            away = self.module.value - data["start"]
            error = cross_entropy(inputs @ self.inner.module.value, labels)
            return error + 0.5 * data["prior"] * away.square().sum()

    class Inner(ImplicitProblem):
        def training_step(self, batch):
            inputs, labels = batch
            y, x = self.module.value, self.outer.module.value
            return cross_entropy(inputs @ y, labels) + 0.5 * (x.exp()[:, None] * y.square()).sum()

    outer = Outer(
        name="outer",
        config=Config(retain_graph=True),
        module=coefficients,
        optimizer=torch.optim.SGD(coefficients.parameters(), outer_lr),
        train_data_loader=[(data["validation_inputs"], data["validation_labels"])],
    )
    inner = Inner(
        name="inner",
        config=Config(
            type="neumann",
            neumann_iterations=products,
            neumann_alpha=inner_lr,
            unroll_steps=inner_steps,
        ),
        module=weights,
        optimizer=torch.optim.SGD(weights.parameters(), inner_lr, momentum=0.9, nesterov=True),
        train_data_loader=[(data["inputs"], data["labels"])],
    )
    engine = Engine(
        problems=[outer, inner],
        config=EngineConfig(train_iters=rounds * inner_steps, valid_step=rounds * inner_steps + 1),
        dependencies={"u2l": {outer: [inner]}, "l2u": {inner: [outer]}},
    )
    engine.run()
    return coefficients.value.detach().numpy()
