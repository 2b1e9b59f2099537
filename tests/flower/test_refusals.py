"""Who is refused: an unregistered key, the wrong CA, plain text; and what is not started."""

import pytest

from fedsift.cli.main import main
from fedsift.errors import InputError
from fedsift.flower.compat import Away, Control, Refused, Session
from fedsift.flower.deploy import listens
from fedsift.flower.keys import load_or_make_key, make_keys
from fedsift.flower.programs import Address

pytestmark = pytest.mark.timeout(280)  # a server


def test_a_registered_key_is_accepted_once_and_its_owner_may_return(server, link):
    key = server.keys / "sites" / "site-0"
    first = link(key)
    node = first.join(None)
    assert first.receive() is None
    with pytest.raises(Refused):  # the key is in use
        link(key).join(None)
    assert link(key).join(node) == node  # whoever knows the session replaces it, at once


@pytest.mark.fault(
    "an unknown key, a removed key, the wrong CA, plain text",
    "refused",
    trials=2,
)
def test_a_key_that_is_unknown_or_was_removed_is_refused(server, link, tmp_path):
    with pytest.raises(Refused):
        link(server.folder / "others" / "sites" / "stranger").join(None)
    make_keys(tmp_path, ["late"])
    public = (tmp_path / "sites" / "late.pub").read_bytes()
    session = link(tmp_path / "sites" / "late")
    with Control(f"127.0.0.1:{server.port}", server.keys / "ca.crt") as control:
        assert control.register(public, "late")
        assert not control.register(public, "late")
        node = session.join(None)
        assert (node, "late") in {(n.node_id, n.name) for n in control.nodes()}
        control.remove(node)
    with pytest.raises(Refused):
        session.receive()
    with pytest.raises(Refused):
        session.join(node)


@pytest.mark.fault(
    "an unknown key, a removed key, the wrong CA, plain text",
    "refused",
    trials=2,
)
def test_the_wrong_ca_and_plain_text_are_refused(server, link):
    known, others = server.keys / "sites" / "site-0", server.folder / "others"
    with pytest.raises(InputError, match="certificate"):
        link(known, others / "ca.crt").join(None)
    plain = Session(f"127.0.0.1:{server.port}", None, load_or_make_key(known))
    with pytest.raises(Away):
        plain.join(None)
    plain.leave()
    ours, theirs = (Address("127.0.0.1", server.port, k / "ca.crt") for k in (server.keys, others))
    assert listens(ours)
    with pytest.raises(InputError, match="cannot be verified with"):
        listens(theirs)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("server --folder F", "--keys is missing"),
        ("server --folder F --insecure --host 0.0.0.0", "loopback only"),
        ("join --server a.org:1 --insecure --folder F --client 0 --data d.npz", "loopback only"),
        ("join --server a.org:1 --folder F --client 0 --data d.npz", "TLS needs the CA"),
        ("join --server a.org:1 --ca CA --folder F --client 0 --data d.npz", "--key is missing"),
        ("submit C --server nowhere --ca CA", "is not an address"),
        ("submit C --server 10.0.0.1:80 --insecure", "loopback only"),
    ],
)
def test_nothing_starts_without_tls(tmp_path, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "CA").write_text("")
    (tmp_path / "C").write_text("")
    assert main(arguments.split()) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "F").exists()
