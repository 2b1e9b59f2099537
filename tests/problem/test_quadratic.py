"""The closed forms of the quadratic federation, against the derivatives and each other."""

from dataclasses import replace

import torch
from torch.func import grad

from fedsift.federation import LocalFederation
from fedsift.hypergradient import CurvatureSettings, Point
from fedsift.hypergradient.products import exact_product
from fedsift.messages import Cohort
from fedsift.problem import cross_product, inner_gradient, outer_gradients, random_quadratic


def test_inner_solution_has_no_gradient(quadratic):
    x = torch.linspace(-1, 1, quadratic.problem.outer_length).double()
    y = quadratic.problem.inner_solution(quadratic.mean, x)
    gradient = inner_gradient(quadratic.problem, x, y, quadratic.mean)
    assert gradient.norm() < 1e-10


def test_pooled_client_has_the_mean_loss(quadratic):
    problem, clients = quadratic.problem, quadratic.clients
    x, y = torch.ones(problem.outer_length).double(), quadratic.point.y
    total = sum(len(c) for c in clients)
    mean = sum(len(c) / total * problem.inner_loss(x, y, c) for c in clients)
    torch.testing.assert_close(problem.inner_loss(x, y, quadratic.mean), mean)


def test_hypergradient_is_the_gradient_of_h(quadratic):
    problem, mean = quadratic.problem, quadratic.mean
    x = torch.linspace(-1, 1, problem.outer_length).double()

    def h(x_):
        return problem.outer_loss(x_, problem.inner_solution(mean, x_), None)

    torch.testing.assert_close(problem.hypergradient(mean, x), grad(h)(x))


def test_hypergradient_formula_of_the_paper(quadratic):
    problem, mean = quadratic.problem, quadratic.mean
    x = torch.linspace(-1, 1, problem.outer_length).double()
    y = problem.inner_solution(mean, x)
    gx, gy = outer_gradients(problem, x, y, None)
    v = torch.linalg.solve(mean.A, gy)
    formula = gx - cross_product(problem, x, y, mean, v)
    torch.testing.assert_close(formula, problem.hypergradient(mean, x))


def test_outer_solution_has_no_hypergradient(quadratic):
    x = quadratic.problem.outer_solution(quadratic.mean)
    assert quadratic.problem.hypergradient(quadratic.mean, x).norm() < 1e-10


def test_a_client_of_many_samples_is_still_one_quadratic():
    problem, (client,) = random_quadratic(clients=1)
    large = replace(client, num_samples=350)  # more than a site takes in one pass
    federation = LocalFederation.of(problem, [large])
    y = torch.ones_like(problem.target)
    point = Point(y, y - problem.target, 0, problem.initial_x(None))
    v = exact_product(Cohort(federation, (0,)), point, y, CurvatureSettings())
    torch.testing.assert_close(v, client.A @ y)
