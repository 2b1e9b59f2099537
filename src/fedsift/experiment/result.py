"""What a run leaves, in memory or in a folder: ``fit`` returns it, ``load`` reads it.

A result that was saved and loaded gives the same tables. Its model needs the module that was
trained: one that a configuration names is built again, one's own is given to ``load``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor, nn

from fedsift.algorithms.registry import METHODS
from fedsift.audit import SiteAudit, SiteSummary
from fedsift.errors import DataError

Site = str | int
"""A site's name, or its position among the sites."""


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A finished run: the trained model, a row per round, every site's audit.

    ``fs.fit`` returns it and ``fs.load`` reads it. Sites are named, or counted from 0.

    Attributes:
        summary: What ``summary.json`` has: method, accuracies, traffic, notices.
        rounds: The record of every round.
        audits: The audit of every site.

    Examples:
        >>> import torch, fedsift as fs
        >>> X = torch.randn(90, 4, generator=torch.Generator().manual_seed(0))
        >>> y = (X[:, 0] > 0).long()
        >>> sites = {"north": (X[:30], y[:30]), "south": (X[30:60], y[30:60])}
        >>> federation = fs.simulate(torch.nn.Linear(4, 2), sites, validation=(X[60:], y[60:]))
        >>> result = fs.fit(federation, rounds=2)
        >>> result.sites
        ('north', 'south')
        >>> list(result.label_issues())[:5]
        ['site', 'index', 'id', 'given_label', 'predicted_label']
        >>> share = result.site_summary("north").wrong
        >>> share.low <= share.estimate <= share.high
        True
        >>> result.pred_probs("north").shape
        torch.Size([30, 2])
    """

    summary: dict[str, Any]
    rounds: Sequence[dict[str, Any]]
    audits: Sequence[SiteAudit]
    make_model: Callable[[], nn.Module]
    write: Callable[[Path], None]

    @cached_property
    def history(self) -> pd.DataFrame:
        """A row per round."""
        return pd.DataFrame(self.rounds)

    @cached_property
    def model(self) -> nn.Module:
        """The trained model, on the CPU."""
        return self.make_model()

    @property
    def diagnosis(self) -> dict[str, Any] | None:
        """Which estimator of the hypergradient fits, with its numbers; None without ``diagnose``.

        ``diagnosis["advice"]`` says it in words.
        """
        found: dict[str, Any] | None = self.summary.get("diagnosis")
        return found

    @property
    def sites(self) -> tuple[str, ...]:
        """The names of the sites whose labels were audited."""
        return tuple(audit.site for audit in self.audits)

    def label_issues(self, client: Site | None = None) -> pd.DataFrame:
        """Return the samples of a site, the most suspicious label first.

        Args:
            client: A site's name or position; None: the samples of all sites.

        Returns:
            A row per sample: ``site``, ``index``, ``id``, ``given_label``, ``predicted_label``,
            ``label_score`` (the probability that the label is right), ``is_label_issue`` (the
            score is below 0.5), ``confidence`` and ``weight``; then the columns of a table that
            ``fs.read`` has read.
        """
        if client is not None:
            return self._audit(client).table
        tables = [self._audit(site).table for site in self._known()]
        together = pd.concat(tables, ignore_index=True)
        return together.sort_values("label_score", kind="stable", ignore_index=True)

    def weights(self, client: Site) -> Tensor:
        """Return the learned weights of a site's samples, in [0, 1] and in the order of the site.

        Args:
            client: A site's name or position.

        Returns:
            A number per sample; low is bad.
        """
        return self._audit(client).record.weights

    def pred_probs(self, client: Site) -> Tensor:
        """Return the probability of every class for a site's samples, as the audit has it.

        It is the trained model's; with out-of-fold that of heads which have not seen the sample.

        Args:
            client: A site's name or position.

        Returns:
            A row per sample, a column per class.
        """
        return self._audit(client).record.probabilities

    def site_summary(self, client: Site) -> SiteSummary:
        """Return how many of a site's labels are wrong, by class, and which are confused.

        Args:
            client: A site's name or position.

        Returns:
            ``wrong`` is the share of wrong labels with its 95 % interval (``estimate``, ``low``,
            ``high``), ``flagged`` how many labels have a score below 0.5.
        """
        return self._audit(client).summary

    def save(self, folder: str | Path) -> Path:
        """Write a run folder, which ``fs.load`` and the command line read.

        Args:
            folder: A folder that holds no run yet.

        Returns:
            The folder.
        """
        path = Path(folder)
        self.write(path)
        return path

    def _known(self) -> tuple[str, ...]:
        if not self.audits:
            able = ", ".join(name for name, method in METHODS.items() if method.learns_weights)
            raise DataError(f"{self.summary['method']} learns no weights; fit with one of {able}")
        return self.sites

    def _audit(self, client: Site) -> SiteAudit:
        sites = self._known()
        if isinstance(client, str) and client in sites:
            return self.audits[sites.index(client)]
        if type(client) is int and 0 <= client < len(sites):
            return self.audits[client]
        raise DataError(f"there is no site {client!r}; it must be one of {', '.join(sites)}")

    def __repr__(self) -> str:
        figures = [
            f"{name.replace('_', ' ')} {value:.3f}"
            for name in ("validation_accuracy", "test_accuracy", "f1")
            if isinstance(value := self.summary.get(name), float)
        ]
        by = self.summary.get("chosen", {}).get("by")
        chosen = f", which {by} chose," if by else ""
        lines = [
            f"Result of {self.summary['method']}{chosen} after {self.summary['rounds']} rounds",
            f"  {', '.join(figures)}",
        ]
        if self.audits:
            total = sum(audit.summary.samples for audit in self.audits)
            flagged = sum(audit.summary.flagged for audit in self.audits)
            lines.append(f"  {flagged} of {total} labels at {len(self.audits)} sites look wrong")
            lines.append("  .label_issues() lists them, .site_summary(site) counts them")
        lines.append("  .model is trained, .history has a row per round, .save(folder) keeps all")
        return "\n".join(lines)
