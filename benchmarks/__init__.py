"""Ratios measured in one run each; ``make bench``."""
