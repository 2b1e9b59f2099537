"""``timm:NAME``: a pretrained network of timm, on pictures.

Its data configuration says how: the shorter side is resized to size / crop_pct, the middle is cut
out, and channels are standardised with timm's mean and std. This is done here, on tensors, because
timm's own transforms take 8-bit pictures only. Weights come from the hub as safetensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from fedsift import device
from fedsift.data.encoders.encoder import (
    Batch,
    Reads,
    brief,
    features,
    frozen,
    require,
    weights_hash,
)
from fedsift.errors import InputError

WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class DataConfig:
    """How timm prepares a picture for a network."""

    size: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop: float
    interpolation: str

    def apply(self, pictures: Tensor) -> Tensor:
        """Resize, cut out and standardise pictures [k, C, H, W] in [0, 1]."""
        channels, height, width = self.size
        pictures = as_channels(pictures, channels)
        enlarge = max(height / pictures.shape[2], width / pictures.shape[3]) / self.crop
        sides = [
            max(round(n * enlarge), s)
            for n, s in zip(pictures.shape[2:], (height, width), strict=True)
        ]
        mode = self.interpolation if self.interpolation in {"bilinear", "bicubic"} else "bicubic"
        pictures = interpolate(pictures, size=sides, mode=mode, antialias=True).clamp(0, 1)
        top, left = (sides[0] - height) // 2, (sides[1] - width) // 2
        middle = pictures[:, :, top : top + height, left : left + width]
        mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (self.mean, self.std))
        return (middle - mean) / std


@dataclass(frozen=True, eq=False)
class TimmModel:
    """A network of timm without its last layer."""

    spec: str
    fingerprint: str
    module: nn.Module
    config: DataConfig
    device: torch.device
    reads: Reads = "pictures"

    @torch.no_grad()
    def encode(self, batch: Batch) -> Tensor:
        """Return features [k, d]."""
        pictures = self.config.apply(cast("Tensor", batch))
        return features(self.module(pictures.to(self.device)), self.spec)


def load(spec: str, kind: str) -> TimmModel:
    """Load a network and its weights."""
    if kind != "image":
        raise InputError(
            f"encoder {spec} reads pictures, and these samples are none; choose another"
        )
    timm = require("timm", "timm")
    module = _pretrained(timm, spec)
    found = require("timm.data", "timm").resolve_model_data_config(module)
    config = DataConfig(
        tuple(found["input_size"]),
        tuple(found["mean"]),
        tuple(found["std"]),
        float(found.get("crop_pct") or 1.0),
        str(found.get("interpolation")),
    )
    place = device.resolve("auto")
    return TimmModel(spec, weights_hash(module, vars(config)), frozen(module, place), config, place)


def as_channels(pictures: Tensor, channels: int) -> Tensor:
    """Return grey pictures in the number of channels that a network takes."""
    given = pictures.shape[1]
    if given not in {1, channels}:
        raise InputError(
            f"the pictures have {given} channels and the encoder takes {channels}; convert them"
        )
    return pictures.expand(-1, channels, -1, -1)


def _pretrained(timm: Any, spec: str) -> nn.Module:
    """Create the network from a safetensors file: timm by itself would also read pickles."""
    name = spec.partition(":")[2]
    hub = require("huggingface_hub", "timm")
    try:
        repository = timm.get_pretrained_cfg(name).hf_hub_id
        file = hub.hf_hub_download(repository, WEIGHTS)
        overlay = {"file": str(file), "custom_load": False}
        module = timm.create_model(
            name, pretrained=True, num_classes=0, pretrained_cfg_overlay=overlay
        )
    except Exception as error:  # timm's and the hub's are of many types
        raise InputError(
            f"encoder {spec} cannot be loaded from a file {WEIGHTS} of the hub ({brief(error)}); "
            "check the name and the connection"
        ) from error
    return cast("nn.Module", module)
