"""timm's networks, by a stand-in with timm's names: timm itself needs torchvision."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from fedsift.data.encoders import load_encoder
from fedsift.data.encoders.timm_model import DataConfig
from fedsift.errors import InputError

CONFIG = {
    "input_size": (3, 8, 8),
    "mean": (0.5, 0.4, 0.3),
    "std": (0.2, 0.3, 0.4),
    "crop_pct": 0.8,
    "interpolation": "bicubic",
}


@pytest.fixture
def timm(monkeypatch):
    """Put a package named timm into place; it notes how networks are created."""
    package, data = ModuleType("timm"), ModuleType("timm.data")
    package.calls = []

    def create_model(name, **settings):
        package.calls.append((name, settings))
        return nn.Sequential(nn.Flatten(2), nn.AdaptiveAvgPool1d(1), nn.Flatten())

    package.create_model = create_model
    package.get_pretrained_cfg = lambda name: SimpleNamespace(hf_hub_id=f"timm/{name}.tag")
    data.resolve_model_data_config = lambda _model: CONFIG
    monkeypatch.setitem(sys.modules, "timm", package)
    monkeypatch.setitem(sys.modules, "timm.data", data)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda repo, file: f"/hub/{repo}/{file}")
    return package


def test_weights_come_from_safetensors_and_the_last_layer_is_left_out(timm):
    load_encoder("timm:resnet18", "image")
    overlay = {"file": "/hub/timm/resnet18.tag/model.safetensors", "custom_load": False}
    settings = {"pretrained": True, "num_classes": 0, "pretrained_cfg_overlay": overlay}
    assert timm.calls == [("resnet18", settings)]


def test_features_of_a_grey_picture_of_one_value_are_standardised_channels(timm):
    encoder = load_encoder("timm:resnet18", "image")
    result = encoder.encode(torch.full((2, 1, 5, 9), 0.7))
    expected = (0.7 - torch.tensor(CONFIG["mean"])) / torch.tensor(CONFIG["std"])
    torch.testing.assert_close(result, expected.expand(2, 3))


def test_a_failed_download_is_one_sentence(timm, monkeypatch):
    def fail(_repo, _file):
        raise OSError("404 Client Error.\nmore")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fail)
    with pytest.raises(InputError, match=r"hub \(OSError: 404 Client Error\); check the name"):
        load_encoder("timm:resnet18", "image")


def test_pictures_with_other_channels_are_refused(timm):
    with pytest.raises(InputError, match="2 channels and the encoder takes 3"):
        load_encoder("timm:resnet18", "image").encode(torch.zeros(1, 2, 8, 8))


def test_resizing_and_cutting_are_as_with_pillow():
    rows = np.linspace(0, 200, 40)[:, None, None] + np.linspace(0, 50, 60)[None, :, None]
    pixels = np.repeat(rows, 3, axis=2).astype(np.uint8)
    config = DataConfig((3, 8, 8), (0.0,) * 3, (1.0,) * 3, 0.8, "bilinear")
    result = config.apply(torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255)[0]
    resized = Image.fromarray(pixels).resize((15, 10), Image.Resampling.BILINEAR)
    middle = np.asarray(resized, np.float32)[1:9, 3:11].transpose(2, 0, 1) / 255
    np.testing.assert_allclose(result, middle, atol=1.5 / 255)


def test_the_real_timm_knows_what_is_called_here():
    timm = pytest.importorskip("timm", reason="timm needs torchvision")
    data = pytest.importorskip("timm.data")
    assert timm.get_pretrained_cfg("resnet18").hf_hub_id.startswith("timm/resnet18")
    model = timm.create_model("resnet18", pretrained=False, num_classes=0)
    assert set(CONFIG) <= set(data.resolve_model_data_config(model))
