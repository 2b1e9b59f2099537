"""Hessian products on the paper's CNN, in gradients of the same samples."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import vmap
from torch.nn.functional import cross_entropy

from benchmarks.timing import ratio, seconds
from fedsift.client.passes import galerkin_pass, sketch_pass
from fedsift.compress import SparseEmbedding
from fedsift.hypergradient import CurvatureSettings
from fedsift.problem import FlatModel, LabelledBatch, Reweighting, hessian_product
from fedsift.problem.curvature import CURVATURES
from fedsift.problem.networks import build_model
from fedsift.randomness import generator

SAMPLES = 256


def measure() -> dict[str, float]:
    """Time products of every make against one gradient."""
    source = generator(0, "benchmark")
    model = FlatModel(build_model("paper_cnn", (1, 28, 28), 10, seed=0))
    problem = Reweighting(model)
    inputs = torch.randn(SAMPLES, 1, 28, 28, generator=source)
    batch = LabelledBatch.of(inputs, torch.randint(10, (SAMPLES,), generator=source))
    x, y = torch.ones(SAMPLES), model.initial()
    v = torch.randn(len(y), generator=source)

    def gradient() -> None:
        leaf = y.clone().requires_grad_(True)
        torch.autograd.grad(problem.inner_loss(x, leaf, batch), leaf)

    def double_backward() -> None:
        leaf = y.clone().requires_grad_(True)
        loss = problem.inner_loss(x, leaf, batch)
        (first,) = torch.autograd.grad(loss, leaf, create_graph=True)
        torch.autograd.grad(first, leaf, v)

    out: dict[str, float] = {}
    for kind, makes in CURVATURES.items():
        name = kind.replace("-", "_")
        repeated = makes.repeated(problem, x, y, batch, 0.0)
        once = makes.once

        def one(make: object = once) -> None:
            make(problem, x, y, batch, 0.0).product(v)  # type: ignore[operator]

        def many(operator: object = repeated) -> None:
            operator.product(v)  # type: ignore[attr-defined]

        out[f"{name}_repeated_over_gradient"] = ratio(many, gradient)
        out[f"{name}_once_over_gradient"] = ratio(one, gradient)
        out[f"double_backward_over_{name}_repeated"] = ratio(double_backward, many)
        make_time = seconds(lambda m=makes: m.repeated(problem, x, y, batch, 0.0))
        out[f"{name}_making_over_gradient"] = make_time / seconds(gradient)
    out["forward_over_reverse_over_gradient"] = ratio(
        lambda: hessian_product(problem, x, y, batch, v), gradient
    )
    # Of the product that the solvers use by default.
    out["repeated_product_over_gradient"] = out["gauss_newton_repeated_over_gradient"]
    out["double_backward_over_repeated_product"] = out["double_backward_over_gauss_newton_repeated"]
    return out | layout(gradient) | many_columns(problem, x, y, batch)


def layout(gradient: Callable[[], None]) -> dict[str, float]:
    """Compare the gradient of a plain module in torch's default layout with ours."""
    source = generator(0, "benchmark")
    module = build_model("paper_cnn", (1, 28, 28), 10, seed=0)
    inputs = torch.randn(SAMPLES, 1, 28, 28, generator=source)
    labels = torch.randint(10, (SAMPLES,), generator=source)

    def plain() -> None:
        module.zero_grad()
        cross_entropy(module(inputs), labels).backward()

    return {"default_layout_over_channels_last_gradient": ratio(plain, gradient)}


def many_columns(
    problem: Reweighting, x: Tensor, y: Tensor, batch: LabelledBatch
) -> dict[str, float]:
    """Compare ways to make the sketched systems of non-iter, on one chunk of samples."""
    part, curvature = batch.take(torch.arange(64)), CurvatureSettings("gauss-newton", 0.5)
    S1, S2 = SparseEmbedding(8, len(y), 1), SparseEmbedding(16, len(y), 2)
    operator = CURVATURES["gauss-newton"].repeated(problem, x, y, part, 0.5)
    columns = S1.transpose_apply(torch.eye(8))

    def looped() -> None:
        for i in range(8):
            operator.product(columns[:, i].contiguous())

    def batched() -> None:
        vmap(operator.product, in_dims=1, out_dims=1)(columns)

    return {
        "vmap_over_loop_of_products": ratio(batched, looped, repeats=3),
        "galerkin_over_least_squares": ratio(
            lambda: galerkin_pass(problem, x, y, part, S1, curvature),
            lambda: sketch_pass(problem, x, y, part, S1, S2, curvature),
            repeats=3,
        ),
    }
