"""The same run with clients in process and clients that are sites: bit for bit the same."""

import json
import uuid
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from pandas.testing import assert_frame_equal
from safetensors.torch import load_file

from fedsift.client import update
from fedsift.client.policy import OPEN
from fedsift.errors import InputError, TooFewClients
from fedsift.experiment.auditing import open_audit
from fedsift.experiment.run import execute
from fedsift.experiment.server_run import execute_remotely
from fedsift.experiment.setup import from_config, load_data
from fedsift.federation import RemoteFederation, compressed
from fedsift.federation.encoding import REQUEST_ID, RequestId
from fedsift.federation.layer import Layer
from fedsift.federation.remote import RawReply, Timeouts
from fedsift.site.host import Host
from fedsift.site.result import Origin
from fedsift.site.run import SiteData
from tiny import tiny_config


def compress_small(monkeypatch):
    """Let models of a test be large enough to be compressed."""
    for module in (update, compressed):
        monkeypatch.setattr(module, "SMALL", 100)


USUAL = {"clients": 3, "rounds": 4, "checkpoint_every": 1, "seed": 2}
RUNS = ("there", "here")


def tiny(method="single-loop", **changes):
    return tiny_config(method, USUAL, **changes).resolve()


class Sites:
    """Transport to hosts in this process; every request comes twice, and sites can crash."""

    def __init__(self, config, folder, sharing=(), policy=OPEN):
        clients = load_data(config).clients
        folder.mkdir()
        self.site_data = []
        for m, client in enumerate(clients):
            origin = Origin(str(m), str(folder / f"{m}.npz"))
            np.savez(origin.data, inputs=client.inputs.numpy(), labels=client.labels.numpy())
            place = folder / str(m), origin, m in sharing
            self.site_data.append(SiteData(m, origin.samples(), *place, policy))
        self.hosts = [Host(h) for h in self.site_data]
        self.sent = {}
        self.silent = lambda node, request_id: False

    def nodes(self):
        return dict.fromkeys(range(len(self.hosts)), "")

    def push(self, messages, ttl):
        ids = [str(len(self.sent) + i) for i in range(len(messages))]
        self.sent |= dict(zip(ids, messages, strict=True))
        return ids

    def pull(self, ids):
        replies = []
        for id_ in ids:
            node, parts = self.sent[id_]
            if self.silent(node, RequestId.decode(parts)):
                continue
            self.hosts[node].handle(parts)
            self.hosts[node] = Host(self.site_data[node])  # a crash after every reply
            replies.append(RawReply(id_, self.hosts[node].handle(parts)))
        return replies


def _remote(config, out, sites, **more):
    federation = RemoteFederation(sites, "run", Timeouts(reply=0.1, connect=0.1, poll=0.05))
    return execute_remotely(config, out, federation, **more).summary


def _local(config, out):
    def build(config):
        setup = from_config(config)
        local = setup.federation
        while isinstance(local, Layer):
            local = local.inner
        local.pool = False
        return setup

    return execute(config, out, build=build).summary


def _compare(here, there, sites, clients=3):
    mine, theirs = (load_file(folder / "model.safetensors") for folder in (here, there))
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    for m in range(clients):
        path = f"clients/{m}/weights.parquet"
        if (here / path).exists():
            kept = pd.read_parquet(sites.site_data[m].folder / "run" / path)
            own = pd.read_parquet(here / path)
            assert np.array_equal(kept["weight"], own["weight"])
            assert np.array_equal(kept["label"], own["label"])


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("fedavg", {}),
        ("fedavg", {"secure_sum": True}),
        ("single-loop", {"secure_sum": True, "compressor": "count-sketch", "clients": 4}),
        ("single-loop", {}),
        ("single-loop", {"cohort": 2}),
        ("single-loop", {"compressor": "topk", "cohort": 2}),
        ("iter-sketch", {"iterations": 3, "check_residual": True}),
        ("iter-topk", {"iterations": 2, "resample": True, "cohort": 2}),
        ("non-iter", {"rate": 20.0}),
        ("glc", {}),
        ("em", {"cohort": 2}),
        ("gce", {}),
        ("elr", {"cohort": 2}),
        ("out-of-fold", {}),
        ("out-of-fold", {"cohort": 2}),
        ("out-of-fold", {"share_noise": False}),
        ("out-of-fold", {"learn_l2": True}),
        ("fedelc", {}),
        ("fedcorr", {}),
        ("posterior", {}),
        ("fedavg", {"dp_clip": 0.2, "dp_noise": 2.0}),
        ("posterior", {"dp_clip": 0.2, "dp_epsilon": 8.0, "secure_sum": True, "clients": 4}),
        ("posterior", {"cohort": 2}),
        ("first-order", {}),
        ("first-order", {"cohort": 2, "scored": 5}),
        ("clean-step", {"cohort": 2}),
        ("no-hessian", {}),
        ("simfbo", {"cohort": 2}),
        ("fedbioacc", {"cohort": 2}),
    ],
)
def test_remote_is_local(tmp_path, method, changes):
    config = tiny(method, **changes)
    sites = Sites(config, tmp_path / "sites")
    there = _remote(config, tmp_path / "there", sites)
    here = _local(config, tmp_path / "here")
    _compare(tmp_path / "here", tmp_path / "there", sites)
    same = ("test_accuracy", "validation_loss", "bytes_up", "bytes_down", "exchanges", "rounds")
    assert {k: there[k] for k in same} == {k: here[k] for k in same}
    assert there["f1"] is None
    assert not (tmp_path / "there" / "clients").exists()


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("fedavg", {"cohort": 2}),
        ("single-loop", {}),
        ("single-loop", {"cohort": 2}),
        ("iter-topk", {"iterations": 2, "resample": True, "cohort": 2}),
        ("non-iter", {"rate": 20.0}),
        ("out-of-fold", {"cohort": 2}),
        ("preprocess", {}),
        ("fedelc", {}),
        ("fedcorr", {}),
        ("posterior", {}),
    ],
)
def test_remote_is_local_where_differences_travel(tmp_path, monkeypatch, method, changes):
    compress_small(monkeypatch)
    config = tiny(method, update_rate=8.0, model_rate=8.0, **changes)
    sites = Sites(config, tmp_path / "sites")
    there = _remote(config, tmp_path / "there", sites)
    here = _local(config, tmp_path / "here")
    _compare(tmp_path / "here", tmp_path / "there", sites)
    same = ("test_accuracy", "validation_loss", "bytes_up", "bytes_down", "exchanges", "rounds")
    assert {k: there[k] for k in same} == {k: here[k] for k in same}
    dense = _local(tiny(method, update_rate=1.0, model_rate=1.0, **changes), tmp_path / "dense")
    assert there["bytes_up"] + there["bytes_down"] < dense["bytes_up"] + dense["bytes_down"]


def test_a_silent_client_gets_the_whole_model_again_and_the_run_goes_on(tmp_path, monkeypatch):
    compress_small(monkeypatch)
    config = tiny(update_rate=8.0, model_rate=8.0)
    sites = Sites(config, tmp_path / "sites")
    sites.silent = lambda node, request_id: (node, request_id.round) == (1, 1)
    _remote(config, tmp_path / "run", sites)
    sent = [(RequestId.decode(parts), node, set(parts)) for node, parts in sites.sent.values()]
    labels = {(r.round, node): names & {"y", "y+", "y="} for r, node, names in sent}
    assert [labels[k, 1] for k in range(4)] == [{"y"}, {"y+"}, {"y"}, {"y+"}]
    assert [labels[k, 0] for k in range(4)] == [{"y"}, {"y+"}, {"y+"}, {"y+"}]


@pytest.mark.parametrize(("model", "method"), [("linear", "out-of-fold"), ("mlp", "posterior")])
def test_auto_is_resolved_before_the_sites_are_greeted(tmp_path, monkeypatch, model, method):
    """All that sites are sent, the greeting included, is what the method by name sends."""
    monkeypatch.setattr(uuid, "uuid4", lambda: SimpleNamespace(hex="the same"))
    auto = tiny("auto", model=model, rounds=2, validation_size=50)
    said, sent, kept = [], [], []
    for config in (auto, auto.replace(method=method)):
        sites = Sites(config, tmp_path / f"sites of {config.method}")
        out = tmp_path / config.method
        summary = _remote(config, out, sites, say=said.append)
        chosen = summary.pop("chosen", None)
        assert (chosen is not None) == (config is auto)
        sent.append(sites.sent)
        kept.append(((out / "config.toml").read_text(), summary | {"seconds": None}))
    assert sent[0] == sent[1]
    assert kept[0] == kept[1]
    assert kept[0][1]["method"] == method
    why = json.loads((tmp_path / "auto" / "chosen.json").read_text())["why"]
    assert said[0] == f"auto chose {method}: {why}"
    assert not any(text.startswith("auto") for text in said[1:])


def test_a_remote_run_that_auto_began_goes_on(tmp_path):
    config = tiny("auto", rounds=2)
    sites = Sites(config, tmp_path / "sites")
    _remote(config, tmp_path / "there", sites)
    longer = tiny("auto", rounds=4)
    summary = _remote(longer, tmp_path / "there", sites, resume=True)
    assert (summary["rounds"], summary["method"]) == (4, "out-of-fold")
    _local(longer, tmp_path / "here")
    _compare(tmp_path / "here", tmp_path / "there", sites)


@pytest.mark.parametrize("method", ["single-loop", "out-of-fold", "posterior", "clean-step"])
def test_a_site_audits_its_own_labels_as_one_process_would(tmp_path, method):
    config = tiny(method)
    sites = Sites(config, tmp_path / "sites")
    _remote(config, tmp_path / "there", sites)
    _local(config, tmp_path / "here")
    for m, site_data in enumerate(sites.site_data):
        mine, theirs = open_audit(tmp_path / "here"), open_audit(site_data.folder / "run")
        assert theirs.sites == [str(m)]
        table = mine.audit(str(m)).table.drop(columns="id")
        assert_frame_equal(theirs.audit(str(m)).table.drop(columns="id"), table)
        own = json.loads((site_data.folder / "run" / f"clients/{m}/audit.json").read_text())
        assert own["summary"]["flagged"] == int(table["is_label_issue"].sum())


def test_a_site_that_was_away_at_the_end_gets_the_model_on_resume(tmp_path):
    config = tiny(rounds=1)
    sites = Sites(config, tmp_path / "sites")
    sites.silent = lambda node, request_id: node == 1 and request_id.action == "close"
    _remote(config, tmp_path / "run", sites)
    away = sites.site_data[1].folder / "run"
    with pytest.raises(InputError, match="was away when it ended"):
        open_audit(away)
    sites.silent = lambda node, request_id: False
    _remote(config, tmp_path / "run", sites, resume=True)
    assert open_audit(away).sites == ["1"]


@pytest.mark.parametrize(("asked", "sharing", "known"), [(True, {1}, {"1"}), (False, {1}, set())])
def test_the_server_gets_counts_of_sites_that_allow_it_and_only_if_it_asks(
    tmp_path, asked, sharing, known
):
    config = tiny(rounds=2, share_summary=asked)
    _remote(config, tmp_path / "there", Sites(config, tmp_path / "sites", sharing))
    _local(replace(config, share_summary=True), tmp_path / "here")
    there, here = (json.loads((tmp_path / f / "summary.json").read_text()) for f in RUNS)
    assert there.get("sites", {}) == {m: here["sites"][m] for m in known}


def test_a_round_goes_on_without_a_silent_client_and_says_so(tmp_path):
    config = tiny()
    sites = Sites(config, tmp_path / "sites")
    sites.silent = lambda node, request_id: (
        node == 1 and request_id.action == "step" and request_id.round == 1
    )
    summary = _remote(config, tmp_path / "run", sites)
    records = [json.loads(x) for x in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()]
    assert [len(r["events"]) for r in records] == [0, 1, 0, 0]
    assert "client 1 did not reply to 'step': no reply within" in records[1]["events"][0]
    assert summary["events"] == 1


@pytest.mark.parametrize("rate", [1.0, 8.0])
def test_a_run_that_broke_off_in_a_round_resumes_to_the_same_end(tmp_path, monkeypatch, rate):
    compress_small(monkeypatch)
    rates = {"update_rate": rate, "model_rate": rate}
    config = tiny("iter-sketch", iterations=3, min_clients=3, **rates)
    sites = Sites(config, tmp_path / "sites")
    sites.silent = lambda node, request_id: (
        (node, request_id.round, request_id.action) == (2, 2, "outer")
    )
    with pytest.raises(TooFewClients):
        _remote(config, tmp_path / "there", sites)
    sites.silent = lambda node, request_id: False
    _remote(config, tmp_path / "there", sites, resume=True)
    _local(config, tmp_path / "here")
    _compare(tmp_path / "here", tmp_path / "there", sites)


def test_a_reply_of_another_round_changes_nothing(tmp_path):
    config = tiny(rounds=2)
    sites = Sites(config, tmp_path / "sites")
    pull = sites.pull

    def stale(ids):
        replies = pull(ids)
        request_id = RequestId.decode(replies[0].parts)
        if request_id.round == 1 and request_id.action == "step":
            other = replace(request_id, round=0).encode()
            replies[0] = RawReply(replies[0].reply_to, {**replies[0].parts, REQUEST_ID: other})
        return replies

    sites.pull = stale
    _remote(config, tmp_path / "run", sites)
    last = json.loads((tmp_path / "run" / "rounds.jsonl").read_text().splitlines()[-1])
    assert "to another request" in last["events"][0]
