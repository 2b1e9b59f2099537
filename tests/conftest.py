"""Shared cases: a small convolutional problem and a quadratic federation, both in float64."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from fedsift.federation import LocalFederation
from fedsift.hypergradient import Point
from fedsift.messages import Cohort
from fedsift.problem import (
    FlatModel,
    LabelledBatch,
    Quadratic,
    QuadraticClient,
    Reweighting,
    mean_client,
    random_quadratic,
)
from fedsift.randomness import generator

pytest_plugins = ["faults_tried"]
torch.set_num_threads(1)
DEEP = 3600  # seconds for a test of the deep tier that has no limit of its own


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the deep tier, which takes minutes, more time than pyproject.toml gives the rest."""
    for item in items:
        if item.get_closest_marker("deep") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(DEEP))


@dataclass(frozen=True)
class ConvCase:
    """A reweighting problem on a small convolutional net, at a random point."""

    problem: Reweighting
    x: Tensor
    y: Tensor
    batch: LabelledBatch
    v: Tensor


@pytest.fixture(scope="session", params=[0.0, 0.7], ids=["plain", "bootstrap"])
def conv(request: pytest.FixtureRequest) -> ConvCase:
    source = generator(0, "conv case")

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=source)

    net = nn.Sequential(
        *(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3)),
    ).double()
    problem = Reweighting(FlatModel(net), l2=1e-3, bootstrap=request.param)
    n = 12
    labels = torch.randint(3, (n,), generator=source)
    x = torch.rand(n, dtype=torch.float64, generator=source)
    y = 0.5 * normal(problem.model.length)
    return ConvCase(problem, x, y, LabelledBatch.of(normal(n, 1, 4, 4), labels), normal(len(y)))


@dataclass(frozen=True)
class QuadraticCase:
    """A quadratic federation, its pooled client, and a point off the inner solution."""

    problem: Quadratic
    clients: list[QuadraticClient]
    mean: QuadraticClient
    federation: LocalFederation
    cohort: Cohort
    point: Point

    @property
    def v(self) -> Tensor:
        return self.problem.v_solution(self.mean, self.point.y)


def quadratic_case(**sizes: object) -> QuadraticCase:
    problem, clients = random_quadratic(**sizes)  # type: ignore[arg-type]
    federation = LocalFederation.of(problem, clients)
    y = torch.zeros_like(problem.target)
    x = problem.initial_x(None)
    point = Point(y, y - problem.target, 0, x)
    cohort = Cohort(federation, tuple(federation.sizes))
    return QuadraticCase(problem, clients, mean_client(clients), federation, cohort, point)


@pytest.fixture
def quadratic() -> QuadraticCase:
    return quadratic_case()


@pytest.fixture(scope="session")
def chromium():
    """Start Chromium once."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no Chromium; on Debian: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
