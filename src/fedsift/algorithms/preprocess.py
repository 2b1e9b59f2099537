"""Preprocess (Tuor et al., 2021): remove what a benchmark model finds hard, then FedAvg.

Before round 0, with all clients, not only the first cohort:

    y_B     SGD from y_0 on one part of D_val               at the server
    F_B     distribution of ℓ(y_B; ·) on the rest of D_val  at the server: the reference
    F_m     histogram of ℓ(y_B; ·) on D_m                   client m sends counts, in given bins
    λ     = argmin over bin edges e of KS(F_all | ℓ ≤ e, F_B),   F_all = Σ_m (N_m / N) F_m
    x^m_j = 1 if ℓ(y_B; s^m_j) ≤ λ, else 0                  at client m

A round is then FedAvg's, on samples with x = 1 and with their number in place of N_m, as if there
were no others.

The weights are in the clients' state, so a resumed run does not filter again. A client that misses
the opening keeps all its samples; one that would keep none keeps the one of lowest loss.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fedsift.algorithms.clean_set import fit, split_validation
from fedsift.algorithms.fedavg import PLAIN, draw_cohort, local_of, next_y, perhaps_ahead
from fedsift.algorithms.method import Method
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.compress import Payload
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Cohort, Federation, Request, scalars_of
from fedsift.problem.sample_losses import sample_losses
from fedsift.problem.sgd import LocalSteps
from fedsift.randomness import generator

# Cross-entropies spread over orders of magnitude: 16 bins per decade.
LOWEST, HIGHEST, EDGES = -4.0, 2.0, 97


@dataclass(frozen=True)
class Threshold:
    """The largest loss λ of a sample that is kept."""

    threshold: float


@dataclass(frozen=True)
class Preprocess:
    """Three exchanges in round 0 (two with a given threshold), then one per round.

    ``benchmark`` is how y_B is trained, on ``share`` of the validation set; ``threshold`` is λ,
    0 to find it.
    """

    local: LocalSteps = LocalSteps()
    benchmark: LocalSteps = LocalSteps(steps=500)
    threshold: float = 0.0
    share: float = 0.8

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        opening = self._open(federation, server, state.y) if k == 0 else RoundInfo()
        cohort = draw_cohort(federation, server, k)
        answers = cohort.ask(Request("train-kept", k, {"y": state.y}, scalars_of(self.local)))
        answers = replace(answers, weights=tuple(answers.numbers("kept")))
        y = next_y(state, answers, self.local, k)
        metrics = {"train_loss": answers.mean_scalar("loss"), **opening.metrics}
        info = RoundInfo(metrics, opening.events + answers.events)
        return info, ServerState(y, state.x, state.solver)

    def _open(self, federation: Federation, server: Server, y: Tensor) -> RoundInfo:
        """Let all clients remove samples, before round 0."""
        everyone = Cohort(federation, tuple(sorted(federation.sizes)), server.min_clients)
        benchmark, reference = self._train_benchmark(server, y)
        threshold, distance = self.threshold, None
        arrays: dict[str, Payload] = {"y": benchmark}
        missed: tuple[str, ...] = ()
        if not threshold:
            edges = bin_edges(benchmark)
            counted = everyone.ask(Request("count", 0, {**arrays, "edges": edges}))
            counts = [c for c in counted.payloads("counts") if isinstance(c, Tensor)]
            threshold, distance = find_threshold(torch.stack(counts).sum(0), edges, reference)
            arrays, missed = {}, counted.events  # clients have the benchmark model by now
        kept = everyone.ask(Request("keep", 0, arrays, scalars_of(Threshold(threshold))))
        fallbacks = tuple(
            f"{everyone.called(reply.client)} has no sample with a loss of at most "
            f"{threshold:.3g} and keeps the one of lowest loss"
            for reply in kept.replies
            if not reply.scalars["found"]
        )
        metrics = {
            "benchmark_loss": float(reference.mean()),
            "threshold": threshold,
            "threshold_distance": distance,
            "kept": sum(kept.numbers("kept")) / sum(r.num_samples for r in kept.replies),
        }
        return RoundInfo(metrics, (*missed, *kept.events, *fallbacks))

    def _train_benchmark(self, server: Server, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return y_B and its losses on the part of the validation set it was not trained on."""
        part, rest = split_validation(server, self.share, "benchmark")
        source = generator(server.seed, "benchmark batches")
        y = fit(server, y, part, self.benchmark, source, "the benchmark model")
        return y, sample_losses(server.problem, y, rest)


def bin_edges(like: Tensor) -> Tensor:
    """Return the edges between the bins of losses, ascending, in the model's precision."""
    edges = torch.logspace(LOWEST, HIGHEST, EDGES, dtype=torch.float64)
    return edges.to(like.dtype).to(like.device)


def find_threshold(counts: Tensor, edges: Tensor, reference: Tensor) -> tuple[float, float]:
    """Return the edge below which losses are distributed most like the reference, and the distance.

    ``counts`` has the losses of each bin, the last above all edges. Distributions are compared at
    the edges, where a histogram is exact; of equal edges the lowest is returned.
    """
    below = counts.double().cumsum(0)[:-1]  # losses up to each edge
    wanted = (reference[:, None] <= edges).double().mean(dim=0)
    truncated = (below[None, :] / below[:, None]).clamp(max=1.0)  # row: cut at that edge
    distances = (truncated - wanted).abs().amax(dim=1)
    best = int(distances.nan_to_num(nan=torch.inf).argmin())  # 0/0: nothing up to that edge
    return float(edges[best]), float(distances[best])


@dataclass(frozen=True)
class PreprocessKeys(Keys):
    """The benchmark model and what it removes."""

    table: ClassVar[str] = "outer"
    preprocess_steps: int = key(500, "steps of SGD that train the benchmark model", low=1)
    preprocess_threshold: float = key(
        0.0,
        "largest loss of a sample that is kept; 0: chosen by the Kolmogorov-Smirnov distance",
        low=0,
    )


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build it from its keys."""
    local, own = local_of(settings), settings[PreprocessKeys]
    benchmark = replace(local, steps=own.preprocess_steps)
    preprocess = Preprocess(local, benchmark, own.preprocess_threshold)
    return perhaps_ahead(settings, preprocess)


METHOD = Method(
    "FedAvg on the samples on which a benchmark model has a low loss",
    (*PLAIN, PreprocessKeys),
    build,
    learns_weights=True,
    asks="^count ^keep train-kept",
)
