from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fedsift.data import DATASETS, FederatedData, build, effective_rate, load
from fedsift.data.pools import draw_pools
from fedsift.errors import DataError


def tensors(data: FederatedData) -> list[torch.Tensor]:
    clients = [(c.inputs, c.labels, c.true_labels, c.ids) for c in data.clients]
    return [tensor for part in (*clients, data.validation, data.test) for tensor in part]


def same(first: FederatedData, second: FederatedData) -> bool:
    pairs = zip(tensors(first), tensors(second), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("partition", ["iid", "dirichlet", "shards"])
def test_the_seed_decides_everything(partition):
    first, again, other = (build("digits", partition=partition, seed=s) for s in (3, 3, 4))
    assert same(first, again)
    assert not torch.equal(first.clients[0].ids, other.clients[0].ids)
    assert not torch.equal(first.validation[0], other.validation[0])
    assert torch.equal(first.test[0], other.test[0])


def test_the_noise_does_not_change_the_samples():
    clean, noisy = build("digits", noise="none"), build("digits", split="non-iid")
    for before, after in zip(clean.clients, noisy.clients, strict=True):
        assert torch.equal(before.ids, after.ids)
        assert torch.equal(before.labels, after.true_labels)
    assert clean.noise_rate == 0


def test_another_seed_draws_other_noise_rates():
    first, other = (build("digits", split="non-iid", seed=seed) for seed in (0, 1))
    assert first.noise_rate != other.noise_rate


def test_the_wrong_labels_of_one_rate_are_not_at_the_same_places():
    data = [build("digits", seed=seed) for seed in (0, 1)]
    masks = [c.labels != c.true_labels for part in data for c in part.clients]
    assert len({tuple(mask.tolist()) for mask in masks}) == 20


def test_no_global_random_state_is_used():
    state = torch.get_rng_state()
    build("digits")
    assert torch.equal(torch.get_rng_state(), state)


def test_clients_and_validation_share_no_sample():
    data, train = build("digits"), load("digits", "train")
    ids = torch.cat([client.ids for client in data.clients])
    rest = torch.ones(len(train), dtype=torch.bool)
    rest[ids] = False
    left = {tuple(image.flatten().tolist()) for image in train.inputs(rest.nonzero().flatten())}
    assert len(set(ids.tolist())) == 1000
    assert len(data.validation[0]) == 200
    assert all(tuple(image.flatten().tolist()) in left for image in data.validation[0])


def test_what_is_outside_of_the_task_is_in_no_other_set():
    pools = draw_pools(DATASETS["digits"], seed=0)
    data = build("digits", noise="instance", rho=0.3)
    outside = set(pools.outside([client.ids for client in data.clients]).tolist())
    ids = {row for client in data.clients for row in client.ids.tolist()}
    assert len(outside) == 1297 - 1000 - 200
    assert not outside & (ids | set(pools.validation.tolist()))
    assert data.noise_rate == pytest.approx(0.3)


@pytest.mark.usefixtures("tiny_femnist")
def test_test_writers_are_not_outside_of_the_task():
    row = replace(DATASETS["femnist"], writers=(6, 2), test_size=5)
    pools = draw_pools(row, seed=0)
    outside = pools.outside([pools.clients])
    others = len(pools.source) - len(pools.clients) - len(pools.validation)
    assert len(outside) == others - 5
    assert not set(outside.tolist()) & set(pools.test.tolist())


def test_client_samples_are_those_of_the_source():
    client, train = build("digits").clients[4], load("digits", "train")
    assert torch.equal(client.inputs, train.inputs(client.ids))
    assert torch.equal(client.true_labels, train.labels[client.ids])


def test_iid_noise_is_the_papers_rate_for_every_client():
    data = build("digits", split="iid")
    assert [effective_rate(c.labels, c.true_labels) for c in data.clients] == [0.4] * 10
    assert data.noise_rate == pytest.approx(0.4, abs=1e-12)


def test_non_iid_noise_differs_between_clients_within_the_papers_range():
    data = build("digits", split="non-iid")
    shares = [effective_rate(c.labels, c.true_labels) for c in data.clients]
    assert len(set(shares)) > 5
    assert 0.2 <= min(shares) <= max(shares) <= 0.9
    assert data.noise_rate == pytest.approx(sum(shares) / 10)  # clients of one size


def test_pair_noise_moves_to_the_next_class():
    for client in build("digits", noise="pair", rho=0.25).clients:
        moved = (client.labels - client.true_labels) % 10
        assert sorted(moved.tolist()) == [0] * 75 + [1] * 25


def test_shards_limit_the_classes_of_a_client():
    data = build("digits", partition="shards", shards_per_client=1)
    classes = [len(set(client.true_labels.tolist())) for client in data.clients]
    assert [len(client) for client in data.clients] == [100] * 10
    assert max(classes) <= 3


def test_dirichlet_keeps_the_total():
    data = build("digits", partition="dirichlet", alpha=0.3)
    sizes = [len(client) for client in data.clients]
    assert sum(sizes) == 1000
    assert len(set(sizes)) > 5


@pytest.mark.usefixtures("tiny_mnist")
def test_sizes_can_be_chosen():
    data = build("mnist", clients=3, samples_per_client=12, validation_size=7, test_size=5)
    assert [len(client) for client in data.clients] == [12, 12, 12]
    assert (len(data.validation[1]), len(data.test[1]), data.shape) == (7, 5, (1, 28, 28))


@pytest.mark.usefixtures("tiny_femnist")
def test_writers_are_whole_and_in_one_place_only():
    data = build("femnist", clients=3, writers=(6, 2))
    source = load("femnist", "train")
    sizes = source.groups.bincount()
    owned = [set(source.groups[client.ids].tolist()) for client in data.clients]
    assert [len(writers) for writers in owned] == [2, 2, 2]
    assert len(set.union(*owned)) == 6
    assert [len(c) for c in data.clients] == [int(sizes[sorted(w)].sum()) for w in owned]
    assert sum(map(len, data.clients)) + len(data.validation[1]) + len(data.test[1]) == len(source)


@pytest.mark.usefixtures("tiny_femnist")
def test_samples_per_client_limits_writers():
    whole = build("femnist", clients=3, writers=(6, 2))
    limited = build("femnist", clients=3, writers=(6, 2), samples_per_client=5, validation_size=4)
    for all_rows, rows in zip(whole.clients, limited.clients, strict=True):
        assert len(rows) == 5
        assert set(rows.ids.tolist()) < set(all_rows.ids.tolist())
    assert len(limited.validation[1]) == 4


@pytest.mark.usefixtures("tiny_femnist")
def test_writers_can_be_mixed_over_the_clients():
    data = build("femnist", partition="iid", clients=4, writers=(6, 2))
    sizes = [len(client) for client in data.clients]
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) + len(data.validation[1]) + len(data.test[1]) == 48


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("digits", {"clients": 0}, "clients is 0"),
        ("digits", {"clients": 13}, "1297 train samples but 1300 for 13 clients"),
        ("digits", {"validation_size": 0}, "validation_size is 0"),
        ("digits", {"partition": "writer"}, "choose another partition than 'writer'"),
        ("digits", {"writers": (5, 5)}, "leave out the option writers"),
        ("digits", {"writers": (5, 0)}, r"writers is \(5, 0\)"),
        ("digits", {"partition": "random"}, "one of iid, dirichlet, shards, writer"),
        ("digits", {"noise": "gauss"}, "one of symmetric, pair, instance, human, mixed, none"),
        ("digits", {"split": "noniid"}, "one of iid, non-iid"),
        ("digits", {"split": "iid", "rho": (0.1, 0.2)}, "needs one number"),
        ("digits", {"split": "non-iid", "rho": 0.3}, "needs a pair"),
        ("femnist", {}, "12 writers here but 350 for the clients, 5 for validation"),
    ],
)
@pytest.mark.usefixtures("tiny_femnist")
def test_what_cannot_be_built_is_refused_with_a_sentence(name, options, message):
    with pytest.raises(DataError, match=message):
        build(name, **options)


def test_the_table_agrees_with_itself():
    for name, row in DATASETS.items():
        assert row.name == name
        assert len(set(row.class_names)) == len(row.class_names)
        assert ("test" in row.splits) == (row.writers is None)
