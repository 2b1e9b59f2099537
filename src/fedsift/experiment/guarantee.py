"""What a run with differential privacy promises: a sentence, and its part of the summary."""

from __future__ import annotations

from typing import Any

from fedsift.experiment.setup import Setup


def guarantee(setup: Setup) -> list[str]:
    """Return the sentence on differential privacy, where there is any."""
    account = setup.account
    if account is None:
        return []
    seen = "the sums over sites" if setup.config.secure_sum else "the replies of the sites"
    return [
        f"{seen} are differentially private for each whole site: epsilon {account.epsilon():.3g} "
        f"at delta {account.delta:g}; the audit, N_m and who took part are not covered"
    ]


def private_summary(setup: Setup) -> dict[str, Any]:
    """Return the guarantee of differential privacy: for whom, of what, and how strong."""
    account, config = setup.account, setup.config
    if account is None:
        return {}
    return {
        "epsilon": account.epsilon(),
        "privacy": {
            "epsilon_replaced": account.epsilon(factor=2.0),
            "delta": account.delta,
            "releases": max(account.releases.values(), default=0),
            "noise": account.multiplier,
            "clip": config.dp_clip,
            "protects": "one whole site, there or not",
            "seen": "sums over sites" if config.secure_sum else "every reply of every site",
        },
    }
