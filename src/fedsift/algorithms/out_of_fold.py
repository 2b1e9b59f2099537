"""Out of fold (ours): linear heads, each of which judges only what it was not trained on.

    head (k, f)   trains on the clean samples outside fold k, and on site samples outside fold f
    clean i       is judged by the heads (k_i, ·)               k_i: its fold
    site's i      gets its target for chain k from head (k, f_i), and is judged by all (·, f_i)

Targets of chain k come from chain k: across chains they would carry the clean labels of fold k into
the heads that are judged on them.

    Before round 0  heads on the clean set alone, stopped by their judged loss; step size 1/L
    Round           one exchange: T steps on soft targets q_ic ∝ softmax(z_i / τ)_c P(ỹ_i | c)
                    at every site, and at the server on the clean set as one more client; in the
                    same exchange a step of the noise models (``problem/noise_models.py``)
    Model           the mean of the heads, which for linear heads is the mean of their logits; the
                    mean of the clean heads as long as their judged loss is lower

τ is the temperature of lowest judged loss, fitted anew every round. The noise model that makes the
targets is fitted to what the clean heads say of a site's samples, before any label of the site was
trained on; it converges while the heads train. Two folds each are the fewest that leave everything
judged, and more are no better (``docs/dev/decisions.md``). With ``learns`` L2 is an outer variable
that the judged loss moves, before round 0 and in every round (``learned_l2.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fedsift.algorithms.clean_heads import CleanSet, Judged
from fedsift.algorithms.clean_only import FOLDS, CleanOnlyKeys
from fedsift.algorithms.fedavg import BatchKeys, draw_cohort
from fedsift.algorithms.learned_l2 import LearnedL2
from fedsift.algorithms.method import Method
from fedsift.algorithms.outer_step import ScoredKeys, Scoring
from fedsift.algorithms.state import RoundInfo, Server, ServerState
from fedsift.errors import RunError
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Answers, Federation, Request, scalars_of
from fedsift.problem.linear_head import LinearHead, step_size
from fedsift.problem.noise_models import FREE, TRAINED, NoiseModels
from fedsift.problem.sgd import LocalSteps
from fedsift.randomness import generator


@dataclass(frozen=True)
class Judging:
    """What sites need besides the heads; ``share``: they may tell sums of their labels."""

    temperature: float
    share: bool
    l2: float


@dataclass(frozen=True)
class OutOfFold:
    """One exchange per round; ``clean`` x ``site`` heads."""

    local: LocalSteps = LocalSteps()
    limit: int = 2000
    share: bool = True
    learns: bool = False
    clean: int = 2
    site: int = 2
    scored: int = 0

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        head, arrays = LinearHead.of(server.problem), dict[str, Tensor]()
        if not state.own:
            state, arrays["prior"] = self._open(head, server, state)
        kept = state.own
        clean = CleanSet.of(server, kept["centre"], float(kept["l2"]) if self.learns else None)
        local = replace(self.local, lr=float(kept["step"]))

        # Step 1: the one exchange.
        arrays |= {name: kept[name] for name in ("heads", "centre", "noise", "betas")}
        judging = Judging(float(kept["temperature"]), self.share, clean.l2)
        cohort = draw_cohort(federation, server, k)
        answers = cohort.ask(
            Request("fold-step", k, arrays, scalars_of(local, judging, Scoring(self.scored)))
        )

        # Step 2: the heads, the clean set being one more client.
        source = generator(server.seed, k, "clean batches")
        own = clean.sgd(kept["heads"], kept["folds"], local, source) - kept["heads"]
        sites, n = sum(r.num_samples for r in answers.replies), len(clean.labels)
        heads = kept["heads"] + (sites * answers.mean("update") + n * own) / (sites + n)
        if not bool(torch.isfinite(heads).all()):
            raise RunError(
                f"the heads are no longer finite after round {k + 1}; scale the features of the "
                "sites as those of the clean set are"
            )

        # Step 3: the noise models, L2, and what the heads are worth.
        noise = self._noise(kept, answers)
        chains = heads.mean(dim=1)
        if self.learns:
            strength = LearnedL2.of(kept)
            moved = strength.moved(chains, clean.features, clean.labels, kept["folds"], local)
            noise |= moved.arrays()
        judged = clean.judged(chains, kept["folds"])
        helped = judged.loss <= float(kept["clean_loss"])
        y = head.flat(heads.mean(dim=(0, 1)) if helped else kept["prior"], kept["centre"])
        metrics = {
            "train_loss": answers.mean_scalar("loss"),
            "judged_loss": judged.loss,
            "judged_accuracy": judged.accuracy,
            "clean_loss": float(kept["clean_loss"]),
            "training_helped": float(helped),
            "temperature": judged.temperature,
            "beta": float(noise["betas"][FREE]),
            "trained_beta": float(noise["betas"][TRAINED]),
            "l2": clean.l2,
        }
        temperature = torch.tensor(judged.temperature, dtype=torch.float64)
        own_state = {**kept, "heads": heads, "temperature": temperature, **noise}
        return RoundInfo(metrics, answers.events), replace(state, y=y, own=own_state)

    def judged(self, server: Server, state: ServerState) -> Judged:
        """Judge every clean sample by the heads that were not trained on it."""
        kept = state.own
        return CleanSet.of(server, kept["centre"]).judged(kept["heads"].mean(dim=1), kept["folds"])

    def noise(self, state: ServerState) -> NoiseModels:
        """Return the noise models."""
        return NoiseModels.of(state.own["noise"], state.own["betas"])

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
        inputs = server.validation.inputs
        centre = head.centre(inputs)
        clean = CleanSet.of(server, centre)
        # The loss is convex: a random start would only leave its noise in what steps do not reach.
        step, start = step_size(clean.features, clean.l2), clean.features.new_zeros(head.shape)
        local = replace(self.local, lr=step)
        found = {}
        for name, count in (("prior", FOLDS), ("heads", self.clean)):
            folds = clean.folds(inputs, count)
            heads, strength = clean.fit(folds, start, local, self.limit, name, learns=self.learns)
            found[name] = heads, folds, clean.judged(heads, folds)
        first, _, alone = found["prior"]
        chains, folds, judged = found["heads"]
        noise = NoiseModels.start(head.classes)
        numbers = {
            "step": step,
            "temperature": judged.temperature,
            "prior_accuracy": alone.accuracy,
            "clean_loss": alone.loss,
        }
        kept = {
            "heads": chains[:, None].repeat(1, self.site, 1, 1),
            "prior": first.mean(dim=0),
            "centre": centre,
            "folds": folds,
            "noise": noise.matrices,
            "betas": noise.betas,
            **{n: torch.tensor(value, dtype=torch.float64) for n, value in numbers.items()},
        }
        if self.learns:
            kept |= strength.arrays()
        return replace(state, own=kept), kept["prior"] / alone.temperature

    def _noise(self, kept: Mapping[str, Tensor], answers: Answers) -> dict[str, Tensor]:
        """Step the noise models by the sums of the sites that replied."""
        models = NoiseModels.of(kept["noise"], kept["betas"])
        if self.share:
            rows = [p.cpu() for p in answers.payloads("sums") if isinstance(p, Tensor)]
            models = models.stepped(torch.stack(rows).sum(dim=0))
        device = kept["heads"].device
        return {"noise": models.matrices.to(device), "betas": models.betas.to(device)}


@dataclass(frozen=True)
class FoldKeys(Keys):
    """What sites tell of their labels, and whether L2 is learned."""

    table: ClassVar[str] = "inner"
    share_noise: bool = key(
        True, "one noise model for all sites, from sums over their labels; false: each its own"
    )
    learn_l2: bool = key(
        False, "move l2 by the hypergradient of the loss on held-out clean samples"
    )


def build(settings: Settings, context: BuildContext) -> OutOfFold:  # noqa: ARG001
    """Build it from its keys; the step size comes from the clean set."""
    steps, limit = settings[BatchKeys], settings[CleanOnlyKeys].clean_steps
    local = LocalSteps(steps.local_steps, batch_size=steps.batch_size)
    own, scored = settings[FoldKeys], settings[ScoredKeys].scored
    return OutOfFold(local, limit, own.share_noise, own.learn_l2, scored=scored)


METHOD = Method(
    "ours, for linear heads on fixed features: heads that judge only what they were not trained on",
    (BatchKeys, CleanOnlyKeys, FoldKeys, ScoredKeys),
    build,
    learns_weights=True,
    check=LinearHead.of,
    asks="fold-step",
    sends_differences=True,
)
