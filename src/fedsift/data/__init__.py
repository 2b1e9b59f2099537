"""Real datasets, split over simulated clients, with label noise, as plain tensors."""

from fedsift.data.corrected import apply_corrections
from fedsift.data.corrupt import effective_rate
from fedsift.data.defaults import DEFAULTS, Dataset, lookup
from fedsift.data.federated import ClientData, FederatedData, Samples, check_client
from fedsift.data.presets import build
from fedsift.data.registry import DatasetInfo, SplitInfo, available, info, load
from fedsift.data.server import ServerData
from fedsift.data.source import Source

__all__ = [
    "DEFAULTS",
    "ClientData",
    "Dataset",
    "DatasetInfo",
    "FederatedData",
    "Samples",
    "ServerData",
    "Source",
    "SplitInfo",
    "apply_corrections",
    "available",
    "build",
    "check_client",
    "effective_rate",
    "info",
    "load",
    "lookup",
]
