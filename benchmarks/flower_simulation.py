"""FedAvg in this process against FedAvg on Flower's simulation engine: the same arithmetic.

    many     1,000 clients of 50 random 8x8 images, a cohort of 50, digits_cnn, full batches
    paper    10 clients of 500 images, batch 256, paper_cnn; MNIST where FEDSIFT_DATA has it, else
             random images: only the time matters

Flower gets one actor per core with one thread each; data and model stay in the actors, and both
sides use the channels-last layout. Flower draws its cohorts, and fedsift then trains the same
clients on the same batches, so the two final models must agree.

Each side runs in its own process. Without start-up: from the end of the warm-up rounds to the end
of the last one. With start-up: the whole process.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.timing import seconds
from fedsift.data import ClientData, FederatedData, available, build
from fedsift.errors import RunError
from fedsift.experiment.config import Config
from fedsift.experiment.setup import from_data
from fedsift.problem.networks import build_model
from fedsift.randomness import generator

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.serverapp import Grid

REPEATS, SEED, STEPS, LR, L2 = 3, 0, 5, 0.01, 1e-3
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@dataclass(frozen=True)
class Setting:
    """A federation, and how many rounds are done and timed."""

    model: str
    shape: tuple[int, int, int]
    clients: int
    samples: int
    cohort: int
    batch: int
    warm_up: int
    rounds: int

    def module(self) -> nn.Module:
        """Return the model to start from."""
        return build_model(self.model, self.shape, 10, SEED)


SETTINGS = {
    "many": Setting("digits_cnn", (1, 8, 8), 1000, 50, 50, 50, warm_up=2, rounds=20),
    "paper": Setting("paper_cnn", (1, 28, 28), 10, 500, 10, 256, warm_up=1, rounds=5),
}


def measure() -> dict[str, float]:
    """Run both sides of both settings in turn."""
    missing = [name for name in ("flwr", "ray") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"  left out: {' and '.join(missing)} not installed; install 'flwr[simulation]'")
        return {}
    out = {}
    for name, ending in (("many", ""), ("paper", "_paper")):
        pairs = [compare(name) for _ in range(REPEATS)]
        for k, kind in enumerate(("", "_with_startup")):
            value = statistics.median(pair[k] for pair in pairs)
            out[f"flower_simulation_over_fedsift{ending}{kind}"] = value
    return out


def compare(name: str) -> tuple[float, float]:
    """Return Flower's time over fedsift's, without and with start-up."""
    with tempfile.TemporaryDirectory() as folder:
        whole = {side: seconds(lambda s=side: _process(s, name, folder)) for side in SIDES}
        rounds = {side: json.loads(Path(folder, f"{side}.json").read_text()) for side in SIDES}
        _check_agreement(name, *(load_file(Path(folder, f"{side}.safetensors")) for side in SIDES))
    without = rounds["flower"]["seconds"] / rounds["fedsift"]["seconds"]
    return without, whole["flower"] / whole["fedsift"]


def _process(side: str, name: str, folder: str) -> None:
    code = f"from benchmarks.flower_simulation import SIDES; SIDES[{side!r}]({name!r}, {folder!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
        env=os.environ | QUIET,
    )
    if done.returncode:
        raise RunError(f"the {side} side of '{name}' failed; it said: {done.stderr[-2000:]}")


def _check_agreement(name: str, flower: dict[str, Tensor], fedsift: dict[str, Tensor]) -> None:
    """Stop where one side did other work than the other."""
    start = SETTINGS[name].module().state_dict()
    apart = sum(float((flower[n] - fedsift[n]).square().sum()) for n in start) ** 0.5
    moved = sum(float((fedsift[n] - start[n]).square().sum()) for n in start) ** 0.5
    if not apart < 1e-2 * moved:
        raise RunError(
            f"the two final models of '{name}' are {apart:.3g} apart after moving {moved:.3g}; "
            "make both sides do the same steps"
        )


def _save(
    side: str, name: str, folder: str, ticks: Sequence[float], model: dict[str, Tensor]
) -> None:
    took = ticks[-1] - ticks[SETTINGS[name].warm_up]
    Path(folder, f"{side}.json").write_text(json.dumps({"seconds": took}))
    save_file({n: p.contiguous() for n, p in model.items()}, Path(folder, f"{side}.safetensors"))


@cache
def data(name: str) -> FederatedData:
    """Return the clients of a setting; the same in every process."""
    s = SETTINGS[name]
    mnist = {row.where for row in available() if row.name == "mnist"}
    if name == "paper" and mnist == {"path"}:
        sizes = {"samples_per_client": s.samples, "validation_size": 100, "test_size": 100}
        return build("mnist", clients=s.clients, seed=SEED, **sizes)
    source = generator(SEED, "benchmark")

    def draw(count: int) -> tuple[Tensor, Tensor]:
        images = torch.randn(count, *s.shape, generator=source)
        return images, torch.randint(10, (count,), generator=source)

    rows = torch.arange(s.samples)
    members = [ClientData(*draw(s.samples), None, rows) for _ in range(s.clients)]
    return FederatedData("random", members, draw(100), draw(100), tuple("0123456789"))


def fedsift_side(name: str, folder: str) -> None:
    """Do the rounds in this process, as ``fedsift run`` does."""
    s = SETTINGS[name]
    local = {"local_steps": STEPS, "inner_lr": LR, "batch_size": s.batch}
    config = Config.of(method="fedavg", seed=SEED, l2=L2, device="cpu", **local)
    setup = from_data(config, data(name), s.module())
    state, ticks = setup.initial_state(), [time.perf_counter()]
    for k, cohort in enumerate(json.loads(Path(folder, "cohorts.json").read_text())):
        # All clients known are asked, and those known are the ones that Flower drew.
        setup.federation.sizes = dict.fromkeys(cohort, s.samples)
        _, state = setup.algorithm.round(setup.federation, setup.server, state, k)
        ticks.append(time.perf_counter())
    _save("fedsift", name, folder, ticks, setup.model.unflatten(state.y))


def flower_side(name: str, folder: str) -> None:
    """Do the rounds on Flower's engine with Flower's FedAvg."""
    from flwr.app import ArrayRecord, ConfigRecord, MetricRecord  # noqa: PLC0415 - optional
    from flwr.clientapp import ClientApp  # noqa: PLC0415
    from flwr.serverapp import ServerApp  # noqa: PLC0415
    from flwr.serverapp.strategy import FedAvg  # noqa: PLC0415
    from flwr.simulation import run_simulation  # noqa: PLC0415

    s, ticks = SETTINGS[name], list[float]()
    client, server = ClientApp(), ServerApp()
    client.train()(train)

    def members(replies: list[RecordDict], weighted_by: str) -> MetricRecord:  # noqa: ARG001
        return MetricRecord({"clients": [int(r["metrics"]["client"]) for r in replies]})

    def tick(server_round: int, arrays: ArrayRecord) -> None:  # noqa: ARG001
        ticks.append(time.perf_counter())

    @server.main()
    def main(grid: Grid, context: Context) -> None:  # noqa: ARG001
        strategy = FedAvg(
            fraction_train=s.cohort / s.clients,
            fraction_evaluate=0.0,
            min_train_nodes=s.cohort,
            min_available_nodes=s.clients,
            train_metrics_aggr_fn=members,
        )
        result = strategy.start(
            grid,
            ArrayRecord(s.module().state_dict()),
            num_rounds=s.warm_up + s.rounds,
            train_config=ConfigRecord({"setting": name}),
            evaluate_fn=tick,
        )
        cohorts = [row["clients"] for _, row in sorted(result.train_metrics_clientapp.items())]
        if [len(cohort) for cohort in cohorts] != [s.cohort] * (s.warm_up + s.rounds):
            raise RunError("clients failed on Flower; read what the engine logged")
        Path(folder, "cohorts.json").write_text(json.dumps(cohorts))
        _save("flower", name, folder, ticks, result.arrays.to_torch_state_dict())

    resources = {"num_cpus": 1, "num_gpus": 0.0}
    cores = {"num_cpus": os.cpu_count()}
    run_simulation(
        server,
        client,
        s.clients,
        backend_config={"init_args": cores, "client_resources": resources},
    )


@cache
def resident(name: str) -> tuple[nn.Module, list[tuple[Tensor, Tensor]]]:
    """Return what an actor keeps between messages: the model and the samples of all clients."""
    torch.set_num_threads(1)
    model = SETTINGS[name].module().to(memory_format=torch.channels_last)
    fast = {"memory_format": torch.channels_last}
    return model, [(c.inputs.contiguous(**fast), c.labels) for c in data(name).clients]


def batches(s: Setting, k: int, m: int) -> list[Tensor] | list[slice]:
    """Return the batches that fedsift's client m draws in round k."""
    if s.batch >= s.samples:
        return [slice(None)] * STEPS
    source, kept = generator(SEED, k, m, "batches"), s.samples // s.batch * s.batch
    passes = [torch.randperm(s.samples, generator=source)[:kept] for _ in range(STEPS)]
    return [rows for order in passes for rows in order.split(s.batch)][:STEPS]


def train(message: Message, context: Context) -> Message:
    """Do a client's local steps with a module and ``torch.optim.SGD``."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict  # noqa: PLC0415 - optional

    config = message.content["config"]
    name, k = str(config["setting"]), int(config["server-round"]) - 1
    model, clients = resident(name)
    m = int(context.node_config["partition-id"])
    inputs, labels = clients[m]
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser = torch.optim.SGD(model.parameters(), LR, weight_decay=L2)
    for rows in batches(SETTINGS[name], k, m):
        optimiser.zero_grad()
        cross_entropy(model(inputs[rows]), labels[rows]).backward()
        optimiser.step()
    metrics = MetricRecord({"num-examples": len(labels), "client": m})
    arrays = ArrayRecord(model.state_dict())
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


SIDES = {"flower": flower_side, "fedsift": fedsift_side}
