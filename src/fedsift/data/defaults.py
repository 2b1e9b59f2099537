"""What is known about each dataset, a row per dataset.

Sizes are the paper's (Section 5): 10 clients with 500 samples each and 500 validation samples, or,
for FEMNIST, 350 writers over 10 clients and 5 other writers for validation.

Inputs are scaled to [0, 1] and standardised with ``mean`` and ``std``. For MNIST and CIFAR-10 these
are the usual constants of the train split. FEMNIST's images are black on white, so its mean is
near 1; its constants were measured over 60,359 images of 396 writers. Those of
the digits are over all 1,797 images.
"""

from __future__ import annotations

import difflib
import string
from dataclasses import dataclass

from fedsift.data.source import Shape
from fedsift.errors import DataError


@dataclass(frozen=True)
class Dataset:
    """How to read a dataset, and the sizes to use where the user gives none.

    ``hub_id``            repository on the Hugging Face hub; ``None`` for embedded data
    ``folder``            the hub's folder with the parquet files
    ``image_column``, ``label_column``, ``group_column``   columns of these files
    ``samples_per_client``, ``validation_size``, ``test_size``   ``None`` takes all there are
    ``writers``           how many for the clients and for validation; the rest are the test set,
                          since such a dataset has no test split
    """

    name: str
    description: str
    class_names: tuple[str, ...]
    shape: Shape
    model: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    hub_id: str | None = None
    folder: str = ""
    splits: tuple[str, ...] = ("train", "test")
    image_column: str = "image"
    label_column: str = "label"
    group_column: str | None = None
    partition: str = "iid"
    clients: int = 10
    samples_per_client: int | None = 500
    validation_size: int | None = 500
    test_size: int | None = None
    writers: tuple[int, int] | None = None


_DIGITS = tuple(string.digits)

_ROWS = (
    Dataset(
        name="digits",
        description="8x8 handwritten digits that come with scikit-learn",
        class_names=_DIGITS,
        shape=(1, 8, 8),
        model="digits_cnn",
        mean=(0.3053,),
        std=(0.3761,),
        samples_per_client=100,
        validation_size=200,
    ),
    Dataset(
        name="mnist",
        description="28x28 handwritten digits",
        class_names=_DIGITS,
        shape=(1, 28, 28),
        model="paper_cnn",
        mean=(0.1307,),
        std=(0.3081,),
        hub_id="ylecun/mnist",
        folder="mnist",
    ),
    Dataset(
        name="cifar10",
        description="32x32 colour photographs of 10 kinds of object",
        class_names=(
            *("airplane", "automobile", "bird", "cat", "deer"),
            *("dog", "frog", "horse", "ship", "truck"),
        ),
        shape=(3, 32, 32),
        model="paper_cnn",
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        hub_id="uoft-cs/cifar10",
        folder="plain_text",
        image_column="img",
    ),
    Dataset(
        name="femnist",
        description="28x28 handwritten digits and letters, with their writers",
        class_names=tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase),
        shape=(1, 28, 28),
        model="paper_cnn",
        mean=(0.9616,),
        std=(0.1638,),
        hub_id="flwrlabs/femnist",
        folder="data",
        splits=("train",),
        label_column="character",
        group_column="writer_id",
        partition="writer",
        samples_per_client=None,
        validation_size=None,
        # The hub's file leaves over 3,000 writers for the test: without a limit, gigabytes.
        test_size=10_000,
        writers=(350, 5),
    ),
)

DEFAULTS: dict[str, Dataset] = {row.name: row for row in _ROWS}


def lookup(name: str) -> Dataset:
    """Return the row of a dataset."""
    if name in DEFAULTS:
        return DEFAULTS[name]
    close = difflib.get_close_matches(name.lower(), DEFAULTS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise DataError(f"There is no dataset {name!r}: known are {', '.join(DEFAULTS)}{hint}")
