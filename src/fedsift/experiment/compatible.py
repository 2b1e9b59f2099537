"""Which keys of a run cannot go together: refused before anything is trained."""

from __future__ import annotations

from fedsift.algorithms.registry import METHODS
from fedsift.client.private import PRIVATE
from fedsift.errors import ConfigError
from fedsift.experiment.config import Config
from fedsift.experiment.traffic import rates_of
from fedsift.federation.private import account_of
from fedsift.privacy import Account


def check_cohort(config: Config, clients: int) -> None:
    """Refuse more clients per round than there are."""
    if config.cohort > clients:
        raise ConfigError(f"cohort is {config.cohort} but there are {clients} clients; lower it")
    asked = config.cohort or clients
    if config.min_clients > asked:
        raise ConfigError(
            f"min_clients is {config.min_clients} but a round has {asked} clients; lower it"
        )


def check_private(config: Config) -> Account | None:
    """Return what counts the cost of noise; refuse what would tell of a site without any."""
    account = account_of(config, config.rounds)
    if account is None:
        return None
    able = [
        n for n, row in METHODS.items() if not row.choose and row.sequence.actions <= {*PRIVATE}
    ]
    if config.method not in able:
        raise ConfigError(
            f"the method {config.method} sends numbers that have no bound, so it cannot run with "
            f"dp_clip; these can: {', '.join(able)}"
        )
    if rates_of(config).update > 1:
        raise ConfigError(
            "with dp_clip every number of an update has noise, and Top-k would send the largest of "
            "that; set update_rate = 1"
        )
    for name in ("share_summary", "diagnose"):
        if config.value(name):
            raise ConfigError(
                f"{name} asks sites for numbers without noise; leave it out with dp_clip"
            )
    return account


def check_secure(config: Config) -> None:
    """Refuse secure sums where the server needs single replies, or where they cannot be summed."""
    if not METHODS[config.method].means_only:
        fitting = ", ".join(name for name, row in METHODS.items() if row.means_only)
        raise ConfigError(
            f"the method {config.method} needs single replies, so it cannot run with secure_sum; "
            f"these can: {fitting}"
        )
    if config.aggregation != "mean":
        raise ConfigError(
            f"the rule {config.aggregation} needs the replies of single sites, which secure_sum "
            "hides; use aggregation = mean"
        )
    compressor = config.values().get("compressor")
    if compressor == "auto" and config.method == "single-loop" and not config.cohort:
        compressor = "topk"  # that is what single-loop takes; cg and neumann compress nothing
    if rates_of(config).update > 1 or compressor == "topk":
        raise ConfigError(
            "Top-k keeps other places at every client, so it cannot be summed under masks; set "
            "update_rate = 1 and compressor = count-sketch with secure_sum"
        )
