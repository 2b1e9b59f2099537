"""Bind a model to its inputs: try it on two of them, and choose how to run and differentiate it.

The first way that works is taken, exact ones before differences: as it is; contiguous kernels;
plain operations for fused kernels; both. Works means: logits, their gradient, and a J v that
agrees with it, ⟨u, J v⟩ = ⟨Jᵀ u, v⟩. A plain sequence of known layers needs no trial beyond its
outputs. Whether a derivative exists and is whole does not depend on which samples are tried, so
that every site and the server choose alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor, nn
from torch.func import grad, jvp, vjp
from torch.nn.functional import cross_entropy

from fedsift.errors import DataError, FedsiftError, InputError
from fedsift.problem.batch_norm import warn_of_unused_statistics
from fedsift.problem.batches import LabelledBatch
from fedsift.problem.failing_layer import failing_layer, layer_without_derivative
from fedsift.problem.flat_model import FlatModel
from fedsift.problem.inputs import Inputs, take
from fedsift.problem.reweighting import Reweighting
from fedsift.problem.run_modes import HessianMode, Jacobian, RunModes
from fedsift.problem.stacked_model import known_layers
from fedsift.problem.tangents import along, linearised_outputs, push

SAMPLES = 2
TOLERANCE = 1e-2  # relative: what is looked for is a derivative that lacks a part, not rounding


def bind(model: FlatModel, inputs: Inputs, what: str = "the inputs") -> FlatModel:
    """Return the model as it runs on such inputs; an error names the layer where nothing works."""
    warn_of_unused_statistics(model.module)
    batch = _example(inputs, model.initial().device)
    if known_layers(model, images=len(inputs.shape) == 4) is not None:
        return _with_logits([model], batch, what)[0]
    layouts = [False, True] if _has_images(model, inputs) else [False]
    candidates = [model.run_as(RunModes(c, p)) for p, c in product((False, True), layouts)]
    able = [m for m in _with_logits(candidates, batch, what) if _succeeds(_gradient, m, batch)]
    if not able:
        layer = layer_without_derivative(model, batch.inputs, order=1)
        raise InputError(f"the model's {layer} has no derivative; replace the layer or freeze it")
    chosen = next(_differentiated(able, batch))
    way = _hessian_mode(chosen, batch)
    lacking = "" if way != "none" else layer_without_derivative(chosen, batch.inputs, order=2)
    return chosen.run_as(replace(chosen.modes, hessian=way, lacking=lacking))


def _example(inputs: Inputs, device: torch.device) -> LabelledBatch:
    """Return two inputs, laid out as in training; the first twice where there is one only."""
    some = take(inputs, torch.arange(SAMPLES) % max(len(inputs), 1)).to(device)
    return LabelledBatch.of(some, torch.zeros(SAMPLES, dtype=torch.int64, device=device))


def _has_images(model: FlatModel, inputs: Inputs) -> bool:
    """Return whether anything would be laid out channels-last."""
    images = len(inputs.shape) == 4
    return images or any(p.ndim == 4 for p in model.unflatten(model.initial()).values())


@torch.no_grad()
def _with_logits(models: list[FlatModel], batch: LabelledBatch, what: str) -> list[FlatModel]:
    """Return the models that give logits for the batch."""
    able, first = [], None
    for model in models:
        try:
            outputs = model(model.initial(), batch.inputs)
        except FedsiftError:
            raise
        except Exception as error:
            first = first or error
            continue
        if outputs.ndim != 2 or len(outputs) != SAMPLES or not outputs.is_floating_point():
            raise DataError("the model must return logits of shape [samples, classes]")
        able.append(model)
    if not able:
        where = failing_layer(models[0], batch.inputs)
        reason = next(iter(str(first).splitlines()), type(first).__name__)
        raise DataError(
            f"the model cannot take {what} of shape {list(batch.inputs.shape[1:])} ({where}"
            f"{reason}); check the inputs' shape and type"
        )
    return able


def _differentiated(models: list[FlatModel], batch: LabelledBatch) -> Iterator[FlatModel]:
    """Give the models with a way for J v that works, the best first."""
    modes: list[tuple[Jacobian, ...]] = [("linearised", "forward"), ("reverse",)]
    if any(isinstance(layer, nn.RNNBase) for layer in models[0].module.modules()):
        modes[0] = ("forward",)  # what is traced grows with the length of a sequence
    for group in modes:
        for model, way in product(models, group):
            trial = model.run_as(replace(model.modes, jacobian=way))
            if _succeeds(_agrees, trial, batch):
                yield trial
    yield models[0].run_as(replace(models[0].modes, jacobian="differences"))


def _succeeds(
    check: Callable[[FlatModel, LabelledBatch], bool], model: FlatModel, batch: LabelledBatch
) -> bool:
    try:
        return check(model, batch)
    except Exception:  # torch has many for what is not implemented
        return False


def _gradient(model: FlatModel, batch: LabelledBatch) -> bool:
    """Compute a gradient by ordinary autograd, as local steps do."""
    leaf = model.initial().requires_grad_(True)
    loss = cross_entropy(model(leaf, batch.inputs), batch.labels)
    return torch.autograd.grad(loss, leaf)[0].shape == leaf.shape


def _agrees(model: FlatModel, batch: LabelledBatch) -> bool:
    """Return whether ⟨u, J v⟩ = ‖v‖² at v = Jᵀ u, for the J v of every function."""
    problem, y = Reweighting(model), model.initial()
    leaf = y.clone().requires_grad_(True)
    outputs = model(leaf, batch.inputs)
    u = _direction(outputs)
    (v,) = torch.autograd.grad(outputs, leaf, u)
    pushed = push(problem, y, batch, v)
    pulled = pushed.pull(u) @ v
    products = [pushed.along, along(problem, y, batch, v).along]
    products.append(linearised_outputs(problem, y, batch)[1](v))
    return all(_near(found, v @ v) for found in (pulled, *((u * p).sum() for p in products)))


def _hessian_mode(model: FlatModel, batch: LabelledBatch) -> HessianMode:
    forward = model.modes.jacobian in {"linearised", "forward"}
    if forward and _succeeds(_functional, model, batch):
        return "functional"
    return "reverse" if _succeeds(_symmetric, model, batch) else "none"


def _functional(model: FlatModel, batch: LabelledBatch) -> bool:
    """Return whether forward and reverse mode over the gradient agree."""

    def loss(y: Tensor) -> Tensor:
        return cross_entropy(model(y, batch.inputs), batch.labels)

    y = model.initial()
    v = _direction(y)
    ahead, back = jvp(grad(loss), (y,), (v,))[1], vjp(grad(loss), y)[1](v)[0]
    return bool((ahead - back).norm() <= TOLERANCE * back.norm())


def _symmetric(model: FlatModel, batch: LabelledBatch) -> bool:
    """Return whether ⟨u, H v⟩ = ‖v‖² at v = H u, as of a symmetric matrix.

    Autograd drops parts of a second derivative silently: at a function that is
    ``once_differentiable`` it does not come to the error.
    """
    leaf = model.initial().requires_grad_(True)
    loss = cross_entropy(model(leaf, batch.inputs), batch.labels)
    (gradient,) = torch.autograd.grad(loss, leaf, create_graph=True)
    u = _direction(leaf)
    (v,) = torch.autograd.grad(gradient, leaf, u, retain_graph=True)
    (Hv,) = torch.autograd.grad(gradient, leaf, v)
    return _near(u @ Hv, v @ v)


def _near(found: Tensor, expected: Tensor) -> bool:
    return bool((found - expected).abs() <= TOLERANCE * expected)


def _direction(like: Tensor) -> Tensor:
    """Return fixed numbers without a pattern: the choice must not depend on a draw."""
    places = torch.arange(1, like.numel() + 1, dtype=torch.float64, device=like.device)
    return (places * 2.399963).cos().to(like.dtype).view(like.shape)
