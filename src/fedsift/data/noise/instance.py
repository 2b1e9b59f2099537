"""Instance noise: a weak model's confusions, on the samples that it finds hardest.

    p_i  = softmax(z(x_i))         z: the weak model of ``weak_model.py``, at its own temperature
    wrong: the round(ρn) samples of lowest p_i(true class)
    label: another class, drawn with probability ∝ p_i

So whether and how a label is wrong depends on the sample, as it does with people, and a model of
little data makes the same mistakes: the hardest noise here, and one that no noise matrix describes.
The weak model is trained on samples outside of the task, the same for all clients.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedsift.data.noise.about import About
from fedsift.data.noise.rate import how_many

TINY = 1e-12  # where the model is so sure of the true class that no other has a probability left

TEMPERATURE = (
    2.0  # a model of few samples is too sure: at 1, nearly all labels are its first choice
)


def instance(
    labels: Tensor, rate: float, classes: int, generator: torch.Generator, about: About
) -> Tensor:
    """Give exactly round(rate * n) samples a class that the weak model takes them for."""
    count, noisy = how_many(labels, rate, classes), labels.clone()
    if not count:
        return noisy
    p = about.outside.weak_model.logits(about.inputs).softmax(dim=1)
    own = p.gather(1, labels[:, None]).squeeze(1)
    chosen = own.argsort(stable=True)[:count]
    others = (p[chosen] + TINY).scatter(1, labels[chosen, None], 0.0)
    noisy[chosen] = torch.multinomial(others, 1, generator=generator).squeeze(1)
    return noisy
