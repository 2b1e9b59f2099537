"""The review page: people decide on suspicious labels, at the site, in a local browser."""

from fedsift.audit.review.decisions import Asked, Decision, Decisions
from fedsift.audit.review.exporting import EXPORTS, Reviewed, Written, export
from fedsift.audit.review.samples import ReviewSamples, corrected_labels

__all__ = [
    "EXPORTS",
    "Asked",
    "Decision",
    "Decisions",
    "ReviewSamples",
    "Reviewed",
    "Written",
    "corrected_labels",
    "export",
]
