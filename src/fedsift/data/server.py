"""What a server has of the data when its clients are elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedsift.data.federated import ClientData, FederatedData, InputsAndLabels, check_client
from fedsift.errors import DataError


@dataclass(frozen=True, eq=False)
class ServerData:
    """The clean validation and test sets, and the names of the classes; no client's samples.

    The validation set is read whole, since it is small; the test set may be stored.
    """

    name: str
    validation: InputsAndLabels
    test: InputsAndLabels | None
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        for where, samples in (("validation", self.validation), ("test", self.test)):
            if samples is None:
                continue
            check_client(*samples, self.classes, f"the {where} set")
            if samples[0].shape[1:] != self.validation[0].shape[1:]:
                raise DataError(
                    f"the test set has inputs of shape {list(samples[0].shape[1:])} but the "
                    f"validation set has {list(self.shape)}; give both the same shape"
                )

    @classmethod
    def of(cls, data: FederatedData) -> ServerData:
        """Return the server's part of a dataset."""
        return cls(data.name, data.validation, data.test, data.class_names)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.validation[0].shape[1:])

    @property
    def clients(self) -> Sequence[ClientData]:
        """Nothing: the samples are at the sites."""
        return ()

    @property
    def site_names(self) -> tuple[str, ...]:
        """Nothing: the sites have their names."""
        return ()

    @property
    def noise_rate(self) -> float | None:
        """None: only the sites could know it."""
        return None
