"""Small models of every kind that users bring, with inputs for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, scaled_dot_product_attention

import fedsift as fs
from fedsift.problem.run_modes import FASTEST, RunModes
from fedsift.randomness import derive

CLASSES, WORDS = 3, 12


class LeNet(nn.Module):
    """A convolution, then ``view``: channels-last activations cannot be viewed so."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(2, 3, 3), nn.Linear(27, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = avg_pool2d(torch.tanh(self.conv(x)), 2)
        return self.out(x.view(len(x), -1))


class ResNet(nn.Module):
    """A stem and a residual block, with batch norms that have seen data."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(2, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv, self.norm2 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.shortcut, self.norm3 = nn.Conv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8)
        self.out = nn.Linear(8, CLASSES)
        with torch.no_grad():
            self.train()(torch.randn(16, 2, 8, 8))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.norm(self.stem(x)))
        x = self.norm3(self.shortcut(x)) + torch.tanh(self.norm2(self.conv(x)))
        return self.out(x.mean(dim=(2, 3)))


class ViT(nn.Module):
    """Patches by a convolution, fused attention as in timm."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.place = nn.Conv2d(2, 4, 4, stride=4), nn.Parameter(torch.randn(1, 4, 4))
        self.norm, self.qkv = nn.LayerNorm(4), nn.Linear(4, 12)
        self.out = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.place
        q, k, v = self.qkv(self.norm(x)).view(len(x), 4, 3, 2, 2).permute(2, 0, 3, 1, 4)
        x = x + scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.out(x.mean(dim=1))


class Recurrent(nn.Module):
    """Token ids through an LSTM or a GRU."""

    def __init__(self, kind: Callable[..., nn.Module] = nn.LSTM) -> None:
        super().__init__()
        self.words, self.rnn = nn.Embedding(WORDS, 3), kind(3, 4, batch_first=True)
        self.out = nn.Linear(4, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.rnn(self.words(tokens))[0][:, -1])


class Transformer(nn.Module):
    """Token ids through torch's own encoder layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 4)
        self.encoder = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.1, batch_first=True)
        self.out = nn.Linear(4, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.encoder(self.words(tokens)).mean(dim=1))


class Wrapped(nn.Module):
    """A bag of words whose output holds more than logits."""

    def __init__(self, wrap: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.words, self.out, self.wrap = nn.Embedding(WORDS, 4), nn.Linear(4, CLASSES), wrap

    def forward(self, tokens: Tensor) -> Any:
        return self.wrap(self.out(self.words(tokens).mean(dim=1)))


class LoRA(nn.Module):
    """A frozen linear layer and a low-rank adapter beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(5, 6).requires_grad_(False)
        self.down, self.up = nn.Linear(5, 2, bias=False), nn.Linear(2, 6, bias=False)
        self.out = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.base(x) + self.up(self.down(x))))


class _Cubed(torch.autograd.Function):
    """As users write them: a gradient, no forward mode, no second derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return 3 * ctx.saved_tensors[0] ** 2 * grad


class Cubed(nn.Module):
    """A layer of a function that has a gradient only."""

    def forward(self, x: Tensor) -> Tensor:
        return _Cubed.apply(x)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, CLASSES))


def resnet_frozen() -> nn.Module:
    model = ResNet()
    for norm in (model.norm, model.norm2, model.norm3):
        norm.requires_grad_(False)
    return model


def bag() -> nn.Module:
    return nn.Sequential(nn.EmbeddingBag(WORDS, 4), nn.Tanh(), nn.Linear(4, CLASSES))


def cubed() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), Cubed(), nn.Linear(6, CLASSES))


def images(n: int, random: torch.Generator) -> Tensor:
    return torch.randn(n, 2, 8, 8, generator=random)


def tokens(n: int, random: torch.Generator) -> Tensor:
    return torch.randint(WORDS, (n, 5), generator=random)


def rows(n: int, random: torch.Generator) -> Tensor:
    return torch.randn(n, 5, generator=random)


@dataclass(frozen=True)
class Kind:
    """How a model is made, which inputs it takes, and what the trial pass must choose for it."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int, torch.Generator], Tensor]
    modes: RunModes = FASTEST

    def model(self) -> nn.Module:
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(derive(0, "zoo"))
            return self.make()


CONTIGUOUS, PLAIN = RunModes(contiguous=True), RunModes(plain=True)
REVERSE = RunModes(jacobian="reverse", hessian="reverse")
ZOO = {
    "mlp": Kind(mlp, rows),
    "lenet with view": Kind(LeNet, images, CONTIGUOUS),
    "resnet, frozen batch norm": Kind(resnet_frozen, images),
    "resnet, group norm": Kind(lambda: fs.without_batch_norm(ResNet()), images, CONTIGUOUS),
    "vit": Kind(ViT, images, PLAIN),
    "lstm": Kind(Recurrent, tokens, REVERSE),
    "gru": Kind(lambda: Recurrent(nn.GRU), tokens, RunModes(jacobian="forward")),
    "transformer": Kind(Transformer, tokens, PLAIN),
    "embedding bag": Kind(bag, tokens, PLAIN),
    "lora": Kind(LoRA, rows),
    "hugging face": Kind(lambda: Wrapped(lambda o: SimpleNamespace(loss=None, logits=o)), tokens),
    "dictionary": Kind(lambda: Wrapped(lambda o: {"logits": o}), tokens),
    "tuple": Kind(lambda: Wrapped(lambda o: (o, None)), tokens),
    "half precision": Kind(lambda: mlp().half(), rows),
}
