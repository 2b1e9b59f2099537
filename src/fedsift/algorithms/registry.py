"""The table of methods: a new one is one file and one row here.

Every estimator of ``hypergradient/registry.py`` is a method as well: Algorithm 1 with it.
"""

from __future__ import annotations

from fedsift.algorithms import (
    auto,
    clean_only,
    clean_step,
    disagreement,
    elr,
    em,
    fedavg,
    fedbioacc,
    fedcorr,
    fedelc,
    first_order,
    focus,
    gce,
    glc,
    out_of_fold,
    posterior,
    preprocess,
    simfbo,
    single_loop,
)
from fedsift.algorithms.comm_fedbio import with_estimator
from fedsift.algorithms.method import Method
from fedsift.hypergradient.registry import ESTIMATORS

METHODS: dict[str, Method] = {
    "auto": auto.METHOD,
    "fedavg": fedavg.FEDAVG,
    "oracle": fedavg.ORACLE,
    "clean-only": clean_only.METHOD,
    "focus": focus.METHOD,
    "preprocess": preprocess.METHOD,
    "disagreement": disagreement.METHOD,
    "glc": glc.METHOD,
    "em": em.METHOD,
    "gce": gce.METHOD,
    "elr": elr.METHOD,
    "fedelc": fedelc.METHOD,
    "fedcorr": fedcorr.METHOD,
    "single-loop": single_loop.METHOD,
    "first-order": first_order.METHOD,
    "clean-step": clean_step.METHOD,
    "simfbo": simfbo.METHOD,
    "fedbioacc": fedbioacc.METHOD,
    "out-of-fold": out_of_fold.METHOD,
    "posterior": posterior.METHOD,
    **{name: with_estimator(row) for name, row in ESTIMATORS.items()},
}
