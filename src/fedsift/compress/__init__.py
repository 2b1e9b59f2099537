"""Compressors S and U, error feedback, and the bytes that travel.

payload           what a compressor is and what it sends
identity, topk, count_sketch
settings          the key that they share
registry          the table of compressors, by name
error_feedback    where the error of compression is remembered; of the sketch: sketch_feedback
gradient_feedback Eq. 12: the error of the gradient of q
ef21              EF21, which converges with a constant step; for sketches: sketch_tracking
sparse_embedding  the random matrices S_1, S_2 of the non-iterative estimator
hashing           the hash family behind the sketches; rotated_blocks: of the count sketch
rounding          numbers in 16 or 8 bits
rice, huffman     indices and numbers as few bits
wire              payloads and scalars as bytes
"""

from __future__ import annotations

from fedsift.compress import wire
from fedsift.compress.count_sketch import CountSketch
from fedsift.compress.ef21 import EF21
from fedsift.compress.error_feedback import FORMS, ClientFeedback, Feedback, NoFeedback
from fedsift.compress.gradient_feedback import ClientGradient, SketchGradient
from fedsift.compress.identity import Identity
from fedsift.compress.payload import Compressor, Payload, Sketch, Sparse, rate_of
from fedsift.compress.registry import (
    COMPRESSORS,
    CompressorKeys,
    chosen_feedback,
    compressor_groups,
    feedback_for,
    from_spec,
    make_compressor,
)
from fedsift.compress.settings import FeedbackKeys, RateKeys
from fedsift.compress.sketch_feedback import SketchFeedback
from fedsift.compress.sketch_tracking import SketchTracking
from fedsift.compress.sparse_embedding import SparseEmbedding
from fedsift.compress.topk import TopK

__all__ = [
    "COMPRESSORS",
    "EF21",
    "FORMS",
    "ClientFeedback",
    "ClientGradient",
    "Compressor",
    "CompressorKeys",
    "CountSketch",
    "Feedback",
    "FeedbackKeys",
    "Identity",
    "NoFeedback",
    "Payload",
    "RateKeys",
    "Sketch",
    "SketchFeedback",
    "SketchGradient",
    "SketchTracking",
    "Sparse",
    "SparseEmbedding",
    "TopK",
    "chosen_feedback",
    "compressor_groups",
    "feedback_for",
    "from_spec",
    "make_compressor",
    "rate_of",
    "wire",
]
