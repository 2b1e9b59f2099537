from __future__ import annotations

from hypothesis import settings

# The first call into torch takes a second, and a failure should be the same one on every machine.
settings.register_profile("fedsift", deadline=None, derandomize=True)
settings.load_profile("fedsift")
