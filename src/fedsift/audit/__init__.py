"""From sample weights to the labels a person should look at."""

from fedsift.audit.issues import THRESHOLD, label_issues

__all__ = ["THRESHOLD", "label_issues"]
