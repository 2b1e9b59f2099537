"""A run on one's own files: read them, fit the schema on the clean set, apply it to every site.

    [files]  sites = ["north=a.csv", "south=b.csv"], validation = "clean.csv", label_column = ...

In one process the classes are those of the clean set and of all sites. A real server knows those of
its clean set only, and those that it lists (``classes``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedsift.data import ClientData, FederatedData, ServerData
from fedsift.data.encoders import Encoder, load_encoder
from fedsift.data.samples import Samples
from fedsift.data.schema import Schema, SchemaSettings, Workspace, prepare
from fedsift.data.sources import ReadOptions, read
from fedsift.data.sources.options import image_size
from fedsift.errors import ConfigError
from fedsift.experiment.config import Config
from fedsift.keys import AUTO
from fedsift.problem.inputs import whole
from fedsift.problem.networks import default_model

COLUMN_KINDS = ("number", "category", "text", "boolean")
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class OwnData:
    """What was read: ``notes`` say what was left out or filled in, a sentence each."""

    data: FederatedData
    schema: Schema
    notes: tuple[str, ...]


def reading(config: Config) -> ReadOptions:
    """Return how the configuration's files are read."""
    return ReadOptions(
        label_column=config.label_column,
        id_column=config.id_column or None,
        ignore_columns=config.ignore_columns,
        image_column=config.image_column or None,
        image_size=image_size(config.image_size) if config.image_size else None,
        skip_unreadable=config.skip_unreadable,
    )


def site_paths(config: Config) -> dict[str, str]:
    """Return where each site's samples are, by the site's name."""
    paths: dict[str, str] = {}
    for text in config.sites:
        name, sign, path = text.partition("=")
        if not sign or not path:
            raise ConfigError(f"the site {text!r} is not of the form NAME=DATA")
        if name in paths:
            raise ConfigError(f"there are two sites {name!r}; give each its own name")
        paths[name] = path
    if not paths:
        raise ConfigError(
            "there is no site; give --site NAME=DATA for each, or choose a dataset with --dataset"
        )
    if not config.validation:
        raise ConfigError("there is no clean set; give its file with --validation")
    return paths


def load_own(config: Config, progress: Progress = lambda _done, _total: None) -> OwnData:
    """Read the files of a configuration."""
    options, paths = reading(config), site_paths(config)
    clean = read(config.validation, options)
    sites = {name: read(path, options) for name, path in paths.items()}
    test = read(config.test, options) if config.test else None
    return federate(clean, sites, test, config.classes, schema_settings(config), progress)


def federate(
    clean: Samples,
    sites: Mapping[str, Samples],
    test: Samples | None,
    classes: Sequence[str],
    settings: SchemaSettings,
    progress: Progress = lambda _done, _total: None,
) -> OwnData:
    """Fit the schema on the clean set and apply it to every site."""
    workspace = Workspace(encoder=_loaded(settings, clean), progress=progress)
    names = [*classes, *_extra(clean, sites)]
    schema = Schema.fit(clean, classes=names, settings=settings, workspace=workspace)
    data = FederatedData(
        "own data",
        [site_client(schema, samples, workspace) for samples in sites.values()],
        in_memory(schema, clean, workspace),
        None if test is None else in_memory(schema, test, workspace),
        schema.classes,
        site_names=tuple(sites),
    )
    return OwnData(data, schema, _notes(schema, clean, sites, test))


def load_server(config: Config, clean: Samples, test: Samples | None) -> tuple[ServerData, Schema]:
    """Fit the schema on a server's clean set; return what the server has."""
    settings = schema_settings(config)
    workspace = Workspace(encoder=_loaded(settings, clean))
    schema = Schema.fit(clean, classes=config.classes, settings=settings, workspace=workspace)
    held = in_memory(schema, clean, workspace)
    tested = None if test is None else in_memory(schema, test, workspace)
    return ServerData("own data", held, tested, schema.classes), schema


def schema_settings(config: Config) -> SchemaSettings:
    """Return what is decided before the schema is fitted."""
    kinds = {}
    for text in config.column_kinds:
        name, sign, kind = text.rpartition("=")
        if not sign or kind not in COLUMN_KINDS:
            raise ConfigError(
                f"the kind of a column {text!r} is not NAME=KIND with a kind of "
                f"{', '.join(COLUMN_KINDS)}"
            )
        kinds[name] = kind
    return SchemaSettings(kinds, config.encoder)


def _loaded(settings: SchemaSettings, clean: Samples) -> Encoder | None:
    """Load the encoder, once for all sites."""
    return load_encoder(settings.encoder, clean.content.kind) if settings.encoder else None


def chosen_model(config: Config, schema: Schema) -> str:
    """Return the configuration's model; auto: the one for such inputs."""
    if config.model != AUTO:
        return config.model
    return default_model(schema.preparation.inputs_kind, schema.shape)


def site_client(schema: Schema, samples: Samples, workspace: Workspace) -> ClientData:
    """Return a site's samples as a client has them."""
    inputs, labels = prepare(schema, samples, workspace)
    rows = torch.arange(len(labels))
    return ClientData(inputs, labels, None, rows, samples.ids, samples.content)


def in_memory(schema: Schema, samples: Samples, workspace: Workspace) -> tuple[Tensor, Tensor]:
    """Return inputs and labels of a set that the server uses as a whole."""
    inputs, labels = prepare(schema, samples, workspace)
    return whole(inputs), labels


def _extra(clean: Samples, sites: Mapping[str, Samples]) -> list[str]:
    """Return the classes that only sites have."""
    known = set(clean.classes or clean.labels)
    return sorted({label for samples in sites.values() for label in samples.labels} - known)


def _notes(
    schema: Schema, clean: Samples, sites: Mapping[str, Samples], test: Samples | None
) -> tuple[str, ...]:
    parts = {"clean set": clean, **{f"site {name}": s for name, s in sites.items()}}
    if test is not None:
        parts["test set"] = test
    notes = list(schema.notes)
    for where, samples in parts.items():
        notes += [f"{where}: {note}" for note in (*samples.notes, *schema.unseen(samples))]
    return tuple(notes)
