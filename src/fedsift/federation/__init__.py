"""Where clients are: in this process, or elsewhere."""

from fedsift.federation.compressed import CompressedFederation, Rates
from fedsift.federation.local import LocalFederation
from fedsift.federation.remote import RemoteFederation

__all__ = ["CompressedFederation", "LocalFederation", "Rates", "RemoteFederation"]
