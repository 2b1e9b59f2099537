"""Models as users bring them: every method that learns weights runs on each; derivatives against
finite differences in float64 of the user's own module."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector

import fedsift as fs
from fedsift.algorithms.method import accept
from fedsift.algorithms.registry import METHODS
from fedsift.errors import DataError, InputError
from fedsift.experiment.config import read_by
from fedsift.hypergradient.exact import conjugate_gradients
from fedsift.problem import FlatModel, LabelledBatch, Reweighting, bind, outer_gradients
from fedsift.problem.curvature import CURVATURES, cross_from
from fedsift.problem.run_modes import FASTEST, RunModes
from fedsift.problem.tangents import along, push
from fedsift.randomness import generator
from zoo import CLASSES, ZOO, Cubed, Kind, ResNet, cubed, rows

LEARNERS = [n for n, method in METHODS.items() if method.learns_weights and method.check is accept]
QUICK = {"local_steps": 1, "batch_size": 4, "head_start": 2, "preprocess_steps": 3, "rate": 20.0}
QUICK |= {"glc_rounds": 1, "elc_rounds": 1, "corr_rounds": 1}
DIFFERENCES = RunModes(jacobian="differences", hessian="none", lacking="layer '1' (Cubed)")
UNUSUAL = {"gradient only": Kind(cubed, rows, DIFFERENCES)}
EVERY = pytest.mark.parametrize("name", ZOO)


def federation(kind):
    random = generator(0, "zoo")
    pairs = [(kind.inputs(8, random), torch.arange(8) % CLASSES) for _ in range(3)]
    return fs.simulate(kind.model(), clients=pairs[:2], validation=pairs[2])


@pytest.fixture(scope="module")
def federations():
    return {name: federation(kind) for name, kind in (ZOO | UNUSUAL).items()}


@pytest.mark.parametrize("method", LEARNERS)
@pytest.mark.parametrize("name", ZOO | UNUSUAL)
def test_every_method_without_a_check_learns_weights_of_every_model(federations, name, method):
    result = fs.fit(federations[name], method, rounds=2, **read_by(method, QUICK))
    trained = parameters_to_vector(result.model.parameters())
    assert torch.isfinite(trained).all()
    assert len(result.label_issues(client=0)) == 8
    assert type(result.model) is type(federations[name].model)
    assert not torch.equal(trained, parameters_to_vector(federations[name].model.parameters()))


@pytest.mark.parametrize("name", ZOO | UNUSUAL)
def test_the_trial_chooses_the_fastest_that_works(name):
    kind = (ZOO | UNUSUAL)[name]
    inputs = kind.inputs(4, generator(1, "zoo"))
    assert bind(FlatModel(kind.model()), inputs).modes == kind.modes
    assert bind(FlatModel(kind.model()), inputs[:1]).modes == kind.modes


class Case:
    """A model in float64, differentiated as it is in float32, and the user's module as a judge."""

    def __init__(self, kind, l2=0.05):
        random = generator(2, "zoo")
        self.model = FlatModel(kind.model().double()).run_as(kind.modes)
        self.problem = Reweighting(self.model, l2=l2)
        inputs = kind.inputs(6, random)
        inputs = inputs.double() if inputs.is_floating_point() else inputs
        self.batch = LabelledBatch.of(inputs, torch.arange(6) % CLASSES)
        self.x = torch.rand(6, generator=random).double()
        self.y = self.model.initial()
        self.u, self.v = torch.randn(2, len(self.y), generator=random).double()

    @torch.no_grad()
    def logits(self, y):
        out = self.model.to_module(y)(self.batch.inputs.contiguous())
        if isinstance(out, dict):
            return out["logits"]
        return out[0] if isinstance(out, tuple) else getattr(out, "logits", out)

    def losses(self, y):
        return cross_entropy(self.logits(y), self.batch.labels, reduction="none")

    def inner(self, y):
        return (self.x * self.losses(y)).mean() + 0.5 * self.problem.l2 * (y @ y)

    def difference(self, function, direction, step=1e-5):
        ahead, behind = function(self.y + step * direction), function(self.y - step * direction)
        return (ahead - behind) / (2 * step)


@pytest.fixture(scope="module")
def cases():
    return {name: Case(kind) for name, kind in (ZOO | UNUSUAL).items()}


CLOSE = {"rtol": 1e-5, "atol": 1e-8}


@pytest.mark.parametrize("name", ZOO | UNUSUAL)
@pytest.mark.parametrize("make", ["once", "repeated"])
def test_gauss_newton_product_matches_differences(cases, name, make):
    case = cases[name]
    operator = getattr(CURVATURES["gauss-newton"], make)(
        case.problem, case.x, case.y, case.batch, 0.0
    )
    Ju, Jv = (case.difference(case.logits, d) for d in (case.u, case.v))
    p = case.logits(case.y).softmax(dim=1)
    QJv = case.x[:, None] / 6 * (p * Jv - p * (p * Jv).sum(dim=1, keepdim=True))
    expected = (Ju * QJv).sum() + case.problem.l2 * (case.u @ case.v)
    torch.testing.assert_close(case.u @ operator.product(case.v), expected, **CLOSE)


@pytest.mark.parametrize("name", ZOO | UNUSUAL)
@pytest.mark.parametrize("make", [along, push])
def test_cross_product_matches_differences(cases, name, make):
    case = cases[name]
    tangent = make(case.problem, case.y, case.batch, case.v)
    product = cross_from(case.problem, case.x, tangent, case.batch)
    torch.testing.assert_close(product, case.difference(case.losses, case.v) / 6, **CLOSE)


@EVERY
@pytest.mark.parametrize("make", ["once", "repeated"])
def test_exact_hessian_matches_differences_of_the_loss(cases, name, make):
    case = cases[name]
    operator = getattr(CURVATURES["hessian"], make)(case.problem, case.x, case.y, case.batch, 0.0)
    h = 3e-5

    def slope(y):
        return (case.inner(y + h * case.u) - case.inner(y - h * case.u)) / (2 * h)

    expected = case.difference(slope, case.v, step=h)
    torch.testing.assert_close(case.u @ operator.product(case.v), expected, rtol=1e-4, atol=1e-5)


@EVERY
def test_hypergradient_matches_differences_of_the_outer_loss(cases, name):
    """h(x) = F(y_x), y_x the minimiser of g(x, ·) + ⟨c, ·⟩ + ρ/2 ‖· − y‖², c so that y_x = y here.

    Neither addition depends on x: the cross product is that of g, the Hessian has ρ as damping.
    """
    case, rho = cases[name], 20.0
    problem, batch, x, y = case.problem, case.batch, case.x, case.y
    operator = CURVATURES["hessian"].once(problem, x, y, batch, rho)

    def solve(b):
        v, _, advice = conjugate_gradients(operator.product, b, 1e-13, 500)
        assert advice is None
        return v

    def gradient(x_, y_):
        leaf = y_.clone().requires_grad_(True)
        return torch.autograd.grad(problem.inner_loss(x_, leaf, batch), leaf)[0]

    def outer(x_):
        at = y.clone()
        for _ in range(6):  # Newton's method with the matrix of the start
            at -= solve(gradient(x_, at) - gradient(x, y) + rho * (at - y))
        return case.losses(at).mean()

    v = solve(outer_gradients(problem, x, y, batch)[1])
    cross = cross_from(problem, x, along(problem, y, batch, v), batch)
    direction, h = torch.linspace(-1, 1, 6).double(), 1e-3
    expected = (outer(x + h * direction) - outer(x - h * direction)) / (2 * h)
    torch.testing.assert_close(-(cross @ direction), expected, rtol=1e-5, atol=1e-9)


def test_an_exact_hessian_without_second_derivative_names_the_layer(federations):
    with pytest.raises(InputError, match=r"layer '1' \(Cubed\) has no second derivative.*'gauss-n"):
        fs.fit(federations["gradient only"], "iter-topk", rounds=2, curvature="hessian")


class Rounded(nn.Module):
    def forward(self, x):
        return torch.from_numpy(x.detach().numpy().round()).requires_grad_(False)


@pytest.mark.parametrize(
    ("layers", "error", "message"),
    [
        ([nn.Linear(5, 3), Rounded()], InputError, r"has no derivative; replace the layer"),
        ([nn.Linear(5, 4), Cubed(), nn.Linear(5, 3)], DataError, r"layer '2' \(Linear\): mat1 and"),
    ],
)
def test_where_nothing_works_a_sentence_names_the_layer(layers, error, message):
    with pytest.raises(error, match=message) as caught:
        bind(FlatModel(nn.Sequential(*layers)), rows(4, generator(0)))
    assert "\n" not in str(caught.value)


def test_an_output_without_logits_is_refused():
    class Odd(nn.Linear):
        def forward(self, x):
            return {"scores": super().forward(x)}

    with pytest.raises(InputError, match="returns a dict without logits; return a tensor"):
        bind(FlatModel(Odd(5, 3)), rows(4, generator(0)))


def test_half_precision_is_trained_in_float32():
    kind = ZOO["half precision"]
    flat = FlatModel(kind.model())
    assert flat.initial().dtype == torch.float32
    assert {p.dtype for p in flat.to_module(flat.initial()).parameters()} == {torch.float32}
    assert {p.dtype for p in kind.model().parameters()} == {torch.float16}


def test_statistics_of_batch_norm_are_constants(federations):
    before = federations["resnet, frozen batch norm"].model.norm
    after = fs.fit(federations["resnet, frozen batch norm"], rounds=1).model.norm
    torch.testing.assert_close(after.running_mean, before.running_mean, rtol=0, atol=0)
    torch.testing.assert_close(after.weight, before.weight, rtol=0, atol=0)


def test_batch_norm_that_has_seen_no_data_is_warned_of():
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    with pytest.warns(UserWarning, match="layer '1' .* never seen data.*fs.without_batch_norm"):
        bind(FlatModel(model), rows(4, generator(0)))


def test_without_batch_norm_keeps_scale_offset_and_frozen_layers():
    model = ResNet()
    model.norm2.requires_grad_(False)
    nn.init.normal_(model.norm.weight)
    new = fs.without_batch_norm(model)
    assert isinstance(new.norm, nn.GroupNorm)
    assert new.norm.num_groups == 2
    assert isinstance(new.norm2, nn.BatchNorm2d)
    assert isinstance(model.norm, nn.BatchNorm2d)  # the user's own is as it was
    torch.testing.assert_close(new.norm.weight, model.norm.weight)


def test_modes_that_do_not_change_the_outputs(cases):
    for case in cases.values():
        other = case.model.run_as(replace(FASTEST, contiguous=True, plain=True))
        torch.testing.assert_close(
            other(case.y, case.batch.inputs), case.logits(case.y), rtol=1e-10, atol=1e-12
        )
