"""``PATH.onnx``: a network from any framework, run by onnxruntime.

It has one input [k, ...], which the schema prepares, and its first output, flattened, is the
features. An ONNX file holds numbers and a graph, no code.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from fedsift.data.encoders.encoder import Batch, Reads, brief, features, require
from fedsift.errors import InputError


@dataclass(frozen=True, eq=False)
class OnnxFile:
    """A session of onnxruntime."""

    spec: str
    fingerprint: str
    session: Any
    input_name: str
    reads: Reads = "inputs"

    def encode(self, batch: Batch) -> Tensor:
        """Return features [k, d]."""
        inputs = cast("Tensor", batch)
        try:
            output = self.session.run(None, {self.input_name: inputs.numpy()})[0]
        except Exception as error:  # its exceptions are of a private module
            raise InputError(
                f"encoder {self.spec} failed on inputs {list(inputs.shape)} ({brief(error)}); "
                "export it with a first dimension of any length, for inputs of this size"
            ) from error
        return features(torch.from_numpy(output).clone(), self.spec)


def load(spec: str, kind: str) -> OnnxFile:  # noqa: ARG001
    """Open the file; CUDA is used where onnxruntime has it."""
    runtime = require("onnxruntime", "onnx")
    path = Path(spec).expanduser()
    if not path.is_file():
        raise InputError(f"there is no encoder {spec}; give the path of an ONNX file")
    wanted = ("CUDAExecutionProvider", "CPUExecutionProvider")
    providers = [name for name in wanted if name in runtime.get_available_providers()]
    content = path.read_bytes()
    try:
        session = runtime.InferenceSession(content, providers=providers)
    except Exception as error:
        raise InputError(
            f"{spec} cannot be read as ONNX ({brief(error)}); export it again, as one file"
        ) from error
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise InputError(
            f"{spec} has {len(inputs)} inputs and must have one; export it with the others fixed"
        )
    return OnnxFile(spec, hashlib.sha256(content).hexdigest(), session, inputs[0].name)
