"""The docstrings of the public names: their parts, and their examples, which are run."""

from __future__ import annotations

import doctest
import inspect
import sys

import pytest

import fedsift
from fedsift.errors import FedsiftError

PUBLIC = {name: getattr(fedsift, name) for name in fedsift.__all__}
FUNCTIONS = {name: found for name, found in PUBLIC.items() if inspect.isfunction(found)}
METHODS = {
    f"{name}.{inner}": getattr(found, inner)
    for name, found in PUBLIC.items()
    if inspect.isclass(found) and name in {"Result", "Solution", "Simulation", "LocalFederation"}
    for inner, one in vars(found).items()
    if inspect.isfunction(one) and not inner.startswith("_")
}
WITH_EXAMPLE = (*FUNCTIONS, "Result", "LossPair", "TensorBatch", "LocalFederation")


def examples() -> dict[str, doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = {}
    for name, one in PUBLIC.items():
        module = sys.modules[one.__module__]
        for test in finder.find(one, name=name, module=module, globs={}):
            if test.examples:
                found[test.name] = test
    return found


EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_what_it_shows(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    runner.run(EXAMPLES[name], out=said.append)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_what_a_user_calls_has_an_example(name):
    assert name in EXAMPLES


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_documents_every_argument(name):
    text, signature = FUNCTIONS[name].__doc__, inspect.signature(inspect.unwrap(FUNCTIONS[name]))
    assert "Returns:\n" in text
    own = [
        p
        for p in signature.parameters.values()
        if p.name not in fedsift.FitSettings.__annotations__
    ]
    lacking = [p.name for p in own if f"{p.name}: " not in text]
    assert lacking == []


@pytest.mark.parametrize("name", PUBLIC)
def test_a_class_documents_every_field(name):
    fields = getattr(PUBLIC[name], "__dataclass_fields__", {})
    internal = {"make_model", "write"}  # of Result: how its properties are made
    assert [f for f in fields if f not in internal and f"{f}: " not in PUBLIC[name].__doc__] == []


def test_errors_are_described():
    for error in (fedsift.FedsiftError, fedsift.InputError, fedsift.RunError):
        assert issubclass(error, FedsiftError)
        assert error.__doc__
