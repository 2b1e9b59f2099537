"""What ``fedsift run`` does; a module of its own, since its imports take seconds."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from fedsift.cli import processes
from fedsift.cli.own import reading_keys
from fedsift.cli.table import print_table
from fedsift.experiment.common_keys import OWN, DataKeys, RunKeys
from fedsift.experiment.config import (
    Config,
    change,
    flatten,
    from_file,
    from_mapping,
    method_keys,
    parse_setting,
)
from fedsift.experiment.presets import preset_keys
from fedsift.experiment.progress import progress
from fedsift.experiment.run import Finished, execute, read_config
from fedsift.experiment.setup import Federate, Setup, from_config
from fedsift.federation.link import Link
from fedsift.files import absolute, read_toml
from fedsift.report import write_report

HERE = "command line"
ENCODING = 5.0  # seconds between two lines on an encoder's progress


def handle(options: argparse.Namespace) -> int:
    """Do one run."""
    if options.keys is not None:
        print(keys_text(options.keys or options.method or RunKeys.method), end="")
        return 0
    config, out = configuration(options)
    with processes.together(options.processes, options.given) as link:
        if link is not None and link.rank > 0:
            processes.work(link, lambda federate: _build(config.resolve(), federate))
            return 0
        finished = _execute(options, config, out, link)
    for notice in finished.summary["notices"]:
        print(f"note: {notice}", file=sys.stderr)
    report = write_report([out], out / "report.html")
    print_table([finished.summary])
    if "diagnosis" in finished.summary:
        print(finished.summary["diagnosis"]["advice"])
    if finished.audits:
        total = sum(audit.summary.samples for audit in finished.audits)
        flagged = sum(audit.summary.flagged for audit in finished.audits)
        print(f"{flagged} of {total} labels look wrong; `fedsift audit {out}` lists them")
    print(f"run folder: {out}\nreport:     {report}")
    return 0


def _execute(options: argparse.Namespace, config: Config, out: Path, link: Link | None) -> Finished:
    with progress(config.method, config.rounds) as observe, processes.leading(link) as federate:
        return execute(
            config,
            out,
            resume=options.resume,
            observe=observe,
            build=lambda config: _aloud(_build(config, federate)),
        )


def configuration(options: argparse.Namespace) -> tuple[Config, Path]:
    """Combine the file, the options and ``--set``, the later overriding, and find the run folder.

    A run that is resumed starts from its own configuration.
    """
    named = {"dataset": options.dataset, "method": options.method, "labels": options.labels}
    given = {key: value for key, value in named.items() if value is not None}
    given |= _own_files(options)
    given |= dict(parse_setting(text) for text in options.set)
    given |= {"diagnose": True} if options.diagnose else {}
    if options.preset:
        known = {} if options.config is None else flatten(read_toml(options.config))
        known = {"method": RunKeys.method, "dataset": DataKeys.dataset, **known, **given}
        given = preset_keys(options.preset, known["method"], known["dataset"]) | given
    out = options.out
    if out is None:
        config = _new(options.config, given)
        out = Path("runs") / f"{config.dataset}-{config.method}-{config.seed}"
    if options.resume and (out / "config.toml").exists():
        in_file = {} if options.config is None else flatten(read_toml(options.config))
        return _placed(change(read_config(out), {**in_file, **given}, HERE)), out
    return _new(options.config, given), out


def _own_files(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keys that name one's own files."""
    given: dict[str, Any] = reading_keys(options)
    for name in ("validation", "test", "model", "encoder", "classes"):
        if (value := getattr(options, name)) is not None:
            given[name] = value
    if options.column_kind:
        given["column_kinds"] = options.column_kind
    if options.site:
        given |= {"sites": options.site, "dataset": OWN}
    return given


def _build(config: Config, federate: Federate) -> Setup:
    sys.path.insert(0, str(Path.cwd()))  # for module:function
    return from_config(config, _encoding(), federate)


def _aloud(setup: Setup) -> Setup:
    """Say what was left out of the files, and what the clean set cannot tell."""
    chosen = () if setup.choice is None else (str(setup.choice),)
    for note in (*chosen, *setup.notes):
        print(f"note: {note}", file=sys.stderr)
    return setup


def _encoding() -> Callable[[int, int], None]:
    """Return what says now and then how many samples an encoder has done."""
    said = time.monotonic()

    def say(done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said > ENCODING:
            said = time.monotonic()
            print(f"encoding: {done} of {total} samples", file=sys.stderr, flush=True)

    return say


def _new(path: Path | None, given: Mapping[str, Any]) -> Config:
    return _placed(from_mapping(given, HERE) if path is None else from_file(path, given, HERE))


def _placed(config: Config) -> Config:
    """Return the configuration with paths that are right from any folder."""
    if not config.sites:
        return config
    sites = [text.partition("=") for text in config.sites]
    return config.replace(
        dataset=OWN,
        sites=[f"{name}{sign}{absolute(place)}" for name, sign, place in sites],
        validation=absolute(config.validation),
        test=absolute(config.test),
    )


def keys_text(method: str) -> str:
    """Return the common keys and those of a method with their defaults, as commented TOML."""
    lines: list[str] = []
    config = Config.of(method=method)
    known = method_keys(config.method)
    for table, values in config.tables().items():
        lines += ["", f"[{table}]"]
        for name, value in values.items():
            setting = tomli_w.dumps({name: value}).strip()
            choices = known[name].allowed()
            listed = f" ({', '.join(choices)})" if choices else ""
            lines.append(f"{setting:27} # {known[name].text}{listed}")
    return "\n".join(lines[1:]) + "\n"
