"""The table of encoders: one file and one row each."""

from __future__ import annotations

from collections.abc import Callable

from fedsift.data.encoders import onnx_file, own_module, timm_model, transformers_model
from fedsift.data.encoders.encoder import Encoder
from fedsift.errors import InputError
from fedsift.references import REFERENCE

# kind -> (how it is written, what makes it of (what is written, the samples' kind))
ENCODERS: dict[str, tuple[str, Callable[[str, str], Encoder]]] = {
    "timm": ("timm:NAME", timm_model.load),
    "transformers": ("transformers:NAME_OR_FOLDER", transformers_model.load),
    "onnx": ("PATH.onnx", onnx_file.load),
    "module": ("module:function", own_module.load),
}


def load_encoder(spec: str, kind: str) -> Encoder:
    """Load an encoder for samples that are a table, images or arrays."""
    prefix = spec.partition(":")[0]
    if spec.endswith(".onnx"):
        row = "onnx"
    elif prefix in {"timm", "transformers"} and spec != prefix:
        row = prefix
    elif REFERENCE.fullmatch(spec):
        row = "module"
    else:
        forms = ", ".join(form for form, _ in ENCODERS.values())
        raise InputError(f"there is no encoder {spec!r}; write it as one of {forms}")
    return ENCODERS[row][1](spec, kind)
