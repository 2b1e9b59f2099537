"""Batch normalisation: constants where its statistics are frozen, GroupNorm where they are not.

The inner loss must be a function of y alone. In evaluation mode a batch norm is one, an affine map
with the statistics that the module came with; one that has no statistics is none.
"""

from __future__ import annotations

import copy
import warnings

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from fedsift.errors import InputError

GROUPS = 32  # at most, as in the paper on group normalisation
CHANNELS = 4  # per group, at least: one alone would be normalised to zero


def without_batch_norm(model: nn.Module) -> nn.Module:
    """Return a copy with GroupNorm in place of every batch norm that is not frozen.

    Frozen are those whose affine parameters do not require a gradient; they stay, and their
    statistics are constants. Scale and offset are kept.

    Args:
        model: A module to be trained from scratch.

    Returns:
        A copy that can be trained with small batches at every site.

    Examples:
        >>> import fedsift as fs
        >>> from torch import nn
        >>> made = fs.without_batch_norm(nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8)))
        >>> type(made[1]).__name__, made[1].num_groups
        ('GroupNorm', 2)
    """
    model = copy.deepcopy(model)
    if isinstance(model, _BatchNorm):
        return model if _frozen(model) else _group_norm(model)
    made: dict[nn.Module, nn.Module] = {}  # a layer that occurs twice stays one layer
    for parent in list(model.modules()):
        for name, layer in list(parent._modules.items()):
            if isinstance(layer, _BatchNorm) and not _frozen(layer):
                if layer not in made:
                    made[layer] = _group_norm(layer)
                setattr(parent, name, made[layer])
    return model


def refuse_batch_statistics(module: nn.Module) -> None:
    """Refuse a layer that computes its statistics from the batch even in evaluation mode."""
    for name, layer in module.named_modules():
        if isinstance(layer, _BatchNorm) and layer.running_mean is None:
            raise InputError(
                f"the model's layer '{name}' is batch normalisation without running statistics, "
                "which is not a function of the parameters; use fs.without_batch_norm(model)"
            )


def warn_of_unused_statistics(module: nn.Module) -> None:
    """Warn of a batch norm that has never seen data, in a model to be trained."""
    for name, layer in module.named_modules():
        if isinstance(layer, _BatchNorm) and not _has_seen_data(layer):
            warnings.warn(
                f"the model's layer '{name}' is batch normalisation that has never seen data: its "
                "statistics stay 0 and 1; use fs.without_batch_norm(model) to train from scratch",
                stacklevel=2,
            )
            return


def _frozen(layer: _BatchNorm) -> bool:
    own = list(layer.parameters())
    frozen = bool(own) and not any(p.requires_grad for p in own)
    return frozen and layer.running_mean is not None


def _has_seen_data(layer: _BatchNorm) -> bool:
    mean, var, count = layer.running_mean, layer.running_var, layer.num_batches_tracked
    if mean is None or var is None or (count is not None and int(count) > 0):
        return True
    return bool(mean.any()) or bool((var != 1).any())  # older files have no count


def _group_norm(layer: _BatchNorm) -> nn.GroupNorm:
    channels = layer.num_features
    fits = (g for g in range(min(GROUPS, channels // CHANNELS), 1, -1) if channels % g == 0)
    made = nn.GroupNorm(next(fits, 1), channels, layer.eps, layer.affine)
    if layer.affine:
        made.to(layer.weight.device, layer.weight.dtype)
        with torch.no_grad():
            for new, old in zip(made.parameters(), layer.parameters(), strict=True):
                new.copy_(old).requires_grad_(old.requires_grad)
    return made.train(layer.training)
