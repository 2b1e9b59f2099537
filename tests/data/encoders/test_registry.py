"""Which encoder a word means; encoders of one's own, as modules and as ONNX files."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import encoder_cases
from fedsift.data.encoders import Encoder, load_encoder
from fedsift.errors import InputError

WEIGHTS = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)


def write_onnx(path, weights=WEIGHTS, inputs=("pictures",)):
    """Write relu(flatten(pictures) @ weights)."""
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", [inputs[0]], ["flat"]),
            helper.make_node("MatMul", ["flat", "weights"], ["product"]),
            helper.make_node("Relu", ["product"], ["features"]),
        ],
        "encoder",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["k", 3, 2, 2]) for name in inputs],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["k", weights.shape[1]])],
        [numpy_helper.from_array(weights, "weights")],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return str(path)


def test_an_onnx_file_is_what_numpy_computes(tmp_path):
    encoder = load_encoder(write_onnx(tmp_path / "net.onnx"), "image")
    pictures = torch.randn(4, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    expected = np.maximum(pictures.numpy().reshape(4, 12) @ WEIGHTS, 0)
    np.testing.assert_allclose(encoder.encode(pictures), expected, rtol=1e-5, atol=1e-6)


def test_the_fingerprint_of_an_onnx_file_changes_with_its_weights(tmp_path):
    one, same, other = (
        load_encoder(write_onnx(tmp_path / f"{n}.onnx", weights), "image").fingerprint
        for n, weights in enumerate((WEIGHTS, WEIGHTS, WEIGHTS + 1))
    )
    assert one == same != other


def test_a_module_is_called_in_evaluation_mode_and_without_gradients():
    encoder = load_encoder("encoder_cases:doubled", "array")
    inputs = torch.rand(3, 2, 2)
    result = encoder.encode(inputs)
    assert isinstance(encoder, Encoder)
    assert not result.requires_grad
    torch.testing.assert_close(result, 2 * inputs.flatten(1))


def test_the_fingerprint_of_a_module_is_of_its_weights(monkeypatch):
    def tripled():
        module = doubled()
        module.factor.data.fill_(3)
        return module

    doubled = encoder_cases.doubled
    first, again = (load_encoder("encoder_cases:doubled", "array") for _ in range(2))
    monkeypatch.setattr(encoder_cases, "doubled", tripled)
    other = load_encoder("encoder_cases:doubled", "array")
    assert first.fingerprint == again.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("spec", "kind", "message"),
    [
        ("resnet18", "image", "there is no encoder 'resnet18'; write it as one of timm:NAME"),
        ("timm", "image", "there is no encoder 'timm'"),
        ("timm:resnet18", "table", "reads pictures"),
        ("transformers:bert", "array", "reads text or pictures"),
        ("nowhere.onnx", "image", "there is no encoder nowhere.onnx"),
        ("no_such_module:f", "image", "cannot be imported"),
        ("encoder_cases:no_such_function", "image", "cannot be imported"),
        ("encoder_cases:no_module", "image", "returned a int and not an nn.Module"),
        ("encoder_cases:broken", "image", "RuntimeError: no weights here"),
    ],
)
def test_what_is_no_encoder_is_refused(spec, kind, message):
    with pytest.raises(InputError, match=message):
        load_encoder(spec, kind)


@pytest.mark.parametrize(
    ("name", "message"), [("scores", "returned a tuple"), ("infinite", "not finite")]
)
def test_features_that_are_no_numbers_are_refused(name, message):
    with pytest.raises(InputError, match=message):
        load_encoder(f"encoder_cases:{name}", "array").encode(torch.rand(2, 3))


def test_a_file_that_is_no_onnx_is_refused(tmp_path):
    (tmp_path / "x.onnx").write_bytes(b"no model")
    with pytest.raises(InputError, match="cannot be read as ONNX"):
        load_encoder(str(tmp_path / "x.onnx"), "image")


def test_an_onnx_file_with_two_inputs_is_refused(tmp_path):
    path = write_onnx(tmp_path / "x.onnx", inputs=("pictures", "mask"))
    with pytest.raises(InputError, match="has 2 inputs"):
        load_encoder(path, "image")


def test_inputs_of_another_size_are_named(tmp_path):
    encoder = load_encoder(write_onnx(tmp_path / "net.onnx"), "image")
    with pytest.raises(InputError, match=r"failed on inputs \[4, 3, 9, 9\]"):
        encoder.encode(torch.rand(4, 3, 9, 9))


@pytest.mark.parametrize("package", ["timm", "transformers"])
def test_a_package_that_is_not_installed_is_named_with_its_extra(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"pip install 'fedsift\[{package}\]'"):
        load_encoder(f"{package}:x", "image")
