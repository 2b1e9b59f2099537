"""A layer over another federation: it changes what is asked or replied, and passes on the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from fedsift.messages import ClientId, Federation, Reply, Request, Snapshot, Traffic


class Layer:
    """Passes everything on; a layer of its own overrides ``ask``, and what else it changes."""

    def __init__(self, inner: Federation) -> None:
        self.inner = inner

    @property
    def sizes(self) -> Mapping[ClientId, int]:
        """N_m of every client."""
        return self.inner.sizes

    @property
    def names(self) -> Mapping[ClientId, str]:
        """The names of the clients' sites."""
        return self.inner.names

    @property
    def traffic(self) -> Traffic:
        """All bytes and exchanges so far."""
        return self.inner.traffic

    def ask(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Ask these clients."""
        return self.inner.ask(request, clients)

    def snapshot(self) -> Snapshot:
        """Return what a checkpoint must hold of the clients."""
        return self.inner.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a checkpoint."""
        self.inner.restore(snapshot)

    def inspect(self, client: ClientId) -> Mapping[str, Tensor] | None:
        """Return a client's own arrays, where they are in this process."""
        return self.inner.inspect(client)
