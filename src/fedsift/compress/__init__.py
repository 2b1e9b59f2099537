"""Compressors S and U, error feedback, and the bytes that travel.

payload           what a compressor is and what it sends
identity, topk, count_sketch
registry          the table of compressors, by name
error_feedback    where the error of compression is remembered; of the sketch: sketch_feedback
sparse_embedding  the random matrices S_1, S_2 of the non-iterative estimator
hashing           the hash family behind the sketches
wire              payloads and scalars as bytes
"""

from __future__ import annotations

from fedsift.compress import wire
from fedsift.compress.count_sketch import CountSketch
from fedsift.compress.error_feedback import ClientFeedback, Feedback, NoFeedback
from fedsift.compress.identity import Identity
from fedsift.compress.payload import Compressor, Payload, Sketch, Sparse, rate_of
from fedsift.compress.registry import (
    COMPRESSORS,
    CompressorName,
    feedback_for,
    from_spec,
    make_compressor,
)
from fedsift.compress.sketch_feedback import SketchFeedback
from fedsift.compress.sparse_embedding import SparseEmbedding
from fedsift.compress.topk import TopK

__all__ = [
    "COMPRESSORS",
    "ClientFeedback",
    "Compressor",
    "CompressorName",
    "CountSketch",
    "Feedback",
    "Identity",
    "NoFeedback",
    "Payload",
    "Sketch",
    "SketchFeedback",
    "Sparse",
    "SparseEmbedding",
    "TopK",
    "feedback_for",
    "from_spec",
    "make_compressor",
    "rate_of",
    "wire",
]
