"""The three noise models of out-of-fold, each a step further in every round.

| model     | β    | fitted to what is said of a site's samples by                                |
|-----------|------|------------------------------------------------------------------------------|
| `PLAIN`   | 0    | heads of the clean set, before any label of the site was trained on          |
| `FREE`    | free | the same                                                                     |
| `TRAINED` | free | the heads as they train, out of fold                                         |

`PLAIN` makes the targets. `FREE` and `TRAINED` err on different sides. Clean heads know nothing of
the labels, but if the clean set is small they are weak, and then right labels that they do not
expect look like wrong ones that follow the sample: β comes out too high. Trained heads are as good
as the model, but heads of one chain teach each other, so that labels look a little too right.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedsift.problem.noise_model import Confusion, Sums, shared_step, site_steps

PLAIN, FREE, TRAINED = range(3)
COUNT = 3


@dataclass(frozen=True, eq=False)
class NoiseModels:
    """A [3, C, C] and β [3], in float64 on the CPU."""

    matrices: Tensor
    betas: Tensor

    @classmethod
    def start(cls, classes: int) -> NoiseModels:
        """Return what the first step starts from."""
        matrix = Confusion.start(classes).matrix
        return cls(matrix.repeat(COUNT, 1, 1), torch.zeros(COUNT, dtype=torch.float64))

    @classmethod
    def of(cls, matrices: Tensor, betas: Tensor) -> NoiseModels:
        """Return the models of arrays, wherever these are."""
        return cls(matrices.cpu(), betas.cpu())

    def __getitem__(self, which: int) -> Confusion:
        return Confusion(self.matrices[which], float(self.betas[which]))

    def at_site(
        self, rates: Tensor, unseen: Tensor, recent: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Step a site's rates [3]; return them, and its sums, a row per model."""
        logs = torch.stack([unseen, unseen, recent])
        return site_steps(self.matrices, self.betas, rates.cpu(), logs, labels)

    def stepped(self, sums: Tensor) -> NoiseModels:
        """Step all A and β by the sums of all sites."""
        classes = self.matrices.shape[1]
        found = [
            shared_step(self[i], Sums.unpacked(sums[i], classes), free=i != PLAIN)
            for i in range(COUNT)
        ]
        betas = torch.tensor([model.beta for model in found], dtype=torch.float64)
        return NoiseModels(torch.stack([model.matrix for model in found]), betas)
