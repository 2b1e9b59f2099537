from __future__ import annotations

import pytest
import torch

from fedsift.problem import FlatModel, LabelledBatch, LossPair, Reweighting, cross_product
from fedsift.problem.gradient_graph import GradientGraph
from fedsift.problem.networks import build_model
from fedsift.randomness import generator


@pytest.fixture(scope="module")
def case():
    problem = Reweighting(FlatModel(build_model("linear", (5,), 3, 0).double()), l2=0.1)
    source = generator(0, "samples")
    inputs = torch.randn(20, 5, generator=source, dtype=torch.float64)
    batch = LabelledBatch.of(inputs, torch.randint(3, (20,), generator=source))
    x = torch.rand(20, generator=source, dtype=torch.float64)
    y = torch.randn(problem.model.length, generator=source, dtype=torch.float64)
    return problem, x, y, batch, torch.randn(len(y), generator=source, dtype=torch.float64)


@pytest.mark.parametrize("length", [0, 7, 20])
def test_products_are_those_of_the_dense_hessian(case, length):
    problem, x, y, batch, v = case
    H = torch.func.hessian(lambda y_: problem.inner_loss(x, y_, batch))(y)
    graph = GradientGraph.at(problem, x, y, batch, length)
    torch.testing.assert_close(graph.product(v), H @ v)
    torch.testing.assert_close(graph.product(v), H @ v)  # again: the graph is kept


@pytest.mark.parametrize("length", [0, 7])
def test_cross_products_come_from_the_same_graph(case, length):
    problem, x, y, batch, v = case
    graph = GradientGraph.at(problem, x, y, batch, length)
    torch.testing.assert_close(graph.cross(v), cross_product(problem, x, y, batch, v))


def test_where_the_loss_does_not_depend_on_x_the_cross_product_is_zero():
    problem = LossPair(lambda x, y, b: y.pow(4).sum(), lambda x, y, b: y.sum(), torch.zeros(2))
    y = torch.tensor([1.0, 2.0])
    graph = GradientGraph.at(problem, torch.zeros(2), y, (None,))
    assert graph.product(torch.ones(2)).tolist() == [12.0, 48.0]
    assert graph.cross(torch.ones(2)).tolist() == [0.0, 0.0]
