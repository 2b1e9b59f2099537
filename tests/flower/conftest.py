"""The run that is done on every engine, and the same in process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fedsift.client.policy import FILE, OPEN
from fedsift.experiment.config import Config
from fedsift.experiment.run import execute
from fedsift.experiment.setup import Setup, from_config, load_data
from fedsift.federation import LocalFederation

pytest.importorskip("flwr", reason="pip install 'fedsift[flower]'")


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """Let the programs that tests start sum in the order of this process: bits then agree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server that knows two sites' keys, and the keys of another CA and another site."""
    from fedsift.flower.keys import make_keys  # noqa: PLC0415 - of the extra
    from fedsift.flower.local_deployment import LocalDeployment  # noqa: PLC0415 - of the extra

    folder = tmp_path_factory.mktemp("server")
    make_keys(folder / "keys", ["site-0", "site-1"])
    make_keys(folder / "others", ["stranger"])
    with LocalDeployment(folder, []) as federation:
        yield federation


@pytest.fixture
def link(server):
    """Return a node's connection to the server; it is closed after the test."""
    from fedsift.flower.compat import Session  # noqa: PLC0415 - of the extra
    from fedsift.flower.keys import load_or_make_key  # noqa: PLC0415 - of the extra

    made = []

    def connect(key, ca=None, port=None):
        address = f"127.0.0.1:{port or server.port}"
        made.append(Session(address, ca or server.keys / "ca.crt", load_or_make_key(key)))
        return made[-1]

    yield connect
    for session in made:
        session.leave()


@pytest.fixture(scope="session")
def config() -> Config:
    return Config.of(dataset="digits", clients=3, rounds=5, seed=3, device="cpu").resolve()


@pytest.fixture(scope="session")
def write_sites():
    def write(config: Config, folder: Path) -> list[str]:
        """Write the data of every client of a configuration to a file of its own."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for m, client in enumerate(load_data(config).clients):
            paths.append(str(folder / f"{m}.npz"))
            np.savez(paths[-1], inputs=client.inputs.numpy(), labels=client.labels.numpy())
            site = folder.parent / f"site-{m}"  # whose batches must be those of one process
            site.mkdir(exist_ok=True)
            (site / FILE).write_text(OPEN.to_toml())
        return paths

    return write


@pytest.fixture(scope="session")
def in_process():
    def run(config: Config, out: Path) -> dict:
        """Run a configuration here, every client on its own."""

        def build(config: Config) -> Setup:
            setup = from_config(config)
            sites = setup.federation.clients.values()
            return replace(setup, federation=LocalFederation(sites, pool=False))

        torch.set_num_threads(1)
        return execute(config, out, build=build).summary

    return run
