"""Tune a weight decay per feature on data that stays at its sites: a shared outer variable.

    inner   g_m(x, y) = 1/N_m Σ_j (⟨a_j, y⟩ − b_j)² / 2 + ½ Σ_i e^{x_i} y_i²
    outer   F(x, y)   = the same error on the server's validation set, without the penalty

Half of the features are noise; the tuned penalty should rise on them and fall on the others.

    python examples/hyperparameter.py
"""

from __future__ import annotations

import torch
from torch import Tensor

import fedsift as fs

FEATURES, CLIENTS, SAMPLES, NOISE = 10, 4, 20, 1.0


def squared_error(y: Tensor, batch: fs.TensorBatch) -> Tensor:
    """Return half the mean squared error of a linear model."""
    inputs, targets = batch.tensors
    return 0.5 * (inputs @ y - targets).square().mean()


def inner_loss(x: Tensor, y: Tensor, batch: fs.TensorBatch) -> Tensor:
    """Return the penalised training error."""
    return squared_error(y, batch) + 0.5 * (x.exp() * y.square()).sum()


def outer_loss(x: Tensor, y: Tensor, batch: fs.TensorBatch) -> Tensor:  # noqa: ARG001
    """Return the validation error."""
    return squared_error(y, batch)


def main() -> Tensor:
    """Solve the problem and print the penalties."""
    source = torch.Generator().manual_seed(0)
    truth = torch.cat([torch.ones(FEATURES // 2), torch.zeros(FEATURES // 2)])

    def draw(count: int) -> fs.TensorBatch:
        inputs = torch.randn(count, FEATURES, generator=source)
        noise = NOISE * torch.randn(count, generator=source)
        return fs.TensorBatch((inputs, inputs @ truth + noise))

    start = torch.full((FEATURES,), -2.0)
    problem = fs.LossPair(inner_loss, outer_loss, start, projection=lambda x: x.clamp(-6, 2))
    solution = fs.solve(
        problem,
        [draw(SAMPLES) for _ in range(CLIENTS)],
        validation=draw(200),
        y=torch.zeros(FEATURES),
        x=start,
        outer_lr=0.1,
        outer_rule="scale-free",
    )
    print(solution.history[["round", "outer_loss", "hypergradient_norm", "bytes_up"]].tail(3))
    assert solution.x is not None
    penalties = [round(p, 3) for p in solution.x.exp().tolist()]
    print("penalty on useful features:", penalties[: FEATURES // 2])
    print("penalty on noise features: ", penalties[FEATURES // 2 :])
    return solution.x


if __name__ == "__main__":
    main()
