"""``simulate``: sites in this process, from what a user has.

| call                                                       | sites                            |
|------------------------------------------------------------|----------------------------------|
| ``simulate(model, [(X1, y1), ...], validation)``           | numbered                         |
| ``simulate(model, {"north": (X1, y1), ...}, validation)``  | by their names                   |
| ``simulate(model, X, y, groups=g, validation=validation)`` | one per value of ``g``           |

What may stand for a pair (X, y) is in ``data/given.py``, what may be a label in ``data/labels.py``.
Samples that ``fs.read`` returns become inputs by a schema, which is fitted on the clean set; the
model may then be a name, or a function of the inputs' shape and the number of classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import torch
from torch import Tensor, nn

from fedsift.data import ClientData, FederatedData, apply_corrections
from fedsift.data.corrected import Source
from fedsift.data.given import Given, matched, read_given, without_wrapper
from fedsift.data.labels import check_outputs, names_of_classes, numbered
from fedsift.data.samples import Arrays, Samples
from fedsift.data.schema import Schema, SchemaSettings
from fedsift.data.sites import GivenSite, by_group, by_site, listed
from fedsift.errors import DataError, InputError
from fedsift.experiment.own_data import federate
from fedsift.problem import FlatModel, bind
from fedsift.problem.inputs import whole
from fedsift.problem.networks import build_model, default_model, seeded_model
from fedsift.problem.run_modes import RunModes

ORDER = ("validation", "test", "true_labels", "class_names", "ids")
CLEAN, TEST = "the validation set", "the test set"


Model = nn.Module | str | Callable[[tuple[int, ...], int], nn.Module]


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """A model and the data of every site, in this process; ``fs.simulate`` makes it.

    Attributes:
        model: The module to train.
        data: The sites' samples, the clean set and the test set.
        modes: How the model is run and differentiated.
        make: Makes the model anew from a seed, where it was given as a name or a function.
        model_name: The model's name, if it has one.
        schema: How raw samples became inputs; None where inputs were given.
        notes: What was left out of the samples, one sentence each.
    """

    model: nn.Module
    data: FederatedData
    modes: RunModes | None = None
    make: Callable[[int], nn.Module] | None = None
    model_name: str = ""
    schema: Schema | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        samples, classes = sum(map(len, self.data.clients)), self.data.classes
        return f"Simulation({len(self.names)} sites, {samples} samples, {classes} classes)"

    def module(self, seed: int) -> nn.Module:
        """Return the model that a run with this seed starts from."""
        return self.model if self.make is None else self.make(seed)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sites; their numbers as text where they have none."""
        return self.data.site_names


@overload
def simulate(
    model: Model,
    clients: Sequence[Any] | Mapping[str, Any],
    validation: Any,
    test: Any = None,
    true_labels: Any = None,
    class_names: Sequence[str] | None = None,
    ids: Any = None,
    *,
    encoder: str = "",
    labels: Source | None = None,
) -> Simulation: ...
@overload
def simulate(
    model: Model,
    X: Any,
    y: Any = None,
    /,
    *,
    groups: Any,
    validation: Any,
    test: Any = None,
    true_labels: Any = None,
    class_names: Sequence[str] | None = None,
    ids: Any = None,
    labels: Source | None = None,
) -> Simulation: ...
def simulate(
    model: Model,
    clients: Any = None,
    *more: Any,
    validation: Any = None,
    test: Any = None,
    true_labels: Any = None,
    class_names: Sequence[str] | None = None,
    ids: Any = None,
    groups: Any = None,
    encoder: str = "",
    labels: Source | None = None,
) -> Simulation:
    """Make a federation of sites in this process.

    Which parameters of the model are trained (``requires_grad``) decides how ``fit`` trains by
    default: a last linear layer alone is a head on fixed features.

    Args:
        model: An ``nn.Module`` that maps inputs to one number per class. For samples of
            ``fs.read`` also ``"auto"``, the name of a network, or a function of the inputs' shape
            and the number of classes.
        clients: A list of pairs (inputs, labels), or a mapping from the sites' names to such
            pairs, or to samples of ``fs.read``; or a table X, with ``groups``. Inputs are tensors,
            arrays, tables of numbers, memory-mapped arrays or datasets, which are read when they
            are needed. Labels are integers from 0 on, or names.
        *more: With ``groups``, the labels y of the table.
        validation: The clean set: samples whose labels can be trusted. It is read whole.
        test: Samples that measure accuracy and nothing else.
        true_labels: One array per site, for experiments on simulated noise.
        class_names: The names of the classes 0, 1, ...
        ids: What you call the samples: one list per site.
        groups: The site of every row of X; ``ids`` and ``true_labels`` then have an entry per row.
        encoder: A frozen network that turns samples of ``fs.read`` into features, such as
            ``"timm:resnet18"``.
        labels: Corrections of the sites' labels: a file that ``fedsift review`` or Label Studio
            exported, a folder of such files, a run's folder, or a table with the columns site, id
            (or index), label and unusable.

    Returns:
        What ``fs.fit`` takes.

    Raises:
        InputError: Shapes, labels or names do not fit together; the sentence says which.

    Examples:
        >>> import torch, fedsift as fs
        >>> X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        >>> y = (X[:, 0] > 0).long()
        >>> site = ["north", "south"] * 20
        >>> fs.simulate(
        ...     torch.nn.Linear(4, 2), X[:40], y[:40], groups=site, validation=(X[40:], y[40:])
        ... )
        Simulation(2 sites, 40 samples, 2 classes)
    """
    named = dict(zip(ORDER, (validation, test, true_labels, class_names, ids), strict=True))
    made = _simulated(model, clients, _bound(more, named, groups is not None), groups, encoder)
    return made if labels is None else replace(made, data=apply_corrections(made.data, labels))


def _simulated(
    model: Model, clients: Any, call: dict[str, Any], groups: Any, encoder: str
) -> Simulation:
    call["validation"] = without_wrapper(call["validation"], CLEAN)
    if _needs_schema(call["validation"]):
        return _from_samples(model, clients, call, encoder)
    parts = clients.values() if isinstance(clients, Mapping) else clients
    if isinstance(clients, Mapping | list | tuple) and any(map(_needs_schema, parts)):
        raise DataError(
            "the sites have samples of fs.read but the validation set has not; read it with "
            "fs.read, too"
        )
    if not isinstance(model, nn.Module):
        raise InputError(f"the model is a {type(model).__name__}; give an nn.Module")
    if encoder:
        raise InputError("an encoder takes samples of fs.read; give sites and validation as such")
    read = read_given
    clean = _clean(call["validation"], read)
    extras = call["ids"], call["true_labels"], read
    if groups is None:
        sites = by_site(clients, *extras)
    else:
        y = call.get("y")
        sites = by_group(clients if y is None else (clients, y), groups, *extras)
    tested = None if call["test"] is None else read(call["test"], TEST)
    return _simulation(model, sites, clean, tested, listed(call["class_names"], "class_names"))


def _bound(more: tuple[Any, ...], named: dict[str, Any], grouped: bool) -> dict[str, Any]:
    """Return all arguments by name; those without one come in the order of the signature."""
    order = ("y", *ORDER) if grouped else ORDER
    if len(more) > len(order):
        raise InputError(
            f"simulate got {len(more)} arguments after the clients; it takes {', '.join(order)}"
        )
    for name, value in zip(order, more, strict=False):
        if named.get(name) is not None:
            raise InputError(
                f"simulate got '{name}' twice, by its place and by its name; for a table and its "
                "labels give groups, too"
            )
        named[name] = value
    return named


def _needs_schema(value: Any) -> bool:
    """Tell samples that are not numbers yet: rows of a table, pictures."""
    return isinstance(value, Samples) and not isinstance(value.content, Arrays)


def _from_samples(model: Model, clients: Any, call: Mapping[str, Any], encoder: str) -> Simulation:
    """Fit a schema on the clean samples and apply it to every site."""
    if call["ids"] is not None or call["true_labels"] is not None:
        raise InputError("samples of fs.read have their own ids and labels; leave ids out")
    if not isinstance(clients, Mapping):
        clients = {str(m): samples for m, samples in enumerate(clients)}
    clients = {name: without_wrapper(part, f"site {name}") for name, part in clients.items()}
    call = {**call, "test": without_wrapper(call["test"], TEST)}
    parts = {**{f"site {name}": part for name, part in clients.items()}, TEST: call["test"]}
    for where, part in parts.items():
        if not isinstance(part, Samples) and not (where == TEST and part is None):
            raise DataError(f"{where} is a {type(part).__name__}; read it with fs.read")
    classes = listed(call["class_names"], "class_names") or ()
    own = federate(
        call["validation"], clients, call["test"], classes, SchemaSettings(encoder=encoder)
    )
    make, name = _maker(model, own.schema)
    module = make(0)
    modes = bind(FlatModel(module), own.data.validation[0], "the validation inputs").modes
    kept = None if isinstance(model, nn.Module) else make
    return Simulation(module, own.data, modes, kept, name, own.schema, own.notes)


def _maker(model: Model, schema: Schema) -> tuple[Callable[[int], nn.Module], str]:
    """Return what makes the model from a seed, and its name if it has one."""
    shape, classes = schema.shape, len(schema.classes)
    if isinstance(model, nn.Module):
        return lambda _seed: model, ""
    if isinstance(model, str):
        name = default_model(schema.preparation.inputs_kind, shape) if model == "auto" else model
        return lambda seed: build_model(name, shape, classes, seed), name
    if not callable(model):
        raise InputError(f"the model is a {type(model).__name__}; give an nn.Module or a name")
    return lambda seed: seeded_model(model, shape, classes, seed), ""


def _clean(value: Any, read: Callable[[Any, str], Given]) -> Given:
    """Return the clean set, read whole: it is small."""
    given = read(value, CLEAN)
    if not len(given.labels) or not len(given.inputs):
        raise DataError(f"{CLEAN} has no samples; give it some with clean labels")
    return replace(given, inputs=whole(given.inputs))


def _simulation(
    model: nn.Module,
    sites: list[GivenSite],
    clean: Given,
    tested: Given | None,
    class_names: Sequence[str] | None,
) -> Simulation:
    flat = FlatModel(model)  # a copy in evaluation mode: the user's module stays as it is
    dtype = flat.initial().dtype
    parts = {CLEAN: clean, **({} if tested is None else {TEST: tested})}
    fitted = {where: matched(given, clean, dtype, where) for where, given in parts.items()}
    flat = bind(flat, fitted[CLEAN].inputs, "the validation inputs")
    sites = [replace(s, given=matched(s.given, clean, dtype, s.where)) for s in sites]
    outputs = _outputs(flat, whole(fitted[CLEAN].inputs))
    classes = _classes(fitted, sites, class_names)
    if classes is not None:
        check_outputs(classes, outputs, class_names is not None)
    pairs = {w: (given.inputs, numbered(given.labels, classes, w)) for w, given in fitted.items()}
    data = FederatedData(
        "own data",
        [_member(site, classes, clean.columns) for site in sites],
        pairs[CLEAN],
        pairs.get(TEST),
        classes or tuple(map(str, range(outputs))),
        site_names=tuple(site.name for site in sites),
    )
    return Simulation(model, data, flat.modes)


def _classes(
    fitted: Mapping[str, Given], sites: Sequence[GivenSite], given: Sequence[str] | None
) -> tuple[str, ...] | None:
    """Return the names of the classes; None where they have numbers only."""
    own = {**fitted, **{site.where: site.given for site in sites}}
    labels = {where: part.labels for where, part in own.items()}
    labels |= {f"true_labels of {s.where}": s.truth for s in sites if s.truth is not None}
    known = next((part.classes for part in own.values() if part.classes), None)
    return names_of_classes(labels, given, known)


def _member(
    site: GivenSite, classes: Sequence[str] | None, columns: tuple[str, ...] | None
) -> ClientData:
    labels = numbered(site.given.labels, classes, site.where)
    truth = site.truth
    true = None if truth is None else numbered(truth, classes, f"{site.where} (true labels)")
    ids = None if site.given.ids is None else tuple(map(str, site.given.ids))
    raw = Arrays(site.given.inputs, columns)
    return ClientData(site.given.inputs, labels, true, torch.arange(labels.numel()), ids, raw)


@torch.no_grad()
def _outputs(model: FlatModel, inputs: Tensor) -> int:
    """Return the number of logits that the model gives for one input."""
    return int(model(model.initial(), inputs[:1]).shape[1])
