"""A run in Flower's simulation engine: sites in the engine's workers.

A worker answers for any client, so the memory is the disk: every question reads the client's
journal and writes it. ``partition-id`` says which client a node is.

    python -m fedsift.flower.simulated CONFIG.toml SITES OUT

SITES is a folder with `<client>.npz` for every client (``fedsift site --split``); what the sites
keep goes beside them. The workers find it in the environment as `FEDSIFT_SITES`.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from fedsift.errors import RunError
from fedsift.experiment.config import Config, from_mapping, read_toml
from fedsift.experiment.remote import execute_remotely
from fedsift.federation.remote import Patience, RemoteFederation
from fedsift.flower.mail import GridMail
from fedsift.flower.programs import QUIET
from fedsift.flower.relay import RECORD
from fedsift.site.host import Holdings, Host
from fedsift.site.sources import load_model, load_samples

app = ClientApp()


@app.query()
def query(message: Message, context: Context) -> Message:
    """Answer for the client of this node."""
    client = int(context.node_config["partition-id"])
    record = message.content.config_records[RECORD]
    parts = {str(name): data for name, data in record.items() if isinstance(data, bytes)}
    answer = _host(client).handle(parts)
    return Message(RecordDict({RECORD: ConfigRecord(dict(answer))}), reply_to=message)


@cache
def _host(client: int) -> Host:
    torch.set_num_threads(1)  # workers share the machine
    folder = Path(os.environ["FEDSIFT_SITES"])
    inputs, labels = load_samples(str(folder / f"{client}.npz"))
    model = load_model("auto", tuple(inputs.shape[1:]))
    return Host(Holdings(client, model, inputs, labels, folder / f"site-{client}"), reread=True)


def simulate(config: Config, sites: Path, out: Path) -> dict[str, Any]:
    """Run a configuration in the simulation engine and return the summary."""
    os.environ |= {name: os.environ.get(name, value) for name, value in QUIET.items()}
    os.environ["FEDSIFT_SITES"] = str(sites.absolute())
    summaries: list[dict[str, Any]] = []
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:  # noqa: ARG001
        patience = Patience(answer=600, connect=300, poll=0.05)
        federation = RemoteFederation(GridMail(grid), out.name, patience)
        summaries.append(execute_remotely(config, out, federation))

    backend: dict[str, dict[str, Any]] = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server, app, config.resolve().clients, backend_config=backend)
    if not summaries:
        raise RunError("the simulation ended without a result; its log says why")
    return summaries[0]


if __name__ == "__main__":
    # The workers know this module by its name only, not as the program.
    from fedsift.flower import simulated  # noqa: PLW0406

    given = sys.argv[1:]
    told = from_mapping(read_toml(Path(given[0])), given[0])
    simulated.simulate(told, Path(given[1]), Path(given[2]))
