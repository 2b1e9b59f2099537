"""The grid of the paper's runs, and that each is made once."""

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from fedsift.algorithms.fedavg import LocalKeys
from fedsift.algorithms.registry import METHODS
from fedsift.errors import ConfigError, InputError
from fedsift.experiment.config import Config
from fedsift.experiment.paper_grid import Choice, Job, data_for, run_name
from fedsift.experiment.paper_grid import plan as plan_of
from fedsift.experiment.reproduce import progress_of, result_of, result_path, run_folder, run_once
from fedsift.experiment.run import execute
from fedsift.keys import Keys, key

BASELINES = ["fedavg", "oracle", "focus", "preprocess"]
OURS = ["iter-topk", "iter-sketch", "non-iter"]
OTHERS = ["no-hessian", "single-loop", "posterior", "clean-only", "disagreement"]


def plan(figure, scale="quick", **choice):
    return plan_of(figure, scale, Choice(**choice))


@pytest.fixture
def job(tiny):
    return Job("some-run", tiny())


def stop_after(k):
    def observe(record):
        if record["round"] == k:
            raise KeyboardInterrupt

    return observe


def never(record):
    raise AssertionError("a round was run")


def values(jobs, key):
    return list(dict.fromkeys(job.config.value(key) for job in jobs))


def test_quick_grid_of_figure_1(monkeypatch):
    monkeypatch.delenv("FEDSIFT_DATA", raising=False)
    jobs = plan("fig1")
    assert values(jobs, "dataset") == ["digits"]
    assert values(jobs, "method") == [*BASELINES, *OURS, *OTHERS]
    assert values(jobs, "split") == ["iid", "non-iid"]
    assert (values(jobs, "rounds"), values(jobs, "rate")) == ([40], [None, 20.0])
    assert len({job.name for job in jobs}) == len(jobs) == 24
    assert jobs[0].name == "digits-iid-fedavg-s0"


def test_quick_grid_on_the_papers_data():
    jobs = plan("fig1", datasets=["mnist", "cifar10", "femnist"])
    assert len(jobs) == 72
    assert {(c.clients, c.samples_per_client, c.rounds) for c in (job.config for job in jobs)} == {
        (4, 100, 8)
    }


@pytest.mark.parametrize(("figure", "dataset"), [("fig2", "mnist"), ("fig3", "femnist")])
def test_paper_grid_of_the_rates(figure, dataset):
    jobs = plan(figure, "paper", terms=["as-paper"], rounds=60)
    assert values(jobs, "dataset") == [dataset]
    assert values(jobs, "method") == OURS
    assert values(jobs, "rate") == [1.0, 10.0, 100.0, 1000.0]
    assert values(jobs, "seed") == [0, 1]
    assert len({job.name for job in jobs}) == len(jobs) == 48
    assert jobs[0].name == f"{dataset}-iid-iter-topk-rate1-s0"


def test_paper_scale_has_the_papers_sizes():
    for job in plan("fig1", "paper"):
        c = job.config.resolve()
        assert (c.clients, c.samples_per_client, c.validation_size) == (10, 500, 500)
        own = c.settings[LocalKeys]
        assert (own.local_steps, own.inner_lr, own.batch_size) == (5, 0.1, 64)
        assert (c.l2, c.eval_every) == (1e-3, 5)
        ours = (0.1, 20.0) if c.method in (*OURS, "single-loop") else (None, None)
        if c.method != "no-hessian":
            assert (c.value("outer_lr"), c.value("rate")) == ours
        assert (c.rounds, job.length_by) == (150, f"{c.dataset}-{c.split}-fedavg-s0")
        assert c.rho == (0.4 if c.split == "iid" else (0.2, 0.9))


def test_literal_steps_of_the_paper():
    jobs = plan("fig1", "paper", preset="paper-steps", methods=["fedavg"], rounds=9)
    keys = ("dataset", "inner_lr", "batch_size")
    steps = {tuple(job.config.value(key) for key in keys) for job in jobs}
    assert steps == {("mnist", 0.01, 256), ("femnist", 0.01, 256), ("cifar10", 0.01, 32)}


def test_the_papers_methods_have_nothing_of_ours():
    keys = ("outer_decay", "self_paced", "bootstrap")
    jobs = plan("fig1", "paper")
    found = {j.config.method: [j.config.value(key) for key in keys] for j in jobs}
    assert all(found[name] == [0, 0, 0] for name in (*OURS, "no-hessian"))
    assert found["single-loop"] == [Config.of(method="single-loop").value(key) for key in keys]
    assert all(found["single-loop"])


def test_terms_are_a_head_start_for_all_or_for_nobody():
    jobs = plan("fig1", "paper", datasets=["mnist"], splits=["iid"], seeds=[0])
    found = {}
    for job in jobs:
        found.setdefault(job.terms, {})[job.config.method] = job.config.value("head_start")
    assert found.pop(None) == {"clean-only": None}
    assert found["as-paper"].keys() == found["head-start"].keys()
    assert set(found["as-paper"].values()) == {0}
    assert set(found["head-start"].values()) == {500}
    assert {"fedavg", "oracle", "no-hessian", "disagreement"} < found["head-start"].keys()
    names = [job.name for job in jobs if job.config.method == "fedavg"]
    assert names == ["mnist-iid-fedavg-s0", "mnist-iid-fedavg-head-start-s0"]


def test_the_papers_methods_have_1_and_5_iterations():
    jobs = plan("fig1", "paper", datasets=["mnist"], splits=["iid"], seeds=[0], terms=["as-paper"])
    found = {job.name: job.config.value("iterations") for job in jobs}
    assert {name: i for name, i in found.items() if i} == {
        "mnist-iid-iter-topk-s0": 1,
        "mnist-iid-iter-topk-i5-s0": 5,
        "mnist-iid-iter-sketch-s0": 1,
        "mnist-iid-iter-sketch-i5-s0": 5,
    }


def test_who_decides_the_length_is_in_the_plan_whatever_is_asked_for():
    jobs = plan("fig1", "paper", methods=["iter-topk"], seeds=[1], terms=["head-start"])
    names = {job.name for job in jobs}
    assert {job.length_by for job in jobs} <= names
    assert "cifar10-non-iid-fedavg-s0" in names
    assert not any(job.length_by for job in plan("fig1", "paper", rounds=60))
    assert not any(job.length_by for job in plan("fig1"))


def test_settings_reach_every_run():
    given = {"datasets": ["digits"], "rates": [10, 100], "seeds": [3], "rounds": 2}
    jobs = plan("fig2", **given, settings={"local_steps": 1})
    assert values(jobs, "rate") == [10.0, 100.0]
    keys = ("seed", "rounds", "local_steps")
    assert {tuple(job.config.value(key) for key in keys) for job in jobs} == {(3, 2, 1)}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"methods": ["fedagv"]}, "--methods has 'fedagv'.*did you mean 'fedavg'"),
        ({"datasets": ["imagenet"]}, "--datasets has 'imagenet'; choose from digits, mnist"),
        ({"splits": ["idd"]}, "--splits has 'idd'.*did you mean 'iid'"),
        ({"settings": {"rate": 5}}, "--set rate would mix up the runs; use --rates instead"),
        ({"rates": [7]}, "--rates has 7; fig1 has only 20"),
        ({"terms": ["head"]}, "--terms has 'head'; choose from as-paper, head-start"),
        ({"preset": "paper"}, "there is no preset 'paper'; choose from paper-steps"),
        ({"settings": {"head_start": 5}}, "--set head_start .* use --terms instead"),
        ({"settings": {"seed": 5}}, "--set seed .* use --seeds"),
        ({"settings": {"raet": 5}}, "unknown key 'raet'; did you mean 'rate'"),
        ({"rounds": 0}, "rounds is 0"),
    ],
)
def test_faults_are_reported(keys, words):
    with pytest.raises(ConfigError, match=words):
        plan("fig1", **keys)


def test_a_setting_reaches_the_methods_that_read_it():
    jobs = plan("fig1", datasets=["digits"], settings={"focus_alpha": 2, "outer_lr": 0.3})
    keys = ("focus_alpha", "outer_lr")
    found = {j.config.method: [j.config.value(key) for key in keys] for j in jobs}
    assert found["fedavg"] == found["oracle"] == found["preprocess"] == [None, None]
    assert found["focus"] == [2.0, None]
    assert found["single-loop"] == found["iter-topk"] == [None, 0.3]


def test_a_setting_that_no_method_of_the_grid_reads_is_refused():
    with pytest.raises(ConfigError, match="fedavg and oracle do not read the key 'outer_lr'"):
        plan("fig1", methods=["fedavg", "oracle"], settings={"outer_lr": 0.3})


def test_the_rate_needs_a_method_that_compresses():
    with pytest.raises(ConfigError, match="fig2 varies the rate, but preprocess has none"):
        plan("fig2", methods=["iter-topk", "preprocess"])


def test_f1_needs_a_method_that_learns_weights():
    with pytest.raises(ConfigError, match="fig2 shows F1, but oracle learns no weights"):
        plan("fig2", methods=["iter-topk", "oracle"])


def test_digits_stand_in_only_at_quick_scale(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSIFT_DATA", str(tmp_path))
    assert data_for("fig3", "quick") == ("digits",)
    assert data_for("fig3", "paper") == ("femnist",)
    (tmp_path / "flwrlabs/femnist").mkdir(parents=True)
    (tmp_path / "flwrlabs/femnist/train.parquet").touch()
    assert data_for("fig3", "quick") == ("femnist",)


def test_result_has_summary_series_and_differences(tmp_path, job):
    path = run_once(Job(job.name, job.config.replace(eval_every=4)), tmp_path)
    folder = run_folder(job, tmp_path)
    result = json.loads(path.read_text())
    assert path == tmp_path / "results" / "some-run.json"
    records = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    at = [records[3], records[5]]
    shown = ("round", "test_accuracy", "validation_loss", "weights_f1", "residual")
    assert result["series"] == {k: [r[k] for r in at] for k in shown}
    summary = json.loads((folder / "summary.json").read_text())
    assert {key: result[key] for key in summary} == summary
    who = {"dataset": "digits", "split": "iid", "method": "iter-sketch", "seed": 0}
    assert result["config"] | who | {"clients": 2, "eval_every": 4} == result["config"]
    assert "outer_lr" not in result["config"]


def test_a_finished_run_is_not_made_again(tmp_path, job):
    path = run_once(job, tmp_path)
    before = path.stat().st_mtime_ns
    assert str(progress_of(job, tmp_path)) == "done"
    run_once(job, tmp_path, never)
    assert path.stat().st_mtime_ns == before
    path.unlink()
    assert run_once(job, tmp_path, never).exists()


def test_an_interrupted_run_goes_on_to_the_same_end(tmp_path, job, outcome):
    run_once(job, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run_once(job, tmp_path / "cut", stop_after(3))
    assert str(progress_of(job, tmp_path / "cut")) == "3 of 6 rounds"
    assert not result_path(job, tmp_path / "cut").exists()
    run_once(job, tmp_path / "cut")
    whole, cut = (outcome(run_folder(job, tmp_path / name)) for name in ("whole", "cut"))
    assert whole == cut
    both = [
        result_of(run_folder(job, tmp_path / n), job) | {"seconds": 0} for n in ("whole", "cut")
    ]
    assert both[0] == both[1]


def test_another_configuration_is_refused(tmp_path, job):
    run_once(job, tmp_path)
    other = Job(job.name, job.config.replace(inner_lr=0.3))
    with pytest.raises(InputError, match=r"some-run holds a run with inner_lr = 0\.1, not 0\.3"):
        run_once(other, tmp_path, never)


def test_another_default_of_a_key_that_it_does_not_read_changes_nothing(
    tmp_path, tiny, monkeypatch
):
    @dataclass(frozen=True)
    class OtherKeys(Keys):
        table: ClassVar[str] = "outer"
        outer_lr: float = key(0.9, "another default than now", low=0)

    run_once(Job("some-run", tiny("fedavg")), tmp_path)
    row = replace(METHODS["single-loop"], groups=(OtherKeys,))
    monkeypatch.setitem(METHODS, "single-loop", row)
    job = Job("some-run", tiny("fedavg"))
    assert str(progress_of(job, tmp_path)) == "done"
    execute(job.config, run_folder(job, tmp_path), resume=True)  # its checkpoint is accepted too


def test_a_run_may_be_made_longer_but_not_shorter(tmp_path, job):
    run_once(job, tmp_path)
    longer = Job(job.name, job.config.replace(rounds=8))
    assert str(progress_of(longer, tmp_path)) == "6 of 8 rounds"
    assert json.loads(run_once(longer, tmp_path).read_text())["rounds"] == 8
    with pytest.raises(InputError, match="has done 8 rounds, not 6; give --rounds 8"):
        progress_of(job, tmp_path)


def test_the_name_shows_what_the_figures_vary():
    config = Config.of(dataset="mnist", split="non-iid", method="non-iter", rate=100, seed=7)
    assert run_name(config) == "mnist-non-iid-non-iter-rate100-s7"
    assert run_name(Config.of(method="fedavg")) == "digits-iid-fedavg-s0"
    five = Config.of(method="iter-topk", iterations=5)
    assert run_name(five, "head-start") == "digits-iid-iter-topk-i5-head-start-s0"
    name = "digits-iid-iter-topk-paper-literal-s0"
    assert run_name(five, "as-paper", "paper-literal") == name
