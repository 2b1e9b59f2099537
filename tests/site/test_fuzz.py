"""Random and damaged messages: a site answers each with a reply, readers with one sentence."""

import random

import pytest

from fedsift.compress import wire
from fedsift.errors import FedsiftError
from fedsift.experiment.config import from_mapping
from fedsift.federation.encoding import decode_reply
from fedsift.files import read_toml
from fedsift.site.host import Host

TRIALS = [
    pytest.param(300, id="300"),
    pytest.param(20_000, id="20000", marks=[pytest.mark.deep, pytest.mark.timeout(1800)]),
]


def damaged(draw, whole):
    """Return bytes with some changed, cut off, doubled or replaced."""
    data = bytearray(whole)
    kind = draw.randrange(4)
    if kind == 0 and data:
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif kind == 1:
        del data[draw.randrange(len(data) + 1) :]
    elif kind == 2:
        data += data[: draw.randrange(40)]
    else:
        data = bytearray(draw.randbytes(draw.randrange(60)))
    return bytes(data)


@pytest.mark.fault(
    "random and damaged messages to a site",
    "a reply or one sentence",
)
@pytest.mark.parametrize("trials", TRIALS)
def test_a_site_answers_every_message_and_goes_on(case, trials):
    draw, host = random.Random(1), Host(case.site_data)
    host.handle(case.hello())
    requests = [case.hello(), case.step(0), case.step(1), case.close()]
    for _ in range(trials):
        parts = dict(draw.choice(requests))
        for name in draw.sample(sorted(parts), draw.randrange(1, len(parts) + 1)):
            parts[name] = damaged(draw, parts[name])
        decode_reply(host.handle(parts))
    assert decode_reply(Host(case.site_data).handle(case.hello())).client == 0


@pytest.mark.fault(
    "random and damaged bytes to the wire format",
    "a reply or one sentence",
)
@pytest.mark.parametrize("trials", TRIALS)
def test_the_wire_format_refuses_or_reads(case, trials):
    draw = random.Random(2)
    encoded = [data for request in (case.hello(), case.step(0)) for data in request.values()]
    for _ in range(trials):
        try:
            wire.decode(damaged(draw, draw.choice(encoded)))
        except FedsiftError:
            continue


@pytest.mark.fault(
    "random and damaged configurations",
    "a reply or one sentence",
)
@pytest.mark.parametrize("trials", TRIALS)
def test_a_configuration_is_read_or_refused(tmp_path, trials):
    draw, path = random.Random(3), tmp_path / "c.toml"
    text = b'dataset = "digits"\nmethod = "single-loop"\nrounds = 5\nrate = 2.5\nnoise = 0.4\n'
    for _ in range(trials):
        path.write_bytes(damaged(draw, text))
        try:
            from_mapping(read_toml(path), "c.toml")
        except FedsiftError:
            continue
