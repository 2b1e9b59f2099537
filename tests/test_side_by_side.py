"""The references of the comparisons with other libraries, against finite differences."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks import data_cleaning, side_by_side
from benchmarks.side_by_side.driver import fewest
from benchmarks.side_by_side.problem import Problem
from torch.nn.functional import cross_entropy

PROGRAMS = Path(side_by_side.__file__).parent


@pytest.fixture(scope="module")
def small():
    whole = Problem.of_digits()
    train, validation = slice(0, 30), slice(0, 40)
    return Problem(
        whole.inputs[train],
        whole.labels[train],
        whole.validation_inputs[validation],
        whole.validation_labels[validation],
    )


def test_hypergradient_of_the_reference_is_the_slope_of_h(small):
    along = np.random.default_rng(0).standard_normal(len(small.start))
    x, step = small.start + 0.3 * along, 1e-4
    slope = (small.h(x + step * along)[0] - small.h(x - step * along)[0]) / (2 * step)
    assert slope == pytest.approx(float(small.h(x)[1] @ along), rel=1e-6)


def test_the_program_of_fedsift_takes_the_reference_s_step(small, monkeypatch):
    monkeypatch.syspath_prepend(str(PROGRAMS))
    import with_fedsift  # noqa: PLC0415 - a program, found like by a user

    names = ("inputs", "labels", "validation_inputs", "validation_labels", "start")
    data = {**{name: getattr(small, name) for name in names}, "prior": 1e-3}
    found = (small.start - with_fedsift.solve(data, 1, 600, 60, 1.0, 60.0)) / 60.0
    exact = small.h(small.start)[1]
    assert np.linalg.norm(found - exact) < 1e-2 * np.linalg.norm(exact)
    sys.modules.pop("with_fedsift")


def test_statements_leave_out_imports_and_docstrings():
    function = 'def f(x):\n    """More."""\n    y = (\n        x\n    )\n    return y\n'
    source = f'"""Words."""\nimport a\n{function}'
    assert side_by_side.statements(source) == 3


@pytest.mark.parametrize(("least", "found"), [(1, 1), (3, 4), (8, 8), (9, 8)])
def test_fewest_is_the_first_rung_that_is_enough(least, found):
    assert fewest((1, 2, 4, 8), lambda n: n >= least) == found


def test_derivatives_of_data_cleaning_are_those_of_autograd():
    draw = np.random.default_rng(0)
    n, d = data_cleaning.BATCH, 6
    made = draw.standard_normal((n, d)).astype(np.float32), draw.integers(10, size=n)
    samples = data_cleaning.Samples(*made)
    oracles, at = data_cleaning.Oracles(samples, samples, samples, 0), np.arange(n)
    theta, v = (draw.standard_normal((d, 10)).astype(np.float32) for _ in range(2))
    lam = draw.standard_normal(n).astype(np.float32)
    y, x, along = (torch.tensor(a, requires_grad=True) for a in (theta, lam, v))
    inputs, labels = map(torch.from_numpy, samples)
    each = cross_entropy(inputs @ y, labels, reduction="none")
    inner = (x.sigmoid() * each).mean() + data_cleaning.REG * y.square().sum()
    (slope,) = torch.autograd.grad(inner, y, create_graph=True)
    product, cross = torch.autograd.grad((slope * along).sum(), (y, x), retain_graph=True)
    (values,) = torch.autograd.grad(inner, x, retain_graph=True)
    (outer,) = torch.autograd.grad(each.mean(), y)
    expected = (slope, product, cross, values, outer)
    found = (
        oracles.inner(theta, lam, at),
        oracles.product(theta, lam, v, at),
        oracles.cross(theta, lam, v, at),
        oracles.values(theta, lam, at),
        oracles.outer(theta, at),
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other.detach().numpy(), rtol=2e-4, atol=2e-6)
    assert oracles.calls == 5 * n
