"""Frozen encoders: networks that nobody trains here, from samples to features.

ENCODERS, one file and one row each:

| written as                    | reads                              | extra          |
|-------------------------------|------------------------------------|----------------|
| `timm:NAME`                   | pictures                           | `timm`         |
| `transformers:NAME_OR_FOLDER` | text columns, or pictures          | `transformers` |
| `PATH.onnx`                   | prepared inputs                    | `onnx`         |
| `module:function`             | prepared inputs                    |                |
"""

from fedsift.data.encoders.encoder import Encoder
from fedsift.data.encoders.feature_cache import Chunks, default_cache, encoded
from fedsift.data.encoders.registry import ENCODERS, load_encoder

__all__ = ["ENCODERS", "Chunks", "Encoder", "default_cache", "encoded", "load_encoder"]
