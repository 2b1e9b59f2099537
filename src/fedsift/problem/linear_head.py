"""Linear heads on fixed features, several at once: softmax regression in one product of matrices.

    z_ih = W_h [x_i − μ, 1]           logits of sample i under head h;  W_h is [C, D + 1]
    W_h ← W_h − γ (Σ_i r_ih [x_i − μ, 1]ᵀ + l2 W_h)       a step;  r_ih: weighted p − target

| symbol | meaning                                                                              |
|--------|--------------------------------------------------------------------------------------|
| x_i    | what the model's last layer gets; the rest of the model is frozen                     |
| μ      | mean of the features over the clean set: without it the largest curvature is that of |
|        | the mean direction, and a step that suits it is many times too small for all others  |
| γ      | 1/L, L = λ_max/2 + l2: Böhning's (1992) bound, by the clean samples' features         |

The last column of W is the intercept of the centred features, and is not penalised. y, the
parameters as the model has them, is (W without that column, intercept − W μ).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedsift.errors import ConfigError
from fedsift.memory import aligned
from fedsift.problem.flat_model import FlatModel
from fedsift.problem.protocol import Problem
from fedsift.problem.reweighting import Reweighting

REFUSED = (
    "out-of-fold needs a model of which only the last layer is trained, an nn.Linear on fixed "
    "features; freeze all other layers, or use the method posterior"
)


@dataclass(frozen=True, eq=False)
class LinearHead:
    """The last layer of a model whose other parameters are frozen."""

    model: FlatModel
    layer: nn.Linear
    plain: bool

    @classmethod
    def of(cls, problem: Problem) -> LinearHead:
        """Find the head, or refuse a problem whose model is more than one."""
        model = problem.model if isinstance(problem, Reweighting) else None
        if model is None:
            raise ConfigError(REFUSED)
        path = model.names[0].rpartition(".")[0]
        own = [f"{path}.{name}".lstrip(".") for name in ("weight", "bias")]
        layer = model.module.get_submodule(path)
        if type(layer) is not nn.Linear or model.names not in (own, own[:1]):
            raise ConfigError(REFUSED)
        module = model.module
        kinds = [type(part) for part in module] if type(module) is nn.Sequential else []
        return cls(model, layer, module is layer or kinds == [nn.Flatten, nn.Linear])

    @property
    def biased(self) -> bool:
        """Whether it has an intercept."""
        return len(self.model.names) > 1

    @property
    def classes(self) -> int:
        """C."""
        return self.layer.out_features

    @property
    def width(self) -> int:
        """D, the number of features."""
        return self.layer.in_features

    @property
    def shape(self) -> tuple[int, int]:
        """Of W: [C, D + 1]."""
        return self.classes, self.width + 1

    @torch.no_grad()
    def features(self, inputs: Tensor) -> Tensor:
        """Return what the head gets for these inputs."""
        if self.plain:
            return inputs.flatten(1)
        seen: list[Tensor] = []
        handle = self.layer.register_forward_pre_hook(
            lambda _, given, named: seen.extend((*given, *named.values())), with_kwargs=True
        )
        try:
            outputs = self.model(self.model.initial(), inputs)
        finally:
            handle.remove()
        fits = len(seen) == 1 and seen[0].ndim == 2 and seen[0].dtype == self.layer.weight.dtype
        own = self.layer(seen[0]) if fits else outputs[:0]
        if own.shape != outputs.shape or not torch.allclose(outputs, own, rtol=1e-3, atol=1e-4):
            raise ConfigError(REFUSED)
        return seen[0]

    def centred(self, inputs: Tensor, centre: Tensor) -> Tensor:
        """Return [x − μ, 1] of every input."""
        x = self.features(inputs)
        out = x.new_empty(len(x), self.width + 1)
        torch.sub(x, centre, out=out[:, :-1])
        out[:, -1] = float(self.biased)
        return out

    def centre(self, inputs: Tensor) -> Tensor:
        """Return μ; zero where the head has no intercept that could make up for it."""
        x = self.features(inputs)
        return x.mean(dim=0) if self.biased else x.new_zeros(x.shape[1])

    def flat(self, head: Tensor, centre: Tensor) -> Tensor:
        """Return the model's parameters of W [C, D + 1]."""
        weight, intercept = head[:, :-1], head[:, -1]
        if not self.biased:
            return aligned(weight.flatten())
        return torch.cat([weight.flatten(), intercept - weight @ centre])


def logits(heads: Tensor, features: Tensor) -> Tensor:
    """Return [n, ..., C] under heads [..., C, D + 1], in one product."""
    out = features @ heads.reshape(-1, heads.shape[-1]).mT
    return out.view(len(features), *heads.shape[:-1])


def stepped(heads: Tensor, features: Tensor, residuals: Tensor, lr: float, l2: float) -> Tensor:
    """Return the heads after a step; ``residuals`` are [n, ..., C], weights and all."""
    flat = residuals.reshape(len(features), -1)
    gradient = (flat.mT @ features).view_as(heads)
    if l2:
        gradient[..., :-1].add_(heads[..., :-1], alpha=l2)
    return heads.sub(gradient, alpha=lr)


def step_size(features: Tensor, l2: float) -> float:
    """Return 1/L, by the bound H ≼ ½ (I − 11ᵀ/C) ⊗ XᵀX/n on the softmax's Hessian."""
    x = features.double().cpu()
    gram = x.mT @ x if x.shape[0] > x.shape[1] else x @ x.mT
    largest = float(torch.linalg.eigvalsh(gram)[-1]) / len(x)
    return 1 / (largest / 2 + l2) if largest > 0 else 1.0
