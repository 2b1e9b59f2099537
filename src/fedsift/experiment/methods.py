"""The table of methods: a name, how to build it, what it needs. A new method is one row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fedsift.algorithms import (
    Algorithm,
    CommFedBiO,
    Disagreement,
    FedAvg,
    Focus,
    HeadStart,
    LocalSteps,
    OuterStep,
    Preprocess,
    SelfPaced,
    SingleLoop,
)
from fedsift.algorithms.outer_step import OuterSchedule
from fedsift.compress import Compressor, CountSketch, TopK, feedback_for
from fedsift.errors import ConfigError
from fedsift.hypergradient import (
    Constant,
    CurvatureSettings,
    Estimator,
    Iterative,
    NonIterative,
    Theorem,
)

if TYPE_CHECKING:
    from fedsift.experiment.config import Config


@dataclass(frozen=True)
class Method:
    """How to build an algorithm for d parameters, and what it does with labels."""

    build: Callable[[Config, int], Algorithm]
    text: str
    learns_weights: bool = False
    needs_truth: bool = False


def _local(config: Config) -> LocalSteps:
    return LocalSteps(config.local_steps, config.inner_lr, config.batch_size)


def _outer(config: Config) -> OuterSchedule:
    outer = OuterStep(config.outer_lr, config.outer_rule)
    if not config.outer_decay:
        return outer
    return SelfPaced(outer, config.outer_decay, config.self_paced)


def _ahead(config: Config, algorithm: Algorithm) -> Algorithm:
    if not config.head_start:
        return algorithm
    return HeadStart(algorithm, replace(_local(config), steps=config.head_start))


def _fedavg(config: Config, length: int) -> Algorithm:  # noqa: ARG001
    return FedAvg(_local(config))


def _disagreement(config: Config, length: int) -> Algorithm:  # noqa: ARG001
    return Disagreement(_local(config))


def _focus(config: Config, length: int) -> Algorithm:  # noqa: ARG001
    return Focus(_local(config), config.focus_alpha)


def _preprocess(config: Config, length: int) -> Algorithm:  # noqa: ARG001
    local = _local(config)
    benchmark = replace(local, steps=config.preprocess_steps)
    return Preprocess(local, benchmark, config.preprocess_threshold)


def _comm_fedbio(
    estimator: Callable[[Config, int], Estimator],
) -> Callable[[Config, int], Algorithm]:
    def build(config: Config, length: int) -> Algorithm:
        algorithm = CommFedBiO(estimator(config, length), _local(config), _outer(config))
        return _ahead(config, algorithm)

    return build


def _curvature(config: Config) -> CurvatureSettings:
    return CurvatureSettings(config.curvature, config.damping, config.curvature_batch)


def _iterative(config: Config, compressor: Compressor) -> Estimator:
    theorem = config.schedule == "theorem"
    return Iterative(
        feedback_for(compressor),
        config.iterations,
        Theorem(config.mu, config.shift) if theorem else Constant(config.solver_lr),
        _curvature(config),
        warm_start=config.warm_start,
        resample=config.resample,
        check_residual=config.check_residual,
        seed=config.seed,
    )


def _topk(config: Config, length: int) -> Estimator:
    return _iterative(config, TopK.at_rate(length, config.rate))


def _sketch(config: Config, length: int) -> Estimator:
    return _iterative(config, _count_sketch(config, length))


def _count_sketch(config: Config, length: int) -> CountSketch:
    sketch = CountSketch.at_rate(length, config.rate, config.sketch_rows, config.seed)
    return replace(sketch, heavy=config.heavy or None)


def _single_loop(config: Config, length: int) -> Algorithm:
    topk = TopK.at_rate(length, config.rate)
    # Top-k's error is kept by the client: it grows old between two cohorts, and takes its memory.
    kept = config.compressor == "topk" or (config.compressor == "auto" and not config.cohort)
    algorithm = SingleLoop(
        feedback_for(topk if kept else _count_sketch(config, length)),
        topk,
        config.solver_lr,
        _curvature(config),
        _local(config),
        _outer(config),
    )
    return _ahead(config, algorithm)


def _non_iterative(config: Config, length: int) -> Estimator:
    ratio = 1 if config.system == "galerkin" else 2
    r1, r2 = NonIterative.rows_at_rate(length, config.rate, ratio)
    r1 = config.r1 or r1
    r2 = config.r2 or (ratio * r1 if config.r1 else r2)
    if r1 > length:
        raise ConfigError(f"r1 is {r1} but the model has {length} parameters; lower r1")
    return NonIterative(
        r1,
        r2,
        _curvature(config),
        config.system,
        fresh_seeds=config.fresh_seeds,
        check_residual=config.check_residual,
        seed=config.seed,
    )


METHODS: dict[str, Method] = {
    "fedavg": Method(_fedavg, "plain federated averaging on the labels as they are"),
    "oracle": Method(
        _fedavg, "federated averaging on the correctly labelled samples only", needs_truth=True
    ),
    "focus": Method(_focus, "FedAvg with clients weighed by their credibility"),
    "preprocess": Method(
        _preprocess, "FedAvg on what a benchmark model finds easy", learns_weights=True
    ),
    "disagreement": Method(
        _disagreement, "FedAvg; suspects where its best model says otherwise", learns_weights=True
    ),
    "single-loop": Method(
        _single_loop, "ours: Algorithm 1 in one exchange a round", learns_weights=True
    ),
    "iter-topk": Method(
        _comm_fedbio(_topk), "Comm-FedBiO, Algorithm 2 with local Top-k", learns_weights=True
    ),
    "iter-sketch": Method(
        _comm_fedbio(_sketch), "Comm-FedBiO, Algorithm 2 with Count-Sketch", learns_weights=True
    ),
    "non-iter": Method(
        _comm_fedbio(_non_iterative), "Comm-FedBiO, Algorithm 3", learns_weights=True
    ),
}
