"""Preprocess: its threshold by brute force, its rounds against FedAvg on what is kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn.functional import cross_entropy

from fedsift.algorithms import FedAvg, LocalSteps, Preprocess, Server, ServerState
from fedsift.algorithms.preprocess import EDGES, bin_edges, find_threshold
from fedsift.client import ClientState
from fedsift.errors import ConfigError, RunError
from fedsift.federation import LocalFederation
from fedsift.problem import FlatModel, LabelledBatch, Reweighting
from fedsift.problem.sample_losses import histogram, sample_losses
from fedsift.randomness import generator

LOCAL = LocalSteps(steps=3, lr=0.5, batch_size=4)
BENCHMARK = LocalSteps(steps=60, lr=0.5, batch_size=0)


class Recorder(LocalFederation):
    """Keeps all that was asked and answered."""

    def ask(self, request, clients):
        replies = super().ask(request, clients)
        self.heard = [*getattr(self, "heard", []), *((request.action, r) for r in replies)]
        return replies


def case(cohort=0, sizes=(30, 40, 50), wrong=0.4):
    """Return clients whose first labels are wrong, and which these are."""
    source = generator(7, "preprocess")
    data, truths = [], []
    for n in (*sizes, 60):
        inputs = torch.randn(n, 6, generator=source)
        labels = inputs[:, :3].argmax(dim=1)
        bad = torch.arange(n) < wrong * n
        data.append((inputs, labels, torch.where(bad, (labels + 1) % 3, labels)))
        truths.append(bad)
    net = nn.Linear(6, 3)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=source))
    problem = Reweighting(FlatModel(net), l2=0.01)
    federation = Recorder.of(problem, [LabelledBatch.of(x, noisy) for x, _, noisy in data[:-1]])
    server = Server(problem, LabelledBatch.of(*data[-1][:2]), cohort=cohort, seed=2)
    return federation, server, ServerState(problem.model.initial()), truths[:-1]


@pytest.mark.parametrize("seed", range(5))
def test_threshold_is_that_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    edges = bin_edges(torch.zeros(1, dtype=torch.float64))
    reference = torch.from_numpy(rng.lognormal(-2, 1, 35))
    losses = torch.from_numpy(np.append(rng.lognormal(-2, 1, 60), rng.lognormal(1, 0.5, 40)))
    found, distance = find_threshold(histogram(losses, edges), edges, reference)

    def raised(values):  # to the upper edge of the bin: what a histogram knows of a loss
        return np.array([min((e for e in edges.numpy() if v <= e), default=np.inf) for v in values])

    known, wanted = raised(losses.numpy()), raised(reference.numpy())
    distances = [
        stats.ks_2samp(known[known <= e], wanted).statistic if (known <= e).any() else np.inf
        for e in edges.numpy()
    ]
    assert distance == pytest.approx(min(distances))
    assert found == edges[int(np.argmin(distances))]


def test_there_are_16_bins_per_decade_from_1e4_to_100():
    edges = bin_edges(torch.zeros(1, dtype=torch.float64))
    torch.testing.assert_close(edges, 10 ** (torch.arange(97).double() / 16 - 4))


def test_histogram_counts_as_one_would_by_hand():
    edges = torch.tensor([0.1, 1.0, 10.0])
    losses = torch.tensor([0.0, 0.1, 0.1001, 1.0, 5.0, 10.0, 10.1, torch.inf, torch.nan])
    assert histogram(losses, edges).tolist() == [2, 2, 2, 3]
    assert histogram(losses[:1], edges).tolist() == [1, 0, 0, 0]


def test_benchmark_is_trained_on_one_part_and_measured_on_the_other():
    _, server, state, _ = case()
    y, reference = Preprocess(LOCAL, BENCHMARK)._train_benchmark(server, state.y)
    net, held = server.problem.model.to_module(state.y), server.validation
    optimiser = torch.optim.SGD(net.parameters(), BENCHMARK.lr, weight_decay=0.01)
    order = torch.randperm(60, generator=generator(2, "benchmark split"))
    part, rest = order[:48], order[48:]
    for _ in range(BENCHMARK.steps):
        optimiser.zero_grad()
        cross_entropy(net(held.inputs[part]), held.labels[part]).backward()
        optimiser.step()
    losses = cross_entropy(net(held.inputs[rest]), held.labels[rest], reduction="none")
    expected = torch.cat([p.detach().flatten() for p in net.parameters()])
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(reference, losses.detach(), rtol=1e-3, atol=1e-5)


def test_wrong_labels_are_removed():
    federation, server, state, truths = case()
    info, _ = Preprocess(LOCAL, BENCHMARK).round(federation, server, state, 0)
    removed = torch.cat([federation.state(m).average < 0.5 for m in federation.sizes])
    wrong = torch.cat(truths)
    assert float((removed == wrong).double().mean()) > 0.85  # 0.6 without a method
    assert info.metrics["kept"] == pytest.approx(1 - float(removed.double().mean()))


def test_kept_are_the_losses_up_to_the_threshold():
    federation, server, state, _ = case()
    algorithm = Preprocess(LOCAL, BENCHMARK)
    info, _ = algorithm.round(federation, server, state, 0)
    benchmark, _ = algorithm._train_benchmark(server, state.y)
    for m, site in federation.clients.items():
        losses = sample_losses(site.problem, benchmark, site.batch)
        after = federation.state(m)
        assert torch.equal(after.x, (losses <= info.metrics["threshold"]).float())
        assert torch.equal(after.average, after.x)
    histograms = [r.arrays["counts"] for action, r in federation.heard if action == "count"]
    edge = int((bin_edges(benchmark) <= info.metrics["threshold"]).sum())
    share = sum(int(c[:edge].sum()) for c in histograms) / sum(int(c.sum()) for c in histograms)
    assert info.metrics["kept"] == pytest.approx(share)


def test_later_rounds_are_fedavg_as_if_removed_samples_were_not_there():
    federation, server, state, truths = case()
    for m, bad in enumerate(truths):
        x = (~bad).float()
        federation.states[m] = ClientState(x=x, average=x)
    left = [
        LabelledBatch.of(site.batch.inputs[~bad], site.batch.labels[~bad])
        for site, bad in zip(federation.clients.values(), truths, strict=True)
    ]
    info, found = Preprocess(LOCAL, BENCHMARK).round(federation, server, state, 1)
    small = LocalFederation.of(server.problem, left)
    expected_info, expected = FedAvg(LOCAL).round(small, server, state, 1)
    assert torch.equal(found.y, expected.y)
    assert info.metrics == expected_info.metrics


def test_replies_are_counts_and_the_update_never_a_number_per_sample():
    federation, server, state, _ = case()
    Preprocess(LOCAL, BENCHMARK).round(federation, server, state, 0)
    sizes = {"count": ("counts", EDGES + 1), "train-kept": ("update", len(state.y))}
    assert {action for action, _ in federation.heard} == {*sizes, "keep"}
    for action, reply in federation.heard:
        lengths = {name: tuple(array.shape) for name, array in reply.arrays.items()}
        name, length = sizes.get(action, (None, None))
        assert lengths == ({} if name is None else {name: (length,)})
        assert set(reply.scalars) <= {"kept", "found", "loss"}
    counts = [r.arrays["counts"] for action, r in federation.heard if action == "count"]
    assert [int(c.sum()) for c in counts] == [30, 40, 50]


@pytest.mark.parametrize(("threshold", "exchanges"), [(0.0, [3, 1]), (1.0, [2, 1])])
def test_only_the_first_round_opens(threshold, exchanges):
    federation, server, state, _ = case()
    algorithm, spent = Preprocess(LOCAL, BENCHMARK, threshold), []
    for k in range(2):
        before = federation.traffic
        info, state = algorithm.round(federation, server, state, k)
        spent.append((federation.traffic - before).exchanges)
    assert spent == exchanges
    assert set(info.metrics) == {"train_loss"}


def test_a_given_threshold_is_the_one_that_is_used():
    federation, server, state, _ = case()
    info, _ = Preprocess(LOCAL, BENCHMARK, threshold=0.3).round(federation, server, state, 0)
    assert info.metrics["threshold"] == 0.3
    assert info.metrics["threshold_distance"] is None


def test_all_clients_filter_although_one_trains():
    federation, server, state, _ = case(cohort=1)
    Preprocess(LOCAL, BENCHMARK).round(federation, server, state, 0)
    asked = [action for action, _ in federation.heard]
    assert [asked.count(a) for a in ("count", "keep", "train-kept")] == [3, 3, 1]


def test_a_client_that_would_keep_nothing_keeps_its_easiest_sample_and_is_named():
    federation, server, state, _ = case()
    algorithm = Preprocess(LOCAL, BENCHMARK, threshold=1e-30)
    info, _ = algorithm.round(federation, server, state, 0)
    benchmark, _ = algorithm._train_benchmark(server, state.y)
    assert len(info.events) == 3
    assert info.events[1].startswith("client 1 has no sample with a loss of at most 1e-30")
    for m, site in federation.clients.items():
        x = federation.state(m).x
        assert int(x.sum()) == 1
        assert x.argmax() == sample_losses(site.problem, benchmark, site.batch).argmin()


def test_a_client_that_misses_the_opening_keeps_all_and_is_named():
    federation, server, state, _ = case()
    ask = federation.ask

    def without_two(request, clients):
        replies = ask(request, clients)
        if request.action not in ("count", "keep"):
            return replies
        federation.states.pop(2)
        return [replace(r, error="gone") if r.client == 2 else r for r in replies]

    federation.ask = without_two
    info, _ = Preprocess(LOCAL, BENCHMARK).round(federation, server, state, 0)
    assert [e for e in info.events if e.startswith("client 2 did not reply to 'keep'")]
    assert int(federation.state(2).x.sum()) == 50
    assert int(federation.state(1).x.sum()) < 40


def test_a_validation_set_of_one_sample_is_refused():
    federation, server, state, _ = case()
    server = replace(server, validation=server.validation.take(torch.tensor([0])))
    with pytest.raises(ConfigError, match="the validation set has 1 samples, too few"):
        Preprocess(LOCAL, BENCHMARK).round(federation, server, state, 0)


def test_a_benchmark_that_blows_up_stops_the_run_with_a_sentence():
    federation, server, state, _ = case()
    algorithm = Preprocess(LOCAL, replace(BENCHMARK, lr=1e12))
    with pytest.raises(RunError, match=r"benchmark model is not finite; lower inner_lr \(now 1e"):
        algorithm.round(federation, server, state, 0)
