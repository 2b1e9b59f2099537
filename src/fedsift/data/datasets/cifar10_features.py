"""Features of a subset of CIFAR-10 by an EfficientNet-lite0 that was trained on ImageNet.

With three labels by people per train sample (CIFAR-10N, Wei et al., 2022; about 18 % wrong; CC
BY-NC: for experiments only). Features are as they come, not standardised.
"""

from __future__ import annotations

from fedsift.data.dataset import Dataset
from fedsift.data.datasets.cifar10 import CIFAR10
from fedsift.data.features import StoredFeatures

CIFAR10_FEATURES = Dataset(
    name="cifar10-features",
    description="1,280 features of CIFAR-10's photographs, with labels by people",
    class_names=CIFAR10.class_names,
    shape=(1280,),
    model="linear",
    reader=StoredFeatures(
        "features/cifar10-efficientnet-lite0", given=("human_1", "human_2", "human_3")
    ),
)
