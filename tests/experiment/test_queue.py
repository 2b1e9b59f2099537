"""The queue: order, who takes what, what waits, and what is left after an interruption."""

import json
from dataclasses import replace

import pytest

from fedsift.errors import RunError
from fedsift.experiment import queue
from fedsift.experiment.paper_grid import Choice, Job, plan
from fedsift.experiment.queue import failure_of, lock_of, ordered, state_of, work
from fedsift.experiment.queue_status import status, summary
from fedsift.experiment.reproduce import complete, progress_of, ready, run_once, sized
from fedsift.files import claim

FIRST = ["fedavg", "iter-sketch", "iter-topk", "no-hessian", "non-iter", "oracle"]


@pytest.fixture
def jobs(tiny):
    return [Job(f"run-{seed}", tiny(seed=seed)) for seed in range(3)]


def never(job, error):
    raise AssertionError(f"{job.name}: {error}")


def test_what_matters_for_the_claims_comes_first():
    jobs = ordered(plan("fig1", "paper"))
    names = [job.name for job in jobs]
    place = [names.index(f"{d}-iid-iter-topk-s0") for d in ("mnist", "femnist", "cifar10")]
    assert place == sorted(place)
    claims = [job for job in jobs if job.config.seed == 0][: names.index("mnist-iid-focus-s0")]
    assert sorted({job.config.method for job in claims}) == FIRST
    assert {job.config.dataset for job in claims} == {"mnist", "femnist", "cifar10"}
    assert [job.config.seed for job in jobs] == sorted(job.config.seed for job in jobs)
    assert names.index("mnist-iid-fedavg-s0") < names.index("mnist-iid-fedavg-head-start-s0")


def test_every_run_is_made_once_in_order(jobs, tmp_path):
    made = []
    assert work(jobs, tmp_path, lambda job, number: made.append((job.name, number)), never) == 0
    assert made == [("run-0", 1), ("run-1", 2), ("run-2", 3)]


def test_a_run_that_another_process_makes_is_left_to_it(jobs, tmp_path):
    made = []
    with claim(lock_of(jobs[1], tmp_path)) as mine:
        assert mine
        assert state_of(jobs[1], tmp_path)[0] == "running"
        work(jobs, tmp_path, lambda job, _: made.append(job.name), never)
    assert made == ["run-0", "run-2"]
    assert state_of(jobs[1], tmp_path)[0] == "queued"


def test_a_failed_run_is_named_and_may_succeed_later(jobs, tmp_path):
    said = []

    def make(job, number):
        if number == 1:
            raise RunError("the model is no longer finite")

    assert work(jobs, tmp_path, make, lambda job, error: said.append((job.name, str(error)))) == 1
    assert said == [("run-0", "the model is no longer finite")]
    assert failure_of(jobs[0], tmp_path).read_text() == "the model is no longer finite\n"
    assert [state_of(job, tmp_path)[0] for job in jobs] == ["failed", "queued", "queued"]
    assert work(jobs, tmp_path, lambda job, number: None, never) == 0
    assert not failure_of(jobs[0], tmp_path).exists()


def fall(out, name, *accuracies):
    path = out / "results" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    rounds = [150 + 30 * n for n in range(len(accuracies))]
    path.write_text(json.dumps({"series": {"round": rounds, "test_accuracy": accuracies}}))


@pytest.fixture
def waiting(tiny):
    first = Job("first", tiny("fedavg"), length_by="first")
    return [Job("other", tiny(), length_by="first"), first]


def test_runs_wait_for_the_length_that_fedavg_finds(waiting, tmp_path):
    made = []

    def make(job, number):
        made.append((job.name, sized(job, tmp_path).config.rounds))
        if job.name == "first":
            fall(tmp_path, "first", 0.9, 0.8)

    assert [ready(job, tmp_path) for job in waiting] == [False, True]
    assert work(waiting, tmp_path, make, never) == 0
    assert made == [("first", 150), ("other", 180)]
    fall(tmp_path, "first", 0.9, 0.9)
    assert not ready(waiting[0], tmp_path)


def test_a_run_whose_length_is_never_known_is_said_to_have_failed(waiting, tmp_path):
    said = []
    failed = work(waiting[:1], tmp_path, never, lambda job, error: said.append(str(error)))
    assert (failed, said) == (1, ["it waits for first, which has not ended"])


def test_it_waits_while_another_process_finds_the_length(waiting, tmp_path):
    made, pauses = [], []
    with claim(lock_of(waiting[1], tmp_path)):

        def pause(seconds):
            pauses.append(seconds)
            fall(tmp_path, "first", 0.9, 0.8)

        work(waiting, tmp_path, lambda job, _: made.append(job.name), never, pause)
    assert made == ["other"]
    assert pauses == [queue.PAUSE]


def test_fedavg_goes_on_until_it_has_fallen(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("fedsift.experiment.length.SHORTEST", 2)
    monkeypatch.setattr("fedsift.experiment.length.STEP", 2)
    monkeypatch.setattr("fedsift.experiment.length.LONGEST", 6)
    monkeypatch.setattr("fedsift.experiment.length.FALL", 2.0)  # never
    job = Job("first", tiny("fedavg"), length_by="first")
    path = complete(job, tmp_path)
    assert json.loads(path.read_text())["rounds"] == 6
    assert sized(job, tmp_path).config.rounds == 6
    assert state_of(job, tmp_path)[0] == "done"
    whole = run_once(Job("whole", tiny("fedavg").replace(rounds=6)), tmp_path)
    series = [json.loads(p.read_text())["series"]["test_accuracy"] for p in (path, whole)]
    assert series[0] == series[1]


def test_status_says_what_is_left_by_measured_rounds(jobs, tmp_path):
    assert summary(status(jobs, tmp_path)) == "3 runs: 3 queued; no round was measured yet"
    run_once(jobs[0], tmp_path)
    path = tmp_path / "runs" / "run-0" / "rounds.jsonl"
    records = [json.loads(line) | {"seconds": 30.0} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    rows = status(jobs, tmp_path)
    assert [row.state for row in rows] == ["done", "queued", "queued"]
    assert [row.left for row in rows] == [0.0, 180.0, 180.0]  # 6 rounds each
    assert summary(rows) == "3 runs: 1 done, 2 queued; about 6 min left at 1 side by side"
    with claim(lock_of(jobs[1], tmp_path)), claim(lock_of(jobs[2], tmp_path)):
        assert summary(status(jobs, tmp_path)).endswith("about 3 min left at 2 side by side")


def test_a_longer_run_is_queued_again(jobs, tmp_path):
    run_once(jobs[0], tmp_path)
    longer = replace(jobs[0], config=jobs[0].config.replace(rounds=8))
    assert state_of(longer, tmp_path) == ("stopped", progress_of(longer, tmp_path))


def test_the_plan_without_a_length_waits_for_nothing(tmp_path):
    jobs = plan("fig1", "paper", Choice(rounds=30))
    assert all(ready(job, tmp_path) for job in jobs)
