"""The table of estimators that Algorithm 1 can run with: a new one is one file and one row here.

Every row is a method too, under its name (``algorithms/registry.py``).
"""

from __future__ import annotations

from fedsift.hypergradient.iterative import ITER_SKETCH, ITER_TOPK
from fedsift.hypergradient.no_hessian import NO_HESSIAN
from fedsift.hypergradient.non_iterative import NON_ITER
from fedsift.hypergradient.nystrom import NYSTROM
from fedsift.hypergradient.series import CG, NEUMANN
from fedsift.hypergradient.settings import EstimatorRow

ESTIMATORS: dict[str, EstimatorRow] = {
    "iter-topk": ITER_TOPK,
    "iter-sketch": ITER_SKETCH,
    "non-iter": NON_ITER,
    "no-hessian": NO_HESSIAN,
    "cg": CG,
    "neumann": NEUMANN,
    "nystrom": NYSTROM,
}
