"""From a configuration to everything a run needs: data, problem, federation, algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from fedsift import device
from fedsift.algorithms import Algorithm, Server, ServerState
from fedsift.algorithms.method import Choice, Method, Weighting
from fedsift.algorithms.registry import METHODS
from fedsift.client import Client
from fedsift.client.guard import Guard
from fedsift.client.policy import read_policy
from fedsift.data import (
    ClientData,
    FederatedData,
    ServerData,
    apply_corrections,
    build,
    with_validation,
)
from fedsift.data.clean_set import CleanSet, check_clean_set
from fedsift.data.schema import Schema
from fedsift.data.untrusted import trusted
from fedsift.errors import ConfigError, DataError, InputError
from fedsift.experiment.common_keys import OWN
from fedsift.experiment.compatible import check_cohort, check_private, check_secure
from fedsift.experiment.config import Config
from fedsift.experiment.own_data import Progress, chosen_model, load_own
from fedsift.experiment.traffic import rates_of
from fedsift.federation import (
    LocalFederation,
    PrivateFederation,
    Rates,
    SecureSumFederation,
)
from fedsift.keys import BuildContext
from fedsift.messages import Federation
from fedsift.privacy import Account
from fedsift.problem import FlatModel, Reweighting, batch_of, bind
from fedsift.problem.inputs import take, whole
from fedsift.problem.networks import build_model
from fedsift.problem.run_modes import RunModes

Federate = Callable[..., LocalFederation]
HEAD = ("linear", "single-loop")  # a model and a method that others suit better
BETTER = (
    "the model is a linear head on fixed features; --method out-of-fold finds more wrong labels "
    "with such a model"
)


@dataclass(frozen=True)
class Setup:
    """A noisy-label run, ready to start; ``choice`` is how its method was found, if not given.

    ``account`` counts what differential privacy costs; None: without it.
    """

    config: Config
    data: FederatedData | ServerData
    model: FlatModel
    federation: Federation
    server: Server
    algorithm: Algorithm
    schema: Schema | None = None
    clean_set: CleanSet | None = None
    notes: tuple[str, ...] = ()
    choice: Choice | None = None
    clean_kept: Tensor | None = None
    account: Account | None = None

    def of_own_data(self, schema: Schema | None, notes: tuple[str, ...] = ()) -> Setup:
        """Return the run on one's own data, with what the clean set lacks among its notes."""
        counts = [
            client.labels.bincount(minlength=self.data.classes) for client in self.data.clients
        ]
        at_sites = torch.stack(counts).sum(dim=0).tolist() if counts else None
        names = self.data.class_names
        found = check_clean_set(*self.data.validation, names, at_sites, self.config.seed)
        notes = (*self.notes, *notes, *found.notes)
        setup = replace(self, schema=schema, clean_set=found, notes=notes)
        return setup if self.config.trust_clean_set else setup.without_suspects()

    def without_suspects(self) -> Setup:
        """Return the run without the clean samples that look wrong (``data/untrusted.py``)."""
        assert self.clean_set is not None
        inputs, labels = self.data.validation
        used = trusted(self.clean_set, labels)
        if not used.note:
            return self
        chosen = take(inputs, used.positions), labels[used.positions]
        batch = batch_of(whole(chosen[0]), chosen[1], device.resolve(self.config.device))
        return replace(
            self,
            data=with_validation(self.data, chosen),
            server=replace(self.server, validation=batch),
            notes=(*self.notes, used.note),
            clean_kept=used.positions,
        )

    def initial_state(self) -> ServerState:
        """Return the server's state before round 0."""
        return ServerState(self.model.initial())

    @property
    def rates(self) -> Rates:
        """How much of updates and models is left out of what travels."""
        return rates_of(self.config)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.initial().device

    @property
    def method(self) -> Method:
        """The method's row of the table."""
        return METHODS[self.config.method]

    @property
    def weighting(self) -> Weighting:
        """Where the weights start, and what they do to the loss."""
        return self.method.weighting(self.config.settings)

    @property
    def learns_weights(self) -> bool:
        """True if the method gives every sample a weight."""
        return self.method.learns_weights

    @property
    def sees_weights(self) -> bool:
        """True if the weights are in this process; those of a remote client stay with it."""
        return self.learns_weights and bool(self.data.clients)

    def site_name(self, client: int) -> str:
        """Return the name of a client's site."""
        names = self.data.site_names
        return names[client] if client < len(names) else str(client)

    def weights(self, client: int) -> Tensor:
        """Return a client's sample weights, averaged over rounds."""
        return self._inspect(client)["average"].cpu()

    def agreement(self, client: int) -> Tensor:
        """Return how far the model agrees with a client's labels, averaged over rounds.

        For a method that does not measure it, these are the weights.
        """
        kept = self._inspect(client)
        return kept.get("agreement", kept["average"]).cpu()

    def _inspect(self, client: int) -> Mapping[str, Tensor]:
        kept = self.federation.inspect(client)
        if kept is None:
            raise InputError(f"the weights of client {client} are at its site; audit them there")
        return kept

    def wrong(self) -> Tensor | None:
        """Return which samples are mislabelled, all clients in order; None if unknown."""
        parts = []
        for client in self.data.clients:
            if client.true_labels is None:
                return None
            parts.append(client.labels != client.true_labels)
        return torch.cat(parts)


def from_config(
    config: Config,
    encoding: Progress = lambda _done, _total: None,
    federate: Federate = LocalFederation,
) -> Setup:
    """Build the run of a resolved configuration.

    ``encoding`` sees how far an encoder is, ``federate`` makes a federation of the clients.
    """
    if config.dataset == OWN:
        return _from_files(config, encoding, federate)
    data = load_data(config)
    model = build_model(config.model, data.shape, data.classes, config.seed)
    return from_data(config, data, model, federate=federate)


def _from_files(config: Config, encoding: Progress, federate: Federate) -> Setup:
    own = load_own(config, encoding)
    data = apply_corrections(own.data, config.labels) if config.labels else own.data
    name = chosen_model(config, own.schema)
    config = config.replace(model=name, digest=data.digest())
    module = build_model(name, data.shape, data.classes, config.seed)
    notes = (*own.notes, BETTER) if (name, config.method) == HEAD else own.notes
    setup = from_data(config, data, module, federate=federate)
    return setup.of_own_data(own.schema, notes)


def load_data(config: Config) -> FederatedData:
    """Load, split and corrupt the dataset of a resolved configuration; then correct it."""
    if config.dataset == OWN:
        data = load_own(config).data
        return apply_corrections(data, config.labels) if config.labels else data
    data = build(
        config.dataset,
        split=config.split,
        partition=config.partition,
        clients=config.clients,
        samples_per_client=config.samples_per_client or None,
        validation_size=config.validation_size or None,
        test_size=config.test_size or None,
        noise=config.noise,
        noise_column=config.noise_column,
        rho=config.rho,
        alpha=config.alpha,
        shards_per_client=config.shards_per_client,
        seed=config.seed,
    )
    return apply_corrections(data, config.labels) if config.labels else data


def from_data(
    config: Config,
    data: FederatedData,
    module: nn.Module,
    modes: RunModes | None = None,
    federate: Federate = LocalFederation,
) -> Setup:
    """Build a run on given data and a given model; ``modes`` are those of a trial on a CPU."""
    check_cohort(config, len(data.clients))
    config, problem, choice = _problem(config, module, data, modes)
    method, where = METHODS[config.method], device.resolve(config.device)
    clients = _clean_only(data) if method.needs_truth else data.clients
    members = [
        Client(m, problem, batch_of(client.inputs, client.labels, where), config.seed)
        for m, client in enumerate(clients)
    ]
    federation = federate(members, pool=config.pool, names=data.site_names, guard=_guard(config))
    return _setup(config, data, problem, federation, choice)


def _guard(config: Config) -> Guard | None:
    """Return what simulated sites hold requests against."""
    if not config.policy:
        return None
    named = config.policy != "default"
    if named and not Path(config.policy).exists():
        raise ConfigError(f"policy is {config.policy!r}, which is no file; or use 'default'")
    return Guard(read_policy(Path(config.policy) if named else None), config.method)


def server_side(
    config: Config, data: ServerData, module: nn.Module, federation: Federation
) -> Setup:
    """Build the server's half of a run whose clients are elsewhere."""
    check_cohort(config, config.clients)
    if METHODS[config.method].needs_truth:
        raise DataError("the oracle needs the true labels; use it on simulated noise only")
    config, problem, choice = _problem(config, module, data)
    return _setup(config, data, problem, federation, choice)


def _problem(
    config: Config,
    module: nn.Module,
    data: FederatedData | ServerData,
    modes: RunModes | None = None,
) -> tuple[Config, Reweighting, Choice | None]:
    where = device.resolve(config.device)
    model = FlatModel(module, where)
    if modes is None or where.type != "cpu":
        model = bind(model, data.validation[0], "the validation inputs")
    else:
        model = model.run_as(modes)
    config, choice = _choose(config, model, data)
    if config.values().get("curvature") == "hessian":
        model.modes.need_hessian()
    weighting = METHODS[config.method].weighting(config.settings)
    problem = Reweighting(model, config.l2, weighting.initial_weight, weighting.bootstrap)
    return config, problem, choice


def _choose(
    config: Config, model: FlatModel, data: FederatedData | ServerData
) -> tuple[Config, Choice | None]:
    """Return the configuration of the method that trains, and the choice if it was made here."""
    choose = METHODS[config.method].choose
    if choose is None:
        return config, None
    inputs = whole(data.validation[0]).to(model.initial().device)
    choice = choose(Reweighting(model), inputs, data.classes)
    return config.replace(method=choice.method), choice


def _setup(
    config: Config,
    data: FederatedData | ServerData,
    problem: Reweighting,
    federation: Federation,
    choice: Choice | None,
) -> Setup:
    METHODS[config.method].check(problem)
    account = check_private(config)
    if config.secure_sum:
        check_secure(config)
        federation = SecureSumFederation(federation, equal=account is not None)
    if account is not None:
        federation = PrivateFederation(federation, config.dp_clip, account)
    inputs, labels = data.validation
    server = Server(
        problem,
        batch_of(whole(inputs), labels, device.resolve(config.device)),
        cohort=config.cohort,
        min_clients=config.min_clients,
        seed=config.seed,
    )
    context = BuildContext(problem.model.length, config.seed, config.cohort)
    algorithm = METHODS[config.method].algorithm(config.settings, context)
    return Setup(
        config,
        data,
        problem.model,
        federation,
        server,
        algorithm,
        choice=choice,
        account=account,
    )


def _clean_only(data: FederatedData) -> list[ClientData]:
    kept = []
    for m, client in enumerate(data.clients):
        if client.true_labels is None:
            raise DataError("the oracle needs the true labels; use it on simulated noise only")
        good = client.labels == client.true_labels
        if not bool(good.any()):
            raise DataError(
                f"{data.where(m)} has no correctly labelled sample; lower rho for the oracle"
            )
        kept.append(client.choose(good))
    return kept
