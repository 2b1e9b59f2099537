"""The keys that every method has: the run, its data, its model, its federation.

Choices are those of the tables that they choose from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsift.algorithms.registry import METHODS
from fedsift.data import DATASETS, NOISES, PARTITIONS, SPLITS
from fedsift.errors import ConfigError
from fedsift.federation.private import PrivacyKeys
from fedsift.federation.robust import RobustKeys
from fedsift.keys import AUTO, Auto, Keys, hint, key, keys_of
from fedsift.problem.networks import MODELS
from fedsift.references import REFERENCE

OWN = "own"  # the dataset of a run on samples that are not one of fedsift's datasets
OWN_MODEL = "own module"  # the model of ``fs.fit``, which no configuration can name


@dataclass(frozen=True)
class RunKeys(Keys):
    """What is run, for how long, where."""

    table: ClassVar[str] = "run"
    method: str = key(
        AUTO, "how to train; auto: by what the model is", choices=lambda: tuple(METHODS)
    )
    rounds: int = key(60, "number of rounds K", low=1)
    seed: int = key(0, "seed of everything random", low=0)
    device: str = key(AUTO, "cpu, cuda, cuda:0 ...; auto: cuda where there is one")
    eval_every: int = key(1, "rounds between evaluations on the test set", low=1)
    checkpoint_every: int = key(10, "rounds between checkpoints", low=1)
    diagnose: bool = key(
        False, "after the run, measure which estimator of the hypergradient fits it, and say why"
    )


@dataclass(frozen=True)
class DataKeys(Keys):
    """Which samples the clients have, and how many of their labels are wrong."""

    table: ClassVar[str] = "data"
    dataset: str = key("digits", "name of the dataset", choices=lambda: (*DATASETS, OWN))
    split: str = key(
        "iid",
        "iid: one noise rate for all clients; non-iid: one per client",
        choices=lambda: tuple(SPLITS),
    )
    partition: str = key(
        AUTO,
        "how samples are spread over clients; auto: the dataset's own",
        choices=lambda: (AUTO, *PARTITIONS),
    )
    clients: int = key(0, "number of clients M; 0: the dataset's own", low=0)
    samples_per_client: int = key(0, "samples per client; 0: the dataset's own", low=0)
    validation_size: int = key(0, "clean samples at the server; 0: the dataset's own", low=0)
    test_size: int = key(0, "test samples; 0: the dataset's own", low=0)
    noise: str = key(
        "symmetric",
        "how labels are made wrong; instance: by a weak model, human: by people, mixed: one of "
        "symmetric, pair and instance per client",
        choices=lambda: tuple(NOISES),
    )
    noise_column: str = key("", "column of labels for the noise 'human'; empty: the first")
    rho: float | tuple[float, float] = key(
        -1.0, "noise rate, or [low, high] per client; -1: the paper's for the split"
    )
    alpha: float = key(0.5, "concentration of the partition 'dirichlet'", low=0, open_low=True)
    shards_per_client: int = key(2, "shards per client of the partition 'shards'", low=1)
    labels: str = key("", "file or folder of corrected labels, from a review; empty: none")

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.rho if isinstance(self.rho, tuple) else (self.rho, self.rho)
        if self.rho != -1.0 and not 0 <= low <= high <= 1:
            shown = list(self.rho) if isinstance(self.rho, tuple) else self.rho
            raise ConfigError(f"rho is {shown}; give a rate in [0, 1] or [low, high] within it")


@dataclass(frozen=True)
class FileKeys(Keys):
    """One's own samples, in place of a dataset; they are read by ``data/sources``."""

    table: ClassVar[str] = "files"
    sites: tuple[str, ...] = key((), "NAME=DATA per site, in place of a dataset")
    validation: str = key("", "clean samples")
    test: str = key("", "test samples; empty: none")
    label_column: str = key("label", "column that has the label")
    id_column: str = key("", "column that identifies a sample; empty: none")
    ignore_columns: tuple[str, ...] = key((), "columns to leave out")
    column_kinds: tuple[str, ...] = key(
        (), "NAME=KIND where a column's kind is not to be guessed: number, category, text, boolean"
    )
    image_column: str = key("", "column of images or their paths; empty: found by its type")
    image_size: str = key("", "resize images to HEIGHTxWIDTH; empty: no resizing")
    skip_unreadable: bool = key(False, "leave out images that cannot be read, and count them")
    classes: tuple[str, ...] = key((), "classes that the clean set may lack")
    trust_clean_set: bool = key(
        False, "use clean samples that look wrong, too; false: they are left out and listed"
    )
    encoder: str = key("", "frozen encoder: timm:NAME, transformers:NAME, module:function, x.onnx")
    digest: str = key("", "hash of the sites' labels; the run sets it, to notice changed samples")


@dataclass(frozen=True)
class ModelKeys(Keys):
    """The model and its inner loss."""

    table: ClassVar[str] = "model"
    model: str = key(AUTO, "network, or module:function; auto: the one for these data")
    l2: float = key(1e-3, "coefficient of ½‖y‖² in the inner loss", low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        known = (AUTO, OWN_MODEL, *MODELS)
        if self.model not in known and not REFERENCE.fullmatch(self.model):
            raise ConfigError(
                f"model is {self.model!r}; give module:function or one of {', '.join(MODELS)}"
                + hint(self.model, MODELS)
            )


@dataclass(frozen=True)
class FederationKeys(Keys):
    """How many clients take part, and what they share."""

    table: ClassVar[str] = "federation"
    cohort: int = key(0, "number of clients S drawn per round; 0: all", low=0)
    min_clients: int = key(1, "stop if fewer clients than this reply", low=1)
    pool: bool = key(
        True,
        "in one process, clients share passes over their samples, which is faster; false: the same "
        "numbers, bit for bit, however many processes there are",
    )
    secure_sum: bool = key(False, "the server sees sums over clients only, never the reply of one")
    policy: str = key(
        "",
        "what simulated sites refuse: a policy.toml, or default for that of a site; empty: nothing",
    )
    share_summary: bool = key(
        False, "sites report to the server how many of their labels are suspicious"
    )


@dataclass(frozen=True)
class TrafficKeys(Keys):
    """How much is left out of what travels; it is sent later (``federation/compressed.py``).

    What ``auto`` is, ``experiment/traffic.py`` says.
    """

    table: ClassVar[str] = "traffic"
    update_rate: Auto = key(
        AUTO,
        "numbers of a model update per number sent up, in 8 bits; 1: all; auto: 12 where all "
        "clients take part and the method is one of auto's",
        low=1,
    )
    model_rate: Auto = key(
        AUTO,
        "numbers of a model per number of its change sent down, in 8 bits; 1: all; auto: as "
        "update_rate",
        low=1,
    )


COMMON: tuple[type[Keys], ...] = (
    *(RunKeys, DataKeys, FileKeys, ModelKeys, FederationKeys),
    *(RobustKeys, TrafficKeys, PrivacyKeys),
)
# ``simulate`` has the data and the model, and ``fit`` names those keys of the run that it takes.
NOT_SETTINGS = {*keys_of(RunKeys, DataKeys, FileKeys), "model"}
