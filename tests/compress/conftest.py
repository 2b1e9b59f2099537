from __future__ import annotations

import pytest
from hypothesis import settings

from fedsift.compress import COMPRESSORS, make_compressor
from fedsift.keys import BuildContext, Settings, keys_of

# The first call into torch takes a second, and a failure should be the same one on every machine.
settings.register_profile("fedsift", deadline=None, derandomize=True)
settings.load_profile("fedsift")


@pytest.fixture(scope="session")
def make():
    """Return a function that builds a compressor from those of some keys that it has."""

    def build(name, length, rate, seed=0, **more):
        groups, keys = COMPRESSORS[name].groups, {"rate": rate, **more}
        own = {key: value for key, value in keys.items() if key in keys_of(*groups)}
        return make_compressor(name, Settings.of(groups, own), BuildContext(length, seed))

    return build
