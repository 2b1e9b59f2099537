"""Out of fold: what a head sees, what it judges, and that it learns."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from fedsift.algorithms import LocalSteps, OutOfFold, Server, ServerState, clean_heads
from fedsift.algorithms import out_of_fold as at_server
from fedsift.client import out_of_fold as at_site
from fedsift.errors import ConfigError
from fedsift.experiment.run import execute
from fedsift.federation import LocalFederation
from fedsift.problem import FlatModel, LabelledBatch, Reweighting, batch_of
from fedsift.problem.linear_head import stepped
from fedsift.problem.noise_model import Confusion, beliefs, fit
from fedsift.problem.noise_models import FREE, PLAIN, TRAINED
from tiny import tiny_config

CLASSES, LOCAL = 3, LocalSteps(3, 0.1, 16)


def drawn(n, seed, wrong=0.0):
    """Return three overlapping classes and how many labels are not the class."""
    random = torch.Generator().manual_seed(seed)
    true = torch.randint(CLASSES, (n,), generator=random)
    x = 2.0 * torch.eye(CLASSES, 5)[true] + torch.randn(n, 5, generator=random) + 4.0
    flip = torch.rand(n, generator=random) < wrong
    return LabelledBatch.of(x, torch.where(flip, (true + 1) % CLASSES, true)), true


@pytest.fixture
def case():
    """Four sites with 40 % wrong labels, and a server with 60 clean samples."""
    problem = Reweighting(FlatModel(nn.Linear(5, CLASSES)))
    sites = [drawn(120, seed, wrong=0.4) for seed in range(4)]
    federation = LocalFederation.of(problem, [batch for batch, _ in sites])
    server = Server(problem, drawn(60, 9)[0])
    return federation, server, [true for _, true in sites]


def trained(case, rounds=4, **keys):
    federation, server, _ = case
    algorithm = OutOfFold(LOCAL, **keys)
    state = ServerState(server.problem.model.initial())
    for k in range(rounds):
        info, state = algorithm.round(federation, server, state, k)
    return algorithm, info, state


class Recorder:
    """Takes steps, and notes which samples had a part in the gradient of which head."""

    def __init__(self):
        self.seen = []

    def __call__(self, heads, features, residuals, lr, l2):
        self.seen.append((features, residuals.abs().sum(dim=-1) > 0))
        return stepped(heads, features, residuals, lr, l2)

    def folds(self, all_features, folds):
        """Yield (fold of a sample, which heads' gradients had it) of every step."""
        for features, part in self.seen:
            rows = (features[:, None] == all_features[None]).all(dim=2).float().argmax(dim=1)
            yield from zip(folds[rows].tolist(), part, strict=True)


def test_no_head_trains_on_a_site_sample_that_it_judges(case, monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(at_site, "stepped", recorder)
    federation, _, _ = case
    _, _, state = trained(case)
    head = at_server.LinearHead.of(federation.clients[0].problem)
    inputs = torch.cat([c.batch.inputs for c in federation.clients.values()])
    folds = torch.cat([federation.state(m).folds for m in federation.clients])
    found = list(recorder.folds(head.centred(inputs, state.own["centre"]), folds))
    assert len(found) == 4 * 4 * 3 * 16
    assert all(part[:, 1 - fold].all() and not part[:, fold].any() for fold, part in found)


def test_no_head_trains_on_a_clean_sample_that_it_judges(case, monkeypatch):
    _, server, _ = case
    algorithm, _, state = trained(case)
    recorder = Recorder()
    monkeypatch.setattr(clean_heads, "stepped", recorder)
    algorithm.round(case[0], server, state, 4)
    head = at_server.LinearHead.of(server.problem)
    features = head.centred(server.validation.inputs, state.own["centre"])
    found = list(recorder.folds(features, state.own["folds"]))
    assert len(found) == 3 * 16
    assert all(part[1 - fold].all() and not part[fold].any() for fold, part in found)


def test_clean_samples_are_judged_by_the_other_chain(case):
    algorithm, _, state = trained(case)
    _, server, _ = case
    model, heads = server.problem.model, state.own["heads"]
    head = at_server.LinearHead.of(server.problem)
    found = algorithm.judged(server, state).probabilities
    for k in range(2):
        mine = state.own["folds"] == k
        y = head.flat(heads[k].mean(dim=0), state.own["centre"])
        expected = model(y, server.validation.inputs[mine]).softmax(dim=1).double()
        torch.testing.assert_close(found[mine], expected, atol=1e-6, rtol=1e-5)


def test_the_model_is_the_mean_of_the_heads(case):
    federation, server, _ = case
    server = replace(server, validation=drawn(24, 9)[0])  # few: 480 labels are worth more
    _, info, state = trained((federation, server, None), rounds=20)
    assert info.metrics["judged_loss"] <= info.metrics["clean_loss"]
    assert info.metrics["training_helped"] == 1.0
    head = at_server.LinearHead.of(server.problem)
    x, centre = server.validation.inputs, state.own["centre"]
    each = [server.problem.model(head.flat(W, centre), x) for W in state.own["heads"].flatten(0, 1)]
    torch.testing.assert_close(server.problem.model(state.y, x), torch.stack(each).mean(dim=0))


def test_where_training_does_not_help_the_model_is_that_of_the_clean_set(case):
    """Labels that are all class 0: heads that learn them lose against those of the clean set."""
    _, server, _ = case
    same = [LabelledBatch.of(c.batch.inputs, c.batch.labels * 0) for c in _clients(case)]
    worse = LocalFederation.of(server.problem, same)
    _, info, state = trained((worse, server, None), rounds=20)
    assert info.metrics["judged_loss"] > info.metrics["clean_loss"]
    assert info.metrics["training_helped"] == 0.0
    mean = at_server.LinearHead.of(server.problem).flat(state.own["prior"], state.own["centre"])
    assert torch.equal(state.y, mean)


@pytest.mark.parametrize("share", [True, False])
def test_rounds_fit_the_noise_model_as_one_place_would(case, share):
    federation, _, _ = case
    _, _, state = trained(case, rounds=6, share=share)
    states = [federation.state(m) for m in federation.clients]
    sites = [
        (s.unseen.double(), c.batch.labels) for s, c in zip(states, _clients(case), strict=True)
    ]
    found, betas = (state.own[n] if share else getattr(states[0], n) for n in ("noise", "betas"))
    for i, free in ((PLAIN, False), (FREE, True)):
        model, rates = fit(sites if share else sites[:1], free=free, steps=6, tolerance=0.0)
        torch.testing.assert_close(found[i], model.matrix)
        assert float(states[0].rates[i]) == pytest.approx(rates[0])
        assert float(betas[i]) == pytest.approx(model.beta)


def test_samples_in_turn_fit_nearly_the_noise_model_of_all(case):
    """64 of a site's 120 samples step the noise models in a round; 40 % of the labels are wrong."""
    federation, _, _ = case
    _, _, state = trained(case, rounds=12, scored=8)
    states = [federation.state(m) for m in federation.clients]
    sites = [
        (s.unseen.double(), c.batch.labels) for s, c in zip(states, _clients(case), strict=True)
    ]
    model, _ = fit(sites, free=False, steps=12, tolerance=0.0)
    off = (state.own["noise"][PLAIN].exp() - model.matrix.exp()).abs().max()
    assert 0 < float(off) < 0.15


def test_the_model_of_trained_heads_ends_where_a_fit_to_what_they_say_would(case):
    federation, _, _ = case
    algorithm, _, state = trained(case, rounds=80)
    sites = [
        (federation.state(m).recent.double(), c.batch.labels) for m, c in federation.clients.items()
    ]
    model, rates = fit(sites, free=True)
    found = algorithm.noise(state)[TRAINED]
    for m, rate in enumerate(rates):
        mine = found.chances(float(federation.state(m).rates[TRAINED])).exp()
        torch.testing.assert_close(mine, model.chances(rate).exp(), atol=0.02, rtol=0)
    assert found.beta == pytest.approx(model.beta, abs=0.02)


def test_recent_is_what_the_heads_outside_its_fold_say_of_a_sample(case):
    federation, server, _ = case
    algorithm, info, state = trained(case, rounds=3)
    before = {m: federation.state(m).recent for m in federation.clients}
    whole = replace(algorithm, local=LocalSteps(1, 0.1, 0))
    whole.round(federation, server, state, 3)
    head, client = at_server.LinearHead.of(server.problem), federation.clients[1]
    centre, found = state.own["centre"], federation.state(1)
    for f in range(2):
        mine = found.folds == f
        y = head.flat(state.own["heads"][:, f].mean(dim=0), centre)
        z = server.problem.model(y, client.batch.inputs[mine]) / info.metrics["temperature"]
        torch.testing.assert_close(found.recent[mine], z.log_softmax(dim=1))
    assert not torch.equal(found.recent, before[1])


def _clients(case):
    return case[0].clients.values()


def test_it_finds_wrong_labels_and_the_truth_behind_them(case):
    federation, server, truth = case
    _, info, state = trained(case, rounds=20)
    wrong = [c.batch.labels != t for c, t in zip(_clients(case), truth, strict=True)]
    weights = torch.cat([federation.state(m).average for m in federation.clients])
    found = ((weights < 0.5) == torch.cat(wrong)).double().mean()
    inputs, true = torch.cat([c.batch.inputs for c in _clients(case)]), torch.cat(truth)
    accuracy = (server.problem.model(state.y, inputs).argmax(1) == true).double().mean()
    assert found > 0.85
    assert accuracy > 0.8
    assert info.metrics["judged_accuracy"] == pytest.approx(float(accuracy), abs=0.1)


def test_weights_are_bayes_rule_before_a_label_is_trained_on(case):
    federation, _, _ = case
    trained(case, rounds=1)
    state, labels = federation.state(0), federation.clients[0].batch.labels
    q, _ = beliefs(Confusion.start(CLASSES), float(state.rates[0]), state.unseen.double(), labels)
    right = q.gather(1, labels[:, None]).squeeze(1).float()
    assert int(torch.isclose(state.average, right, atol=1e-5).sum()) >= 120 - 3 * 16


def test_one_exchange_per_round_and_sums_only_where_they_are_shared(case):
    federation, _, _ = case
    trained(case, rounds=3)
    assert federation.traffic.exchanges == 3
    asked = []
    ask = federation.ask
    federation.ask = lambda request, clients: asked.extend(found := ask(request, clients)) or found
    trained(case, rounds=1, share=False)
    assert all(set(reply.arrays) == {"update"} for reply in asked)


def test_a_site_that_joins_later_is_judged_by_heads_that_have_not_seen_it(case):
    federation, server, _ = case
    algorithm, info, state = trained(case, rounds=2)
    federation.states.pop(3)
    mean = state.own["heads"].mean(dim=(0, 1))
    algorithm.round(federation, server, state, 2)
    x = federation.clients[3].batch.inputs
    head = at_server.LinearHead.of(server.problem)
    z = server.problem.model(head.flat(mean, state.own["centre"]), x)
    asked = replace(federation.state(3)).unseen
    ratio = (z - z[:, :1]) / (asked - asked[:, :1]).where(asked != asked[:, :1], torch.ones(1))
    spread = ratio[:, 1:][(asked - asked[:, :1])[:, 1:].abs() > 0.5]
    torch.testing.assert_close(spread, torch.full_like(spread, info.metrics["temperature"]))


class Stored:
    """Inputs that are read when they are asked for."""

    def __init__(self, inputs):
        self.inputs, self.shape, self.dtype = inputs, inputs.shape, inputs.dtype

    def __len__(self):
        return len(self.inputs)

    def take(self, indices):
        return self.inputs[indices].clone()


def test_stored_samples_give_the_bits_of_samples_in_memory(case):
    federation, server, _ = case
    _, _, expected = trained(case)
    batches = [batch_of(Stored(c.batch.inputs), c.batch.labels) for c in _clients(case)]
    stored = LocalFederation.of(server.problem, batches)
    _, _, found = trained((stored, server, None))
    assert torch.equal(found.own["heads"], expected.own["heads"])
    assert torch.equal(stored.state(0).average, federation.state(0).average)


def test_other_models_are_refused_before_a_run_starts(tmp_path):
    config = tiny_config("out-of-fold", {}, model="mlp")
    with pytest.raises(ConfigError, match="use the method posterior"):
        execute(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
