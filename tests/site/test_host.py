"""A site with a journal: the same replies as in process, nothing done twice, nothing lost."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from fedsift.client.policy import Policy
from fedsift.compress import Sketch, Sparse, wire
from fedsift.data.samples import Arrays, Samples
from fedsift.data.schema import Schema
from fedsift.federation.encoding import ENVELOPE, REQUEST_ID, RequestId, decode_reply
from fedsift.site.host import Host
from fedsift.site.journal import Journal

NAMES = ("a", "b", "c")


def two_classes() -> Schema:
    return Schema.fit(Samples("the server", Arrays(torch.zeros(2, 4)), NAMES[:2]))


def same(parts, reply):
    """Compare encoded parts with a reply bit for bit."""
    decoded = decode_reply(parts)
    assert decoded.error == reply.error
    assert decoded.scalars == reply.scalars
    assert torch.equal(decoded.arrays["update"], reply.arrays["update"])
    assert torch.equal(decoded.arrays["product"].values, reply.arrays["product"].values)
    return True


def _state(case):
    return Journal(case.site_data.folder / "run" / "journal").last.state


def test_replies_are_those_of_the_client_in_process(case):
    host = Host(case.site_data)
    host.handle(case.hello())
    for k, (_, reply, state) in enumerate(case.rounds):
        assert same(host.handle(case.step(k)), reply)
        assert torch.equal(_state(case).x, state.x)
        assert torch.equal(_state(case).error, state.error)


def test_the_same_request_twice_changes_nothing_twice(case):
    host = Host(case.site_data)
    host.handle(case.hello())
    first, before = host.handle(case.step(0)), _state(case)
    assert host.handle(case.step(0)) == first
    assert torch.equal(_state(case).x, before.x)


def test_the_same_request_with_other_content_is_refused(case):
    host = Host(case.site_data)
    host.handle(case.hello())
    host.handle(case.step(0))
    other = {**case.step(1), REQUEST_ID: case.step(0)[REQUEST_ID]}
    assert "came again with other content" in decode_reply(host.handle(other)).error


def test_a_late_request_is_refused(case):
    host = Host(case.site_data)
    host.handle(case.hello())
    for k in (0, 1):
        host.handle(case.step(k))
    late = case.step(0, number=5)
    assert "is too late" in decode_reply(host.handle(late)).error


def test_a_new_process_goes_on_where_the_old_one_was(case):
    host = Host(case.site_data)
    host.handle(case.hello())
    for k in (0, 1):
        host.handle(case.step(k))
    _, reply, state = case.rounds[2]
    again = Host(case.site_data)
    assert same(again.handle(case.step(2)), reply)
    assert torch.equal(_state(case).average, state.average)


def test_a_resumed_server_finds_the_site_where_it_was(case):
    host = Host(case.site_data)
    host.handle(case.hello())
    for k in range(4):
        host.handle(case.step(k))
    welcome = decode_reply(host.handle(case.hello(next_round=2)))
    assert welcome.scalars == {"name": "0", "v_version": 2}
    assert same(host.handle(case.step(2)), case.rounds[2][1])


def test_a_repeated_opening_does_not_rewind(case):
    host, hello = Host(case.site_data), case.hello()
    host.handle(hello)
    host.handle(case.step(0))
    host.handle(hello)
    assert _state(case) is not None


def test_a_site_that_cannot_go_back_so_far_says_so(case):
    host = Host(case.site_data)
    host.handle(case.hello())
    for k in range(6):
        host.handle(case.step(k))
    error = decode_reply(host.handle(case.hello(next_round=2))).error
    assert "cannot return to round 3" in error


def test_the_weights_are_in_the_site_s_own_folder_and_in_no_reply(case):
    host = Host(case.site_data)
    host.handle(case.hello())
    replies = [host.handle(case.step(0))]
    replies.append(host.handle(case.close()))
    path = case.site_data.folder / "run" / "clients" / "0" / "weights.parquet"
    table = pd.read_parquet(path)
    assert torch.equal(torch.tensor(table["weight"].to_numpy()), case.rounds[0][2].average)
    assert [NAMES[n] for n in table["label"]] == list(case.site_data.samples.labels)
    assert path.stat().st_mode & 0o077 == 0
    assert [sorted(a) for a in replies] == [
        [".about", ".envelope", "product", "residual", "update"],
        [".about", ".envelope"],
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"parameters": 16}, "has 15 parameters and the server's has 16"),
        ({"frozen": "0123"}, "other frozen parameters or statistics than the server's"),
        ({"schema": two_classes().to_json(), "parameters": 10}, "do not fit the server's schema"),
        ({"schema": "{}"}, "the schema"),
        ({"model": "shell"}, "the server uses a model of its own"),
        ({"model": "os:abort"}, "the server uses a model of its own"),
        ({"model": ""}, "the server uses a model of its own"),
    ],
)
def test_an_opening_that_does_not_fit_is_refused(case, changes, sentence):
    assert sentence in decode_reply(Host(case.site_data).handle(case.hello(**changes))).error


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        (Policy(most_classes=2), "allows 2 classes, not 3"),
        (Policy(most_parameters=14), "allows 14 parameters, not 15"),
    ],
)
def test_a_run_that_would_build_too_much_opens_nothing(case, policy, sentence):
    host = Host(replace(case.site_data, policy=policy))
    assert sentence in decode_reply(host.handle(case.hello())).error
    assert not (case.site_data.folder / "run" / "run.json").exists()


def test_what_is_wrong_with_a_sample_is_said_at_the_site_only(case, capfd):
    refused = case.hello(schema=two_classes().to_json(), parameters=10)
    reply = decode_reply(Host(case.site_data).handle(refused))
    assert "'c'" not in reply.error
    assert "has labels that are no class ('c'" in capfd.readouterr().err


def test_an_opening_without_a_round_is_refused(case):
    parts = {**case.hello(), ENVELOPE: wire.encode({"seed": 5})}
    assert "in which round" in decode_reply(Host(case.site_data).handle(parts)).error


def test_a_run_opened_anew_at_round_0_forgets_everything(case):
    host = Host(case.site_data)
    host.handle(case.hello())
    host.handle(case.step(0))
    host.handle(case.hello())
    assert Journal(case.site_data.folder / "run" / "journal").last is None


def test_a_second_opening_with_other_settings_is_refused_and_deletes_nothing(case):
    host = Host(case.site_data)
    host.handle(case.hello())
    host.handle(case.step(0))
    assert "with another seed" in decode_reply(host.handle(case.hello(seed=6))).error
    assert _state(case) is not None
    assert same(host.handle(case.step(1)), case.rounds[1][1])


@pytest.mark.parametrize(
    ("allowed", "asked", "sent"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_the_count_of_suspicious_labels_leaves_only_if_allowed_and_asked(
    case, allowed, asked, sent
):
    host = Host(replace(case.site_data, share=allowed))
    host.handle(case.hello())
    host.handle(case.step(0))
    reply = decode_reply(host.handle(case.close(share_summary=asked)))
    assert ("flagged" in reply.scalars) is sent


@pytest.mark.parametrize("name", ["../run", "/etc", "", "a/b", "." * 3])
def test_a_run_s_name_is_not_a_path(case, name):
    parts = {**case.hello(), REQUEST_ID: RequestId(name, 0, 0, "hello").encode()}
    assert "not a run name" in decode_reply(Host(case.site_data).handle(parts)).error


def test_foreign_bytes_get_an_error_and_leave_no_trace(case):
    host = Host(case.site_data)
    host.handle(case.hello())
    bad = {**case.step(0), "y": b"\x80\x04\x95"}
    assert decode_reply(host.handle(bad)).error is not None
    assert decode_reply(host.handle({})).error is not None
    assert Journal(case.site_data.folder / "run" / "journal").last is None


@pytest.mark.parametrize(
    "changes",
    [{"y": b""}, {"y": wire.encode(torch.zeros(14))}, {ENVELOPE: wire.encode({})}],
)
def test_a_closing_message_without_a_model_leaves_no_trace(case, changes):
    host = Host(case.site_data)
    host.handle(case.hello())
    assert decode_reply(host.handle({**case.close(), **changes})).error is not None
    assert not (case.site_data.folder / "run" / "model.safetensors").exists()


def test_few_bytes_that_stand_for_a_long_vector_are_refused(case):
    host = Host(case.site_data)
    host.handle(case.hello())
    none = torch.zeros(0)
    for payload in (Sparse(none.long(), none, 2**40), Sketch(torch.zeros(2, 3), 2**40, 0)):
        parts = {**case.step(0), "y": wire.encode(payload)}
        assert sum(map(len, parts.values())) < 2_000
        error = decode_reply(host.handle(parts)).error
        assert "'y' stands for 1099511627776 numbers" in error
    assert same(host.handle(case.step(0)), case.rounds[0][1])


def test_a_run_that_was_never_opened_is_refused(case):
    assert "has no run" in decode_reply(Host(case.site_data).handle(case.step(0))).error
