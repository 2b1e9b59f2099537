"""Section 4's premise: learned weights go with what samples contribute, by their Shapley values.

    min_λ Φ(A(λ)),  A(λ) = argmin_ω 1/N Σ_j λ_j ℓ(ω; s_j) + l2/2 ‖ω‖²,  Φ: minus the clean loss

Logistic regression in two dimensions, 24 samples at two clients, a quarter with wrong labels, 200
clean samples. A subset S is λ = 1 on S and 0 elsewhere, so that Shapley values, leave-one-out and
weights speak of one function. All subsets of a batch are solved at once by Newton's method.

| score                     | what it is                                                     |
|---------------------------|----------------------------------------------------------------|
| Shapley                   | by random permutations                                         |
| leave-one-out             | Φ(D) − Φ(D∖j)                                                  |
| hypergradient at weight 1 | −∂h/∂λ_j at λ = 1, by `Reweighting`'s cross products with v*   |
| learned weights           | λ after 60 rounds of Algorithm 1 with exact v                  |
| control                   | minus the loss of a sample under a model of the clean samples  |

Reported is Spearman's rank correlation with the Shapley values, per problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedsift.algorithms import CommFedBiO, LocalSteps, OuterStep, Server, ServerState
from fedsift.experiment.theory.checks import Check, spread
from fedsift.experiment.theory.shapley import by_permutations, leave_one_out
from fedsift.federation import LocalFederation
from fedsift.hypergradient import Exact
from fedsift.problem import LabelledBatch, Reweighting
from fedsift.problem.derivatives import cross_product, hessian_product, outer_gradients
from fedsift.randomness import generator

N, WRONG, CLEAN, L2 = 24, 6, 200, 0.05
LEAST = {"hypergradient at weight 1": 0.5, "learned weights": 0.5}


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    draws: int
    permutations: int
    rounds: int


SIZES = {"quick": Size(2, 30, 30), "paper": Size(5, 150, 60)}


@dataclass(frozen=True)
class Samples:
    """A problem: training samples, which of them are wrong, clean samples."""

    inputs: Tensor
    labels: Tensor
    wrong: Tensor
    clean: LabelledBatch

    @classmethod
    def of(cls, seed: int) -> Samples:
        """Draw two overlapping classes of points."""
        source = generator(seed, "contribution")

        def points(count: int) -> tuple[Tensor, Tensor]:
            labels = torch.randint(0, 2, (count,), generator=source)
            centre = torch.stack((2.0 * labels - 1.0, torch.zeros(count)), 1).double()
            return centre + torch.randn(count, 2, dtype=torch.float64, generator=source), labels

        inputs, labels = points(N)
        wrong = torch.zeros(N, dtype=torch.bool)
        wrong[torch.randperm(N, generator=source)[:WRONG]] = True
        return cls(
            inputs, torch.where(wrong, 1 - labels, labels), wrong, LabelledBatch.of(*points(CLEAN))
        )

    def problem(self) -> Reweighting:
        """Return the bilevel problem."""
        model = nn.Linear(2, 2).double()
        with torch.no_grad():
            for part in model.parameters():
                part.zero_()
        return Reweighting.of(model, L2)

    def gain(self, members: Tensor) -> Tensor:
        """Return Φ of rows of weights."""
        y = fitted(self.inputs, self.labels, members, L2)
        return -clean_loss(y, self.clean)


def fitted(inputs: Tensor, labels: Tensor, weights: Tensor, l2: float) -> Tensor:
    """Return A(λ) for rows of weights, [rows, 6]: weights and biases of two classes, by Newton.

    With an L2 term the two classes' parameters are each other's negatives, so three are enough.
    """
    X = torch.cat((inputs, torch.ones(len(inputs), 1, dtype=inputs.dtype)), 1)
    sign = 2.0 * labels.double() - 1.0
    u = torch.zeros(len(weights), 3, dtype=X.dtype)  # of class 1; class 0 has −u
    eye = torch.eye(3, dtype=X.dtype)
    for _ in range(30):
        margin = 2.0 * sign * (u @ X.T)
        p = torch.sigmoid(-margin)
        gradient = -2.0 * ((weights * p * sign) @ X) / len(X) + 2.0 * l2 * u
        curved = 4.0 * weights * p * (1 - p) / len(X)
        H = torch.einsum("sn,ni,nj->sij", curved, X, X) + 2.0 * l2 * eye
        u = u - torch.linalg.solve(H, gradient)
    return torch.cat((-u[:, :2], u[:, :2], -u[:, 2:], u[:, 2:]), 1)


def clean_loss(y: Tensor, clean: LabelledBatch) -> Tensor:
    """Return the mean cross-entropy of every row's model."""
    weight, bias = y[:, :4].reshape(-1, 2, 2), y[:, 4:]
    logits = torch.einsum("ni,sci->snc", clean.inputs.to(y), weight) + bias[:, None, :]
    rows = clean.labels.expand(len(y), -1).reshape(-1)
    return cross_entropy(logits.reshape(-1, 2), rows, reduction="none").reshape(len(y), -1).mean(1)


def measure(scale: str, learn: Callable[[Samples, int], Tensor] | None = None) -> dict[str, Any]:
    """Measure all scores; ``learn`` is another way to weights in tests."""
    size = SIZES[scale]
    found: dict[str, list[float]] = {}
    for seed in range(size.draws):
        samples = Samples.of(seed)
        source = generator(seed, "permutations")
        value = by_permutations(samples.gain, N, size.permutations, source)
        scores = {
            "leave-one-out": leave_one_out(samples.gain, N),
            "hypergradient at weight 1": -slope_at_one(samples),
            "learned weights": (learn or learned)(samples, size.rounds),
            "control: clean model's loss": -_clean_model_losses(samples),
        }
        for name, score in scores.items():
            found.setdefault(name, []).append(float(spearmanr(value, score).statistic))
    checks = [_check(name, values) for name, values in found.items()]
    return {
        "draws": size.draws,
        "correlations": found,
        "checks": [check.to_json() for check in checks],
    }


def slope_at_one(samples: Samples) -> Tensor:
    """Return ∂h/∂λ at λ = 1 and y = y_x: −∇²_xy G v*."""
    problem, ones = samples.problem(), torch.ones(N, dtype=torch.float64)
    y = fitted(samples.inputs, samples.labels, ones[None], L2)[0]
    batch = LabelledBatch.of(samples.inputs, samples.labels)
    gy = outer_gradients(problem, ones, y, samples.clean)[1]
    H = torch.stack(
        [hessian_product(problem, ones, y, batch, unit) for unit in torch.eye(len(y)).double()]
    )
    return -cross_product(problem, ones, y, batch, torch.linalg.solve(H, gy))


def learned(samples: Samples, rounds: int) -> Tensor:
    """Return the weights that Algorithm 1 learns at two clients, in the samples' order."""
    half = N // 2
    batches = [
        LabelledBatch.of(samples.inputs[part], samples.labels[part])
        for part in (slice(0, half), slice(half, N))
    ]
    problem = samples.problem()
    federation = LocalFederation.of(problem, batches)
    algorithm = CommFedBiO(Exact(), LocalSteps(5, 0.5, 0), OuterStep(0.05, "scale-free", 0.0))
    server, state = Server(problem, samples.clean), ServerState(problem.model.initial())
    for k in range(rounds):
        _, state = algorithm.round(federation, server, state, k)
    weights = [federation.state(m).x for m in federation.sizes]
    return torch.cat([one for one in weights if one is not None])


def _clean_model_losses(samples: Samples) -> Tensor:
    clean = samples.clean
    y = fitted(clean.inputs, clean.labels, torch.ones(1, CLEAN, dtype=torch.float64), L2)[0]
    logits = samples.inputs @ y[:4].reshape(2, 2).T + y[4:]
    return cross_entropy(logits, samples.labels, reduction="none")


def _check(name: str, values: list[float]) -> Check:
    seen, least = spread(values), LEAST.get(name)
    return Check(
        f"rank correlation with Shapley values: {name}",
        "positive" if least is None else f"positive; {least:g} is asked for",
        f"{seen['mean']:.2f} ± {seen['deviation']:.2f}",
        None if least is None else seen["mean"] >= least,
    )
