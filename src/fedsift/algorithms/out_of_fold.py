"""Out of fold (ours): linear heads, each of which judges only what it was not trained on.

    head (k, f)   trains on the clean samples outside fold k, and on site samples outside fold f
    clean i       is judged by the heads (k_i, ·)               k_i: its fold
    site's i      gets its target for chain k from head (k, f_i), and is judged by all (·, f_i)

Targets of chain k come from chain k: across chains they would carry the clean labels of fold k into
the heads that are judged on them.

    Before round 0  heads on the clean set alone, stopped by their judged loss; step size 1/L
    Round           one exchange: T steps on soft targets q_ic ∝ softmax(z_i / τ)_c P(ỹ_i | c)
                    at every site, and at the server on the clean set as one more client; in the
                    same exchange a step of the noise model (``problem/noise_model.py``)
    Model           the mean of the heads, which for linear heads is the mean of their logits

τ is the temperature of lowest judged loss, fitted anew every round. The noise model is fitted to
what the clean heads say of a site's samples, before any label of the site was trained on; it
converges while the heads train. Two folds each are the fewest that leave everything judged, and
more are no better (``docs/decisions.md``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from fedsift.algorithms.clean_only import FOLDS, PATIENCE, CleanOnlyKeys
from fedsift.algorithms.fedavg import BatchKeys, draw_cohort
from fedsift.algorithms.method import Method
from fedsift.algorithms.state import RoundInfo, Server, ServerState
from fedsift.errors import ConfigError, RunError
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Answers, Federation, Request, scalars_of
from fedsift.problem.folds import clean_folds
from fedsift.problem.linear_head import LinearHead, logits, step_size, stepped
from fedsift.problem.noise_model import Confusion, Sums, shared_step
from fedsift.problem.sgd import LocalSteps, minibatches
from fedsift.problem.temperature import fit_temperature
from fedsift.randomness import generator


@dataclass(frozen=True)
class Judging:
    """What sites need besides the heads; ``share``: they may tell sums of their labels."""

    temperature: float
    beta: float
    share: bool
    l2: float


class Judged(NamedTuple):
    """The clean samples by heads that were not trained on them, and the two noise models.

    ``prior_accuracy`` is the judged one of the clean heads before any round.
    """

    probabilities: Tensor
    labels: Tensor
    plain: Confusion
    free: Confusion
    prior_accuracy: float


@dataclass(frozen=True)
class OutOfFold:
    """One exchange per round; ``clean`` x ``site`` heads."""

    local: LocalSteps = LocalSteps()
    limit: int = 2000
    share: bool = True
    clean: int = 2
    site: int = 2

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        head, arrays = LinearHead.of(server.problem), dict[str, Tensor]()
        if not state.own:
            state, arrays["prior"] = self._open(head, server, state)
        kept = state.own
        local = replace(self.local, lr=float(kept["step"]))

        # Step 1: judge the clean samples; the one exchange.
        judged = self.judged(server, state)
        p, labels = judged.probabilities.double().cpu(), judged.labels.cpu()
        temperature = fit_temperature(p.numpy(), labels.numpy())
        arrays |= {name: kept[name] for name in ("heads", "centre", "noise")}
        judging = Judging(temperature, judged.free.beta, self.share, _l2(server))
        cohort = draw_cohort(federation, server, k)
        answers = cohort.ask(Request("fold-step", k, arrays, scalars_of(local, judging)))

        # Step 2: the heads, the clean set being one more client.
        own = self._clean_steps(head, server, kept, local, k) - kept["heads"]
        sites, n = sum(r.num_samples for r in answers.replies), len(labels)
        heads = kept["heads"] + (sites * answers.mean("update") + n * own) / (sites + n)
        if not bool(torch.isfinite(heads).all()):
            raise RunError(
                f"the heads are no longer finite after round {k + 1}; scale the features of the "
                "sites as those of the clean set are"
            )

        # Step 3: the noise model.
        noise = self._noise(judged, answers)
        y = head.flat(heads.mean(dim=(0, 1)), kept["centre"])
        metrics = {
            "train_loss": answers.mean_scalar("loss"),
            "judged_loss": float(-p[torch.arange(n), labels].clamp(min=1e-30).log().mean()),
            "judged_accuracy": float((p.argmax(dim=1) == labels).double().mean()),
            "temperature": temperature,
            "beta": float(noise["beta"]),
        }
        state = ServerState(y, state.x, state.solver, {**kept, "heads": heads, **noise})
        return RoundInfo(metrics, answers.events), state

    def judged(self, server: Server, state: ServerState) -> Judged:
        """Judge every clean sample by the heads that were not trained on it."""
        kept, batch = state.own, server.validation
        features = LinearHead.of(server.problem).centred(batch.inputs, kept["centre"])
        z = _judged_logits(kept["heads"].mean(dim=1), features, kept["folds"])
        plain, free = (Confusion(matrix.cpu()) for matrix in kept["noise"])
        free = replace(free, beta=float(kept["beta"]))
        known = float(kept["prior_accuracy"])
        return Judged(z.softmax(dim=1), batch.labels, plain, free, known)

    def closing(self, state: ServerState) -> Mapping[str, Tensor]:
        """Return what a site needs, besides y, to judge its own samples."""
        return {name: state.own[name] for name in ("heads", "centre")}

    def _open(
        self, head: LinearHead, server: Server, state: ServerState
    ) -> tuple[ServerState, Tensor]:
        """Train heads on the clean set; return also the one that judges the sites at first.

        That one may be fitted to all of it: no site's label is in it, and no clean sample is judged
        by it.
        """
        batch = server.validation
        centre = head.centre(batch.inputs)
        features = head.centred(batch.inputs, centre)
        # The loss is convex: a random start would only leave its noise in what steps do not reach.
        step, start = step_size(features, _l2(server)), features.new_zeros(head.shape)
        local = replace(self.local, lr=step)
        found = {}
        for name, count in (("prior", FOLDS), ("heads", self.clean)):
            folds = clean_folds(batch.inputs, batch.labels, count).to(batch.labels.device)
            _check_folds(folds, count)
            found[name] = folds, self._fit(server, features, folds, start, local, name)
        folds, prior = found["prior"]
        p = _judged_logits(prior, features, folds).softmax(dim=1).double().cpu()
        temperature = fit_temperature(p.numpy(), batch.labels.cpu().numpy())
        folds, chains = found["heads"]
        heads = chains[:, None].repeat(1, self.site, 1, 1)
        noise = Confusion.start(head.classes).matrix
        kept = {
            "heads": heads,
            "centre": centre,
            "folds": folds,
            "step": torch.tensor(step, dtype=torch.float64),
            "noise": torch.stack([noise, noise]),
            "beta": torch.zeros((), dtype=torch.float64),
            "prior_accuracy": (p.argmax(dim=1) == batch.labels.cpu()).double().mean(),
        }
        return replace(state, own=kept), prior.mean(dim=0) / temperature

    def _fit(
        self,
        server: Server,
        features: Tensor,
        folds: Tensor,
        start: Tensor,
        local: LocalSteps,
        name: str,
    ) -> Tensor:
        """Train a head per fold on the other folds; return those of lowest judged loss."""
        count, labels = int(folds.max()) + 1, server.validation.labels
        source = generator(server.seed, f"{name} batches")
        heads = start.repeat(count, 1, 1)
        best, lowest, since = heads, float("inf"), 0
        for _ in range(max(1, self.limit // local.steps)):
            heads = _clean_sgd(heads, features, labels, folds, local, _l2(server), source)
            loss = float(cross_entropy(_judged_logits(heads, features, folds), labels))
            since += 1
            if loss < lowest:
                best, lowest, since = heads, loss, 0
            if since >= PATIENCE:
                break
        return best

    def _clean_steps(
        self,
        head: LinearHead,
        server: Server,
        kept: Mapping[str, Tensor],
        local: LocalSteps,
        k: int,
    ) -> Tensor:
        """Take the round's local steps on the clean set."""
        batch, source = server.validation, generator(server.seed, k, "clean batches")
        features = head.centred(batch.inputs, kept["centre"])
        return _clean_sgd(
            kept["heads"], features, batch.labels, kept["folds"], local, _l2(server), source
        )

    def _noise(self, judged: Judged, answers: Answers) -> dict[str, Tensor]:
        """Step both noise models by the sums of the sites that replied."""
        models, classes = [judged.plain, judged.free], len(judged.plain.matrix)
        if self.share:
            rows = [p.cpu() for p in answers.payloads("sums") if isinstance(p, Tensor)]
            for i, free in enumerate((False, True)):
                total = Sums.unpacked(torch.stack([row[i] for row in rows]).sum(dim=0), classes)
                models[i] = shared_step(models[i], total, free=free)
        device = judged.labels.device
        return {
            "noise": torch.stack([model.matrix for model in models]).to(device),
            "beta": torch.tensor(models[1].beta, dtype=torch.float64),
        }


def _clean_sgd(
    heads: Tensor,
    features: Tensor,
    labels: Tensor,
    folds: Tensor,
    local: LocalSteps,
    l2: float,
    source: torch.Generator,
) -> Tensor:
    """Take T steps of heads [K, ..., C, D + 1] on the clean samples outside their folds."""
    seen = (folds[:, None] != torch.arange(len(heads), device=folds.device)).to(heads.dtype)
    for at in minibatches(len(labels), local, source, labels.device):
        x, given, weights = (
            (part if at is None else part[at]) for part in (features, labels, seen)
        )
        weights = weights / weights.sum(dim=0).clamp(min=1)
        shape = (*weights.shape, *[1] * (heads.ndim - 2))
        target = one_hot(given, heads.shape[-2]).view(len(given), *[1] * (heads.ndim - 2), -1)
        residuals = (logits(heads, x).softmax(dim=-1) - target) * weights.view(shape)
        heads = stepped(heads, x, residuals, local.lr, l2)
    return heads


def _judged_logits(heads: Tensor, features: Tensor, folds: Tensor) -> Tensor:
    """Return the logits [n, C] of every sample under the head of its fold, heads [K, C, D + 1]."""
    every = torch.arange(len(features), device=features.device)
    return logits(heads, features)[every, folds]


def _check_folds(folds: Tensor, count: int) -> None:
    if int(folds.max()) < 1:
        raise ConfigError(
            f"the validation set has {len(folds)} samples, too few to train {count} heads on some "
            "and judge them on others; give a larger one"
        )


def _l2(server: Server) -> float:
    return float(getattr(server.problem, "l2", 0.0))


@dataclass(frozen=True)
class FoldKeys(Keys):
    """What sites tell of their labels."""

    table: ClassVar[str] = "inner"
    share_noise: bool = key(
        True, "one noise model for all sites, from sums over their labels; false: each its own"
    )


def build(settings: Settings, context: BuildContext) -> OutOfFold:  # noqa: ARG001
    """Build it from its keys; the step size comes from the clean set."""
    steps, limit = settings[BatchKeys], settings[CleanOnlyKeys].clean_steps
    local = LocalSteps(steps.local_steps, batch_size=steps.batch_size)
    return OutOfFold(local, limit, settings[FoldKeys].share_noise)


METHOD = Method(
    "ours, for linear heads on fixed features: heads that judge only what they were not trained on",
    (BatchKeys, CleanOnlyKeys, FoldKeys),
    build,
    learns_weights=True,
    check=LinearHead.of,
)
