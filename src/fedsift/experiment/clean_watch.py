"""The clean set against the model of all sites: which clean samples the model contradicts.

A clean sample is contradicted where the trained model gives another class at least ``SURE``. The
model was trained on the clean set too, so what it still contradicts is contradicted by the sites.
"""

from __future__ import annotations

from typing import Any

from fedsift.algorithms import ServerState
from fedsift.experiment.setup import Setup
from fedsift.problem.predict import predict

SURE = 0.8
MANY = 0.05  # share from which on it is said
LISTED = 1000


def watch(setup: Setup, state: ServerState) -> tuple[dict[str, Any], list[str]]:
    """Return what ``summary.json`` says of the clean set, and sentences for a person."""
    inputs, labels = setup.data.validation
    p = predict(setup.model, state.y, inputs).cpu()
    sure, predicted = p.max(dim=1)
    at = ((predicted != labels) & (sure >= SURE)).nonzero().flatten().tolist()
    names, kept = setup.data.class_names, setup.clean_kept
    rows = [
        {
            "position": n if kept is None else int(kept[n]),
            "given": names[int(labels[n])],
            "predicted": names[int(predicted[n])],
            "probability": round(float(sure[n]), 3),
        }
        for n in sorted(at, key=lambda n: -float(sure[n]))[:LISTED]
    ]
    share = len(at) / max(len(labels), 1)
    said = []
    if share > MANY:
        said.append(
            f"the model of all sites contradicts {len(at)} of the {len(labels)} clean samples, "
            "which it was trained on; `fedsift audit RUN --validation` lists them"
        )
    return {"contradicted": rows}, said
