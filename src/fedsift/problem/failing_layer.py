"""Which layer of a model fails: in its forward pass, or because it has no derivative."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fedsift.problem.flat_model import FlatModel


def failing_layer(model: FlatModel, inputs: Tensor) -> str:
    """Return "layer 'name' (Type): " of the innermost layer that was running when a pass failed."""
    module, open_layers = model.to_module(model.initial()), list[str]()
    for name, layer in module.named_modules():
        if name:
            text = _text(name, layer)
            layer.register_forward_pre_hook(lambda *_, text=text: open_layers.append(text))
            layer.register_forward_hook(lambda *_: open_layers.pop() and None)
    try:
        with torch.no_grad():
            module(inputs)
    except Exception:
        return f"{open_layers[-1]}: " if open_layers else ""
    return ""


def layer_without_derivative(model: FlatModel, inputs: Tensor, order: int) -> str:
    """Return "layer 'name' (Type)" of the first, innermost layer without this derivative."""
    module = model.to_module(model.initial())
    calls: list[tuple[str, nn.Module, tuple[Any, ...], dict[str, Any]]] = []
    hooks = []
    for name, layer in module.named_modules():

        def keep(layer: nn.Module, args: Any, kwargs: Any, _out: Any, *, name: str = name) -> None:
            calls.append((name, layer, args, kwargs))

        hooks.append(layer.register_forward_hook(keep, with_kwargs=True))
    with torch.no_grad():
        module(inputs)
    for hook in hooks:
        hook.remove()
    for name, layer, args, kwargs in calls:  # inner layers end before those around them
        try:
            _differentiate(layer, args, kwargs, order)
        except Exception:
            return _text(name, layer)
    return _text("", module)


def _differentiate(layer: nn.Module, args: Any, kwargs: Any, order: int) -> None:
    given = [_leaf(value) for value in args]
    leaves = [v for v in given if isinstance(v, Tensor) and v.requires_grad]
    leaves += [p for p in layer.parameters() if p.requires_grad]
    outputs = layer(*given, **kwargs)
    outputs = outputs[0] if isinstance(outputs, tuple | list) else outputs
    if not leaves or not isinstance(outputs, Tensor) or not outputs.requires_grad:
        return
    if order > 1:
        found = torch.autograd.grad(
            outputs.square().sum(), leaves, create_graph=True, allow_unused=True
        )
        outputs = torch.cat([g.flatten() for g in found if g is not None])
    if outputs.requires_grad:
        outputs.square().sum().backward()  # type: ignore[no-untyped-call]


def _leaf(value: Any) -> Any:
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.detach().requires_grad_(True)
    return value


def _text(name: str, layer: nn.Module) -> str:
    return f"layer '{name}' ({type(layer).__name__})" if name else f"module {type(layer).__name__}"
