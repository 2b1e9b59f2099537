"""``transformers:NAME_OR_FOLDER``: a pretrained network of transformers, on text or on pictures.

| samples  | features                                                                       |
|----------|--------------------------------------------------------------------------------|
| text     | mean of the last hidden states over the tokens that are not padding            |
| pictures | the pooler's output where the network has one, else the mean over the patches  |

Weights are read from safetensors only, and no code of a repository is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

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
from fedsift.data.encoders.timm_model import as_channels
from fedsift.errors import InputError

LONGEST = 512  # tokens, where neither tokenizer nor network says


@dataclass(frozen=True, eq=False)
class TextModel:
    """A network on tokens."""

    spec: str
    fingerprint: str
    module: nn.Module
    tokenizer: Any
    longest: int
    device: torch.device
    reads: Reads = "text"

    @torch.no_grad()
    def encode(self, batch: Batch) -> Tensor:
        """Return features [k, d]."""
        tokens = self.tokenizer(
            list(cast("Sequence[str]", batch)),
            padding=True,
            truncation=True,
            max_length=self.longest,
            return_tensors="pt",
        ).to(self.device)
        states = self.module(**tokens).last_hidden_state
        mask = tokens["attention_mask"][:, :, None].to(states.dtype)
        return features((states * mask).sum(1) / mask.sum(1).clamp(min=1), self.spec)


@dataclass(frozen=True, eq=False)
class PictureModel:
    """A network on patches."""

    spec: str
    fingerprint: str
    module: nn.Module
    processor: Any
    device: torch.device
    reads: Reads = "pictures"

    @torch.no_grad()
    def encode(self, batch: Batch) -> Tensor:
        """Return features [k, d]."""
        pictures = list(as_channels(cast("Tensor", batch), 3))
        prepared = self.processor(images=pictures, do_rescale=False, return_tensors="pt")
        output = self.module(prepared["pixel_values"].to(self.device))
        pooled = getattr(output, "pooler_output", None)
        states = output.last_hidden_state if pooled is None else pooled
        mean = states.flatten(2).mean(2) if states.ndim == 4 else states
        return features(mean.mean(1) if mean.ndim == 3 else mean, self.spec)


def load(spec: str, kind: str) -> TextModel | PictureModel:
    """Load a network and its weights; what it reads is what the samples are."""
    if kind not in {"table", "image"}:
        raise InputError(
            f"encoder {spec} reads text or pictures, and these samples are neither; choose another"
        )
    transformers, name = require("transformers", "transformers"), spec.partition(":")[2]
    if name.startswith(("/", ".", "~")) and not Path(name).is_dir():
        raise InputError(f"there is no folder {name} for encoder {spec}; give one or a hub's name")
    try:
        module = transformers.AutoModel.from_pretrained(name, use_safetensors=True)
        if kind == "table":
            reader = transformers.AutoTokenizer.from_pretrained(name)
        else:
            reader = transformers.AutoImageProcessor.from_pretrained(name)
    except Exception as error:  # of the hub, of files, of configurations: many types
        raise InputError(
            f"encoder {spec} cannot be loaded from safetensors ({brief(error)}); check the name "
            "and the connection, or give a folder that has model.safetensors"
        ) from error
    place = device.resolve("auto")
    if kind == "image":
        looks = [getattr(reader, n, None) for n in ("size", "crop_size", "image_mean", "image_std")]
        return PictureModel(spec, weights_hash(module, looks), frozen(module, place), reader, place)
    limits = (reader.model_max_length, getattr(module.config, "max_position_embeddings", LONGEST))
    longest = min(*limits, 100_000)
    mark = weights_hash(module, longest, reader.get_vocab())
    return TextModel(spec, mark, frozen(module, place), reader, longest, place)
