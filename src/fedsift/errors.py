"""Every error that fedsift raises on purpose.

    FedsiftError
    ├── InputError          what the user gave is wrong: a file, a key, a shape (exit code 2)
    │   ├── ConfigError     a key of the configuration
    │   ├── DataError       a dataset, a label, a sample
    │   ├── InUse           a folder that another process uses
    │   ├── Refused         a request that the site's policy does not allow
    │   └── WireError       bytes that are not a fedsift payload
    └── RunError            the run itself failed (exit code 1)
        ├── Diverged        the model is no longer finite
        └── TooFewClients   fewer replies than `min_clients`

Each message is one sentence: what is wrong, where, what to do. It starts in lower case, separates
clauses with ";" and has no full stop.
"""

from __future__ import annotations


class FedsiftError(Exception):
    """Base of all errors raised on purpose."""


class InputError(FedsiftError, ValueError):
    """What the user gave is wrong."""


class ConfigError(InputError):
    """A key of the configuration is unknown, of the wrong type or out of range."""


class DataError(InputError):
    """A dataset, a label or a sample is not usable."""


class InUse(InputError):  # noqa: N818 - reads as a fact
    """Another process uses the folder."""


class Refused(InputError):  # noqa: N818 - reads as a fact
    """The policy of a site does not allow what it was asked."""


class WireError(InputError):
    """Bytes are truncated, oversized or not a fedsift payload."""


class RunError(FedsiftError, RuntimeError):
    """A run failed although its input was fine."""


class Diverged(RunError):  # noqa: N818 - as below
    """A model is no longer finite, or far worse than before."""


class TooFewClients(RunError):  # noqa: N818 - reads as a fact, like StopIteration
    """Fewer clients replied than the run demands."""
