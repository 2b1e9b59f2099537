"""Results in folders: ``result.save`` writes what ``fedsift run`` writes, ``load`` reads both."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from torch import nn

from fedsift import sealed
from fedsift.audit.shown import keep_samples
from fedsift.errors import InputError
from fedsift.experiment.auditing import FinishedRun, open_run, read_summary
from fedsift.experiment.common_keys import OWN_MODEL
from fedsift.experiment.result import Result
from fedsift.experiment.run import Finished, read_config
from fedsift.experiment.run_folder import RunFolder
from fedsift.problem.networks import build_model


def result_of(finished: Finished) -> Result:
    """Return the result of a run that is in memory."""

    def make() -> nn.Module:
        return finished.setup.model.to_module(finished.state.y).cpu()

    return Result(
        finished.summary,
        finished.rounds,
        finished.audits,
        make,
        lambda path: _save(finished, path),
    )


def _save(finished: Finished, path: Path) -> None:
    folder = RunFolder(path)
    with folder.held():
        folder.check_free()
        folder.open(finished.setup.config, finished.setup.choice)
        keep_all(finished, path)
        folder.write_rounds(finished.rounds)
        folder.write_results(finished.model(), finished.audits, finished.summary)


def keep_all(finished: Finished, path: Path) -> None:
    """Keep what a person sees of the samples: they may exist in memory only."""
    for audit in finished.audits:
        keep_samples(audit, path)


def load(folder: str | Path, model: nn.Module | None = None) -> Result:
    """Read a run folder.

    Args:
        folder: What ``fs.fit(out=...)``, ``result.save`` or ``fedsift run --out`` wrote.
        model: The module that was trained, where it was a module of your own; needed only for
            ``result.model``.

    Returns:
        The same tables that the run returned.

    Raises:
        InputError: The folder holds no finished run, or the model does not fit it.

    Examples:
        >>> import tempfile, torch, fedsift as fs
        >>> X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        >>> y = (X[:, 0] > 0).long()
        >>> federation = fs.simulate(torch.nn.Linear(4, 2), [(X[:40], y[:40])], (X[40:], y[40:]))
        >>> folder = tempfile.mkdtemp()
        >>> before = fs.fit(federation, rounds=1, out=f"{folder}/run")
        >>> after = fs.load(f"{folder}/run")
        >>> after.label_issues().equals(before.label_issues())
        True
    """
    path = Path(folder)
    run = open_run(path)

    def save(target: Path) -> None:
        raise InputError(f"this result is already in {path}; copy that folder to {target}")

    return Result(
        read_summary(path),
        RunFolder(path).read_rounds(),
        [run.audit(site) for site in run.sites],
        _maker(path, model, run),
        save,
    )


def _maker(path: Path, given: nn.Module | None, run: FinishedRun) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        config = read_config(path)
        if given is None and config.model == OWN_MODEL:
            raise InputError(
                f"the model of {path} is a module of your own; give it as fs.load(folder, "
                "model=module)"
            )
        shape = tuple(read_summary(path)["input_shape"])
        sys.path.insert(0, str(Path.cwd()))  # for module:function
        module = given or build_model(config.model, shape, len(run.class_names), config.seed)
        try:
            state, _ = sealed.load(path / "model.safetensors", "the model of a run")
            wrong = module.load_state_dict(state, strict=False)
        except RuntimeError as error:
            raise _unfit(path, str(error).partition("\n")[0]) from None
        if wrong.unexpected_keys:
            raise _unfit(path, f"it has no parameter {wrong.unexpected_keys[0]}")
        return module.eval()

    return make


def _unfit(path: Path, reason: str) -> InputError:
    return InputError(f"the model does not fit {path / 'model.safetensors'} ({reason})")
