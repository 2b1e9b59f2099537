"""The methods: one round each, written against ``federation.ask``."""

from fedsift.algorithms.clean_set import HeadStart
from fedsift.algorithms.comm_fedbio import CommFedBiO, OuterStep
from fedsift.algorithms.disagreement import Disagreement
from fedsift.algorithms.fedavg import FedAvg, LocalSteps
from fedsift.algorithms.focus import Focus
from fedsift.algorithms.preprocess import Preprocess
from fedsift.algorithms.single_loop import SingleLoop
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState

__all__ = [
    "Algorithm",
    "CommFedBiO",
    "Disagreement",
    "FedAvg",
    "Focus",
    "HeadStart",
    "LocalSteps",
    "OuterStep",
    "Preprocess",
    "RoundInfo",
    "Server",
    "ServerState",
    "SingleLoop",
]
