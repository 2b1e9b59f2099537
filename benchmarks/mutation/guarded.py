"""Which modules are mutated, and which tests must notice: one row each.

Paths are below ``src/fedsift`` and ``tests``. ``only`` limits a row to these classes and functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedsift.errors import InputError

ROOT = Path(__file__).parents[2]
MATHEMATICS, WIRE, SECURITY = "mathematics", "wire", "security"
KEYS = "algorithms/test_registry.py"  # what a method reads, and its defaults
SHARES = {MATHEMATICS: 0.6, WIRE: 0.2, SECURITY: 0.2}  # of a sample


@dataclass(frozen=True)
class Guarded:
    """A module and the tests that guard it."""

    group: str
    module: str
    tests: tuple[str, ...]
    only: tuple[str, ...] = ()

    @property
    def source(self) -> Path:
        """The module's file."""
        return ROOT / "src" / "fedsift" / self.module

    @property
    def test_paths(self) -> tuple[Path, ...]:
        """The tests' files and folders."""
        return tuple(ROOT / "tests" / name for name in self.tests)


def _rows(group: str, *rows: tuple[str, str] | tuple[str, str, str]) -> tuple[Guarded, ...]:
    return tuple(
        Guarded(group, module, tuple(tests.split()), tuple(" ".join(only).split()))
        for module, tests, *only in rows
    )


GUARDED = (
    *_rows(
        MATHEMATICS,
        ("problem/curvature.py", "problem/test_curvature.py"),
        ("problem/tangents.py", "problem/test_curvature.py problem/test_zoo.py"),
        ("problem/plain_kernels.py", "problem/test_plain_kernels.py"),
        ("problem/bootstrap.py", "problem/test_reweighting.py problem/test_curvature.py"),
        ("problem/derivatives.py", "problem"),
        ("problem/sgd.py", "algorithms/test_fedavg.py federation/test_stacked.py"),
        ("problem/reweighting.py", "problem/test_reweighting.py problem/test_curvature.py"),
        ("problem/sample_losses.py", "problem/test_sample_losses.py algorithms/test_preprocess.py"),
        ("problem/flat_model.py", "problem/test_reweighting.py problem/test_curvature.py"),
        ("problem/stacked_model.py", "problem/test_stacked_model.py"),
        ("client/passes.py", "client/test_passes.py federation/test_pooled.py"),
        ("client/cross_sketch.py", "client/test_cross_sketch.py"),
        ("client/inputs.py", "client federation/test_pooled.py"),
        ("client/training.py", "client algorithms/test_fedavg.py algorithms/test_preprocess.py"),
        ("client/products.py", "client federation/test_pooled.py"),
        ("client/outer_step.py", "client algorithms/test_default_method.py"),
        ("client/single_loop.py", "federation/test_pooled.py algorithms/test_default_method.py"),
        (
            "client/baselines.py",
            "algorithms/test_focus.py algorithms/test_preprocess.py"
            " algorithms/test_disagreement.py",
        ),
        ("federation/pooled.py", "federation/test_pooled.py"),
        ("federation/stacked.py", "federation/test_stacked.py"),
        ("compress/topk.py", "compress/test_topk.py"),
        ("compress/count_sketch.py", f"compress/test_count_sketch.py {KEYS}"),
        ("compress/error_feedback.py", "compress/test_error_feedback.py"),
        ("compress/sketch_feedback.py", "compress/test_error_feedback.py"),
        ("compress/hashing.py", "compress/test_hashing.py compress/test_count_sketch.py"),
        (
            "compress/rotated_blocks.py",
            "compress/test_rotated_blocks.py compress/test_count_sketch.py",
        ),
        ("compress/sparse_embedding.py", "compress/test_sparse_embedding.py"),
        ("hypergradient/estimate.py", "hypergradient"),
        ("hypergradient/exact.py", "hypergradient/test_exact.py"),
        ("hypergradient/iterative.py", f"hypergradient {KEYS}"),
        ("hypergradient/non_iterative.py", f"hypergradient/test_non_iterative.py {KEYS}"),
        ("hypergradient/products.py", "hypergradient"),
        ("hypergradient/solver_step.py", "hypergradient algorithms/test_single_loop.py"),
        ("problem/largest_curvature.py", "problem/test_largest_curvature.py"),
        ("algorithms/step_trial.py", "algorithms/test_step_trial.py"),
        ("algorithms/found_steps.py", "algorithms/test_found_steps.py"),
        ("algorithms/clean_set.py", "algorithms/additions/test_head_start.py"),
        ("algorithms/additions/head_start.py", f"algorithms/additions/test_head_start.py {KEYS}"),
        (
            "algorithms/additions/self_paced.py",
            f"algorithms/additions algorithms/test_default_method.py {KEYS}",
        ),
        ("algorithms/outer_step.py", f"algorithms/test_outer_step.py client {KEYS}"),
        ("algorithms/comm_fedbio.py", f"algorithms/test_comm_fedbio.py client {KEYS}"),
        ("algorithms/disagreement.py", f"algorithms/test_disagreement.py {KEYS}"),
        (
            "algorithms/fedavg.py",
            f"algorithms/test_fedavg.py algorithms/test_comm_fedbio.py {KEYS}",
        ),
        ("algorithms/focus.py", f"algorithms/test_focus.py {KEYS}"),
        ("algorithms/glc.py", f"algorithms/test_glc.py {KEYS}"),
        ("algorithms/em.py", f"algorithms/test_em.py {KEYS}"),
        ("algorithms/gce.py", f"algorithms/test_gce.py {KEYS}"),
        ("algorithms/elr.py", f"algorithms/test_elr.py {KEYS}"),
        ("algorithms/fedelc.py", f"algorithms/test_fedelc.py {KEYS}"),
        ("algorithms/fedcorr.py", f"algorithms/test_fedcorr.py {KEYS}"),
        ("client/relabelling.py", "algorithms/test_fedcorr.py"),
        ("problem/intrinsic_dimension.py", "problem/test_intrinsic_dimension.py"),
        ("problem/mixture.py", "problem/test_mixture.py"),
        ("algorithms/clean_client.py", "algorithms/test_glc.py algorithms/test_em.py"),
        ("problem/robust_losses.py", "problem/test_robust_losses.py"),
        (
            "client/rivals.py",
            "algorithms/test_glc.py algorithms/test_em.py algorithms/test_gce.py"
            " algorithms/test_elr.py algorithms/test_fedelc.py",
        ),
        ("algorithms/preprocess.py", f"algorithms/test_preprocess.py {KEYS}"),
        ("algorithms/single_loop.py", f"algorithms/test_single_loop.py client {KEYS}"),
        ("algorithms/auto.py", "algorithms/test_auto.py"),
        ("memory.py", "test_memory.py"),
        ("audit/calibration.py", "audit/test_calibration.py"),
    ),
    *_rows(
        WIRE,
        ("compress/wire.py", "compress/test_wire.py"),
        ("federation/encoding.py", "federation/test_encoding.py federation/test_remote.py"),
        ("versioned.py", "test_versioned.py federation/test_encoding.py"),
    ),
    *_rows(
        SECURITY,
        ("audit/review/app.py", "audit/review/test_app.py", "guard page static image _body _label"),
        ("site/host.py", "site/test_host.py site/test_privacy.py", "Host _model _digest"),
        ("site/process.py", "site/test_process.py site/test_received_parts.py"),
        ("flower/programs.py", "flower/test_programs.py", "Address is_loopback"),
    ),
)


def check(rows: tuple[Guarded, ...] = GUARDED) -> None:
    """Refuse a table that names a file which is not there."""
    for row in rows:
        for path in (row.source, *row.test_paths):
            if not path.exists():
                raise InputError(
                    f"the row of {row.module} names {path.relative_to(ROOT)}, which does not "
                    "exist; correct benchmarks/mutation/guarded.py"
                )
