"""CIFAR-10: ``mean`` and ``std`` are the usual constants of the train split."""

from __future__ import annotations

from fedsift.data.dataset import Dataset
from fedsift.data.hub import HubImages

CIFAR10 = Dataset(
    name="cifar10",
    description="32x32 colour photographs of 10 kinds of object",
    class_names=(
        *("airplane", "automobile", "bird", "cat", "deer"),
        *("dog", "frog", "horse", "ship", "truck"),
    ),
    shape=(3, 32, 32),
    model="paper_cnn",
    reader=HubImages(
        "uoft-cs/cifar10",
        folder="plain_text",
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        image_column="img",
    ),
)
