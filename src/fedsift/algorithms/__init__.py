"""The methods: one round each, written against ``federation.ask``."""

from fedsift.algorithms.additions.head_start import HeadStart
from fedsift.algorithms.additions.self_paced import SelfPaced
from fedsift.algorithms.clean_only import CleanOnly
from fedsift.algorithms.clean_step import CleanStep
from fedsift.algorithms.clean_steps import CleanSteps
from fedsift.algorithms.comm_fedbio import CommFedBiO
from fedsift.algorithms.disagreement import Disagreement
from fedsift.algorithms.elr import EarlyLearningRegularisation
from fedsift.algorithms.em import SelfTraining
from fedsift.algorithms.fedavg import FedAvg
from fedsift.algorithms.fedcorr import LabelCorrection
from fedsift.algorithms.fedelc import EndToEndCorrection
from fedsift.algorithms.first_order import FirstOrder
from fedsift.algorithms.focus import Focus
from fedsift.algorithms.gce import GeneralisedCrossEntropy
from fedsift.algorithms.glc import GoldLossCorrection
from fedsift.algorithms.out_of_fold import OutOfFold
from fedsift.algorithms.outer_step import OUTER_RULES, OuterStep
from fedsift.algorithms.posterior import Posterior
from fedsift.algorithms.preprocess import Preprocess
from fedsift.algorithms.single_loop import SingleLoop
from fedsift.algorithms.state import Algorithm, AtClients, RoundInfo, Server, ServerState
from fedsift.problem.sgd import LocalSteps

__all__ = [
    "OUTER_RULES",
    "Algorithm",
    "AtClients",
    "CleanOnly",
    "CleanStep",
    "CleanSteps",
    "CommFedBiO",
    "Disagreement",
    "EarlyLearningRegularisation",
    "EndToEndCorrection",
    "FedAvg",
    "FirstOrder",
    "Focus",
    "GeneralisedCrossEntropy",
    "GoldLossCorrection",
    "HeadStart",
    "LabelCorrection",
    "LocalSteps",
    "OutOfFold",
    "OuterStep",
    "Posterior",
    "Preprocess",
    "RoundInfo",
    "SelfPaced",
    "SelfTraining",
    "Server",
    "ServerState",
    "SingleLoop",
]
