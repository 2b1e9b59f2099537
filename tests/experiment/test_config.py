"""Keys: their types and limits, how they are written and read, what a dataset decides."""

import tomllib
from dataclasses import fields

import pytest

from fedsift.errors import ConfigError
from fedsift.experiment.config import Config, flatten, from_mapping, parse_setting, read_toml

CONFIGS = [
    Config(),
    Config().resolve(),
    Config(split="non-iid", rho=(0.1, 0.75), clients=4, device="cuda:1").resolve(),
    Config(dataset="femnist", method="non-iter", warm_start=False, l2=0.0).resolve(),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_toml_gives_the_same_configuration(config):
    assert from_mapping(tomllib.loads(config.to_toml()), "here") == config


def test_toml_has_every_key_in_one_table():
    tables = tomllib.loads(Config().to_toml())
    keys = [key for table in tables.values() for key in table]
    assert sorted(keys) == sorted(spec.name for spec in fields(Config))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rate": 0.5}, "rate is 0.5; it must be at least 1"),
        ({"rate": -3}, "rate is -3.0; it must be at least 1"),
        ({"rate": float("nan")}, "rate is nan; it must be a number"),
        ({"outer_lr": float("inf")}, "outer_lr is inf; it must be a number"),
        ({"inner_lr": 0}, "inner_lr is 0.0; it must be above 0"),
        ({"initial_weight": 1.5}, "initial_weight is 1.5; it must be at most 1"),
        ({"rounds": 2.5}, "rounds is 2.5; it must be a whole number"),
        ({"rounds": True}, "rounds is True; it must be a whole number"),
        ({"seed": "one"}, "seed is 'one'; it must be a whole number"),
        ({"rate": [1, 2]}, "rate is [1, 2]; it must be a number"),
        ({"warm_start": 1}, "warm_start is 1; it must be true or false"),
        ({"device": 3}, "device is 3; it must be text"),
        ({"method": "iter-skech"}, "method is 'iter-skech'; it must be one of "),
        ({"method": "iter-skech"}, "; did you mean 'iter-sketch'?"),
        ({"dataset": "imagenet"}, "'imagenet'; it must be one of digits, mnist, cifar10, femnist"),
        ({"rho": 1.5}, "rho is 1.5; give a rate in [0, 1] or [low, high] within it"),
        ({"rho": -0.1}, "rho is -0.1; give a rate"),
        ({"rho": [0.9, 0.2]}, "rho is [0.9, 0.2]; give a rate"),
        ({"rho": [0.1]}, "rho is [0.1]; it must be a number or a pair [low, high]"),
        ({"rho": ["a", "b"]}, "rho is 'a'; it must be a number"),
        ({"raet": 5}, "unknown key 'raet'; did you mean 'rate'?"),
        ({"solver": {"raet": 5}}, "unknown key 'raet'; did you mean 'rate'?"),
        ({"sovler": {"rate": 5}}, "unknown table [sovler]; did you mean 'solver'?"),
        ({"data": {"rate": 5}}, "key 'rate' is in table [data]; move it to [solver]"),
        ({"rate": 5, "solver": {"rate": 6}}, "key 'rate' is given twice"),
    ],
)
def test_fault_is_named_with_its_place(values, message):
    with pytest.raises(ConfigError) as caught:
        from_mapping(values, "my.toml")
    assert str(caught.value).startswith("my.toml: ")
    assert message in str(caught.value)


def test_whole_number_for_a_float_is_the_same_configuration():
    config = Config(rate=50, rho=[0, 1], split="non-iid")
    assert config.to_toml() == Config(rate=50.0, rho=(0.0, 1.0), split="non-iid").to_toml()


def test_tables_may_be_left_out():
    assert flatten({"rate": 5, "model": {"model": "linear"}}) == {"rate": 5, "model": "linear"}


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("rate=50", ("rate", 50)),
        (" rate = 2.5 ", ("rate", 2.5)),
        ("solver.rate=50", ("rate", 50)),
        ("method=iter-topk", ("method", "iter-topk")),
        ('method="iter-topk"', ("method", "iter-topk")),
        ("warm_start=false", ("warm_start", False)),
        ("rho=[0.2, 0.9]", ("rho", [0.2, 0.9])),
        ("device=cuda:0", ("device", "cuda:0")),
        ("device=a=b", ("device", "a=b")),
        ("device=", ("device", "")),
    ],
)
def test_setting_is_read_as_toml(text, setting):
    assert parse_setting(text) == setting


@pytest.mark.parametrize("text", ["rate", "=5", ""])
def test_setting_without_key_or_sign_is_refused(text):
    with pytest.raises(ConfigError, match="is not of the form key=value"):
        parse_setting(text)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no file .*none\.toml"):
        read_toml(tmp_path / "none.toml")


@pytest.mark.parametrize("content", [b"rate = ", b"[solver", b"rate = '\xff'"])
def test_broken_file_is_named(tmp_path, content):
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"broken\.toml cannot be read as TOML"):
        read_toml(path)


@pytest.mark.parametrize(
    ("given", "sizes"),  # Section 5 of the paper
    [
        ({"dataset": "mnist"}, ("iid", 10, 500, 500, 0.4, "paper_cnn")),
        (
            {"dataset": "cifar10", "split": "non-iid"},
            ("iid", 10, 500, 500, (0.2, 0.9), "paper_cnn"),
        ),
        ({"dataset": "femnist"}, ("writer", 10, 0, 0, 0.4, "paper_cnn")),
        (
            {"dataset": "mnist", "clients": 3, "model": "linear"},
            ("iid", 3, 500, 500, 0.4, "linear"),
        ),
        ({"dataset": "digits", "rho": 0.0}, ("iid", 10, 100, 200, 0.0, "digits_cnn")),
    ],
)
def test_resolve_writes_out_what_the_dataset_decides(given, sizes):
    c = Config(**given).resolve()
    resolved = (c.partition, c.clients, c.samples_per_client, c.validation_size, c.rho, c.model)
    assert resolved == sizes
    assert c.resolve() == c
