"""The review page: a person decides on suspicious labels, at the site, in a local browser."""

from fedsift.audit.review.decisions import Decision, Decisions
from fedsift.audit.review.samples import ReviewSamples, corrected_labels

__all__ = ["Decision", "Decisions", "ReviewSamples", "corrected_labels"]
