"""Where clients are: in this process, in several, or elsewhere; and layers over a federation."""

from fedsift.federation.compressed import CompressedFederation, Rates
from fedsift.federation.drift import WithoutDrift
from fedsift.federation.local import LocalFederation
from fedsift.federation.optimised import Optimised
from fedsift.federation.private import PrivateFederation
from fedsift.federation.remote import RemoteFederation
from fedsift.federation.secure_sum import SecureSumFederation
from fedsift.federation.sharded import ShardedFederation, serve

__all__ = [
    "CompressedFederation",
    "LocalFederation",
    "Optimised",
    "PrivateFederation",
    "Rates",
    "RemoteFederation",
    "SecureSumFederation",
    "ShardedFederation",
    "WithoutDrift",
    "serve",
]
