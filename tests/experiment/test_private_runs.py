"""Runs with differential privacy: what they cost, what is refused, and that off is off."""

import json
import math

import pytest
import torch

from fedsift.algorithms.registry import METHODS
from fedsift.client.private import PRIVATE
from fedsift.errors import ConfigError, InputError, RunError, TooFewClients
from fedsift.experiment.config import Config
from fedsift.experiment.run import execute, train
from fedsift.experiment.setup import from_config
from fedsift.privacy import epsilon_of
from tiny import tiny_config

USUAL = {"clients": 4, "rounds": 3, "seed": 1}
NOISE = {"dp_clip": 0.5, "dp_noise": 2.0}
ABLE = sorted(n for n, m in METHODS.items() if not m.choose and m.sequence.actions <= {*PRIVATE})


def tiny(method="fedavg", **keys):
    return tiny_config(method, USUAL, **keys).resolve()


def test_the_methods_that_can():
    assert ABLE == ["elr", "fedavg", "gce", "oracle", "posterior"]


@pytest.mark.parametrize("method", ABLE)
@pytest.mark.parametrize("secure_sum", [False, True])
def test_every_method_that_can_runs_and_says_what_it_cost(method, secure_sum):
    finished = train(from_config(tiny(method, **NOISE, secure_sum=secure_sum)))
    privacy = finished.summary["privacy"]
    assert finished.summary["epsilon"] == epsilon_of(math.sqrt(3) / 2, 1e-5)
    assert privacy["epsilon_replaced"] == epsilon_of(2 * math.sqrt(3) / 2, 1e-5)
    assert (privacy["releases"], privacy["noise"], privacy["clip"]) == (3, 2.0, 0.5)
    assert ("sums" in privacy["seen"]) == secure_sum
    assert [r["epsilon"] for r in finished.rounds] == [
        epsilon_of(math.sqrt(k) / 2, 1e-5) for k in (1, 2, 3)
    ]
    assert all(r["train_loss"] is None for r in finished.rounds)
    assert any("epsilon" in said for said in finished.summary["notices"])


def test_a_target_is_kept():
    finished = train(from_config(tiny(dp_clip=0.5, dp_epsilon=8.0)))
    assert 7.9 < finished.summary["epsilon"] <= 8.0 * (1 + 1e-8)


def test_a_cohort_costs_by_how_often_a_site_was_asked():
    """No amplification: the server knows who is drawn; but who is not asked pays nothing."""
    setup = from_config(tiny(cohort=1, rounds=4, **NOISE))
    most = train(setup).summary["privacy"]["releases"]
    assert most == max(setup.account.releases.values())
    assert sum(setup.account.releases.values()) == 4
    assert most < 4


def test_hardly_any_noise_is_the_plain_run():
    plain = train(from_config(tiny(inner_lr=0.1)))
    noised = train(from_config(tiny(inner_lr=0.1, dp_clip=1e3, dp_noise=1e-9)))
    assert torch.allclose(plain.state.y, noised.state.y, atol=1e-4)
    assert not torch.equal(plain.state.y, noised.state.y)


def test_off_is_off():
    finished = train(from_config(tiny()))
    assert "privacy" not in finished.summary
    assert all("epsilon" not in record for record in finished.rounds)


@pytest.mark.parametrize(
    ("method", "keys", "sentence"),
    [
        ("single-loop", NOISE, "have no bound.*these can: fedavg, oracle, gce, elr, posterior"),
        ("out-of-fold", NOISE, "have no bound"),
        ("fedavg", {**NOISE, "update_rate": 4.0}, "set update_rate = 1"),
        ("fedavg", {**NOISE, "share_summary": True}, "share_summary asks sites"),
        ("fedavg", {**NOISE, "secure_sum": True, "aggregation": "median"}, "aggregation = mean"),
    ],
)
def test_what_does_not_go_together_is_refused(method, keys, sentence):
    with pytest.raises(ConfigError, match=sentence):
        from_config(tiny(method, **keys))


@pytest.mark.parametrize(
    "keys",
    [{"dp_clip": 1.0}, {"dp_noise": 1.0}, {"dp_clip": 1.0, "dp_noise": 1.0, "dp_epsilon": 1.0}],
)
def test_half_a_setting_is_refused(keys):
    with pytest.raises(ConfigError, match="dp_clip and one of"):
        Config.of(method="fedavg", **keys)


@pytest.mark.parametrize("rule", ["median", "trimmed-mean", "geometric-median", "krum"])
def test_robust_rules_work_on_replies_with_noise(rule):
    finished = train(from_config(tiny(aggregation=rule, **NOISE)))
    assert bool(torch.isfinite(finished.state.y).all())
    assert finished.summary["events"] == 0


def test_a_resumed_run_counts_what_was_asked_before_it_stopped(tmp_path):
    """Round 3 was asked, then the process died: its replies are out, and cost."""
    stop = RuntimeError("killed")

    def dies(config):
        setup = from_config(config)
        asked = setup.federation.inner.ask

        def ask(request, clients):
            if request.round == 2:
                raise stop
            return asked(request, clients)

        setup.federation.inner.ask = ask
        return setup

    config = tiny(checkpoint_every=1, **NOISE)
    with pytest.raises(RuntimeError, match="killed"):
        execute(config, tmp_path / "run", build=dies)
    kept = json.loads((tmp_path / "run" / "releases.json").read_text())
    assert kept == dict.fromkeys("0123", 3)
    finished = execute(config, tmp_path / "run", resume=True)
    assert finished.summary["privacy"]["releases"] == 4
    assert finished.summary["epsilon"] == epsilon_of(math.sqrt(4) / 2, 1e-5)


def test_a_lost_count_is_not_taken_for_nothing(tmp_path):
    config = tiny(checkpoint_every=1, **NOISE)
    execute(config, tmp_path / "run")
    (tmp_path / "run" / "releases.json").unlink()
    with pytest.raises(InputError, match="what the run has cost is not known"):
        execute(config.replace(rounds=4), tmp_path / "run", resume=True)


def test_a_site_that_wants_noise_refuses_what_has_none(tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text("most_epsilon = 3.5\nleast_batch = 1\n")
    with pytest.raises(TooFewClients, match="policy wants noise in what 'train' replies"):
        train(from_config(tiny(policy=str(policy))))
    with pytest.raises(TooFewClients, match="wants noise in what 'step' replies"):
        train(from_config(tiny("single-loop", policy=str(policy))))


@pytest.mark.parametrize("secure_sum", [False, True])
def test_a_site_keeps_an_account_of_its_own(tmp_path, secure_sum):
    """z = 2 costs 2.0 in one round, 2.9 in two and 3.7 in three."""
    policy = tmp_path / "policy.toml"
    policy.write_text("most_epsilon = 3.5\nleast_batch = 1\n")
    keys = {"policy": str(policy), "secure_sum": secure_sum, **NOISE}
    assert epsilon_of(math.sqrt(2) / 2, 1e-5) < 3.5 < epsilon_of(math.sqrt(3) / 2, 1e-5)
    train(from_config(tiny(rounds=2, **keys)))
    with pytest.raises(TooFewClients, match=r"allows an epsilon of 3\.5 in a run"):
        train(from_config(tiny(rounds=3, **keys)))


def test_a_spent_epsilon_ends_the_run():
    setup = from_config(tiny(dp_clip=0.5, dp_epsilon=8.0))
    setup.account.releases[2] = 1  # a round that was done again
    with pytest.raises(RunError, match="dp_epsilon is spent after 3 requests"):
        train(setup)
