"""Where clients are: in this process."""

from fedsift.federation.local import LocalFederation

__all__ = ["LocalFederation"]
