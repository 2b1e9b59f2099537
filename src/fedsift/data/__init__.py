"""Datasets, split over simulated clients, with label noise, as plain tensors.

The tables, each with one file or function and one row per entry:

DATASETS     what can be loaded                       ``datasets/``
NOISES       how labels are made wrong                ``noise/``
SPLITS       how many are, per client                 ``noise/rate.py``
PARTITIONS   which client gets which samples          ``partition.py``
"""

from fedsift.data.build import build
from fedsift.data.corrected import apply_corrections
from fedsift.data.dataset import Dataset, Location, Reader, Shape, Source
from fedsift.data.datasets import DATASETS, lookup
from fedsift.data.federated import (
    ClientData,
    FederatedData,
    InputsAndLabels,
    check_client,
    with_validation,
)
from fedsift.data.noise import NOISES, SPLITS, effective_rate
from fedsift.data.partition import PARTITIONS, Pool
from fedsift.data.registry import DatasetInfo, SplitInfo, available, info, load
from fedsift.data.server import ServerData

__all__ = [
    "DATASETS",
    "NOISES",
    "PARTITIONS",
    "SPLITS",
    "ClientData",
    "Dataset",
    "DatasetInfo",
    "FederatedData",
    "InputsAndLabels",
    "Location",
    "Pool",
    "Reader",
    "ServerData",
    "Shape",
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
    "with_validation",
]
