"""Every constant of our additions, and why it has its value.

They were chosen by F1 and AUC on simulated noise with seeds 10 and 11, never on test data;
docs/dev/decisions.md has the figures.
"""

from __future__ import annotations

AVERAGING = 0.9
"""Weight of the past in the reported mean of x and of the agreement over rounds.

Single rounds are noisy; about ten rounds are averaged, as many as the outer step is constant for.
"""

NEUTRAL = 0.25
"""Agreement at which a weight is pulled to ½.

Below ½, where another class is likelier: a right label that is dropped can never be learned again.
"""

ERRORS_UNTRUSTED = 10.0
"""Trust is 1 − 10 e: it starts where the model is right on nine of ten clean samples.

Before that the model's opinion confirms its own errors.
"""

HEAD_START_SHARE = 0.5
"""Share of the clean samples that the head start trains on; the rest says when to stop."""

HEAD_START_EVERY, HEAD_START_PATIENCE = 10, 5
"""Steps between two measurements of the loss; measurements without a new best before it stops.

Ten steps of 64 samples are a few passes over half a clean set of 200 to 500 samples.
"""
