"""``module:function``: samples from a user's own code."""

from __future__ import annotations

from fedsift.data.samples import Samples
from fedsift.data.sources.options import ReadOptions
from fedsift.data.sources.values import as_samples
from fedsift.references import call


def read_function(reference: str, options: ReadOptions) -> Samples:
    """Call ``module:function`` and make samples of what it returns."""
    return as_samples(call(reference), reference, options)
