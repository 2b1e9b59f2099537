"""FEMNIST: images by writer, with a train split only.

They are black on white, so their mean is near 1; ``mean`` and ``std`` were measured over 60,359
images of 396 writers.
"""

from __future__ import annotations

import string

from fedsift.data.dataset import Dataset
from fedsift.data.hub import HubImages

FEMNIST = Dataset(
    name="femnist",
    description="28x28 handwritten digits and letters, with their writers",
    class_names=tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase),
    shape=(1, 28, 28),
    model="paper_cnn",
    reader=HubImages(
        "flwrlabs/femnist",
        folder="data",
        mean=(0.9616,),
        std=(0.1638,),
        label_column="character",
        group_column="writer_id",
    ),
    splits=("train",),
    partition="writer",
    samples_per_client=None,
    validation_size=None,
    # The hub's file leaves over 3,000 writers for the test: without a limit, gigabytes.
    test_size=10_000,
    writers=(350, 5),
)
