"""Keys: their types and limits, how they are written and read, what a dataset decides."""

import tomllib
from dataclasses import replace

import pytest

from fedsift.algorithms.outer_step import OuterKeys
from fedsift.algorithms.registry import METHODS
from fedsift.data import DATASETS, NOISES, PARTITIONS, SPLITS
from fedsift.errors import ConfigError
from fedsift.experiment.config import (
    Config,
    flatten,
    from_file,
    from_mapping,
    method_keys,
    parse_setting,
    read_toml,
)
from fedsift.problem.curvature import CURVATURES

COMMON = "run", "data", "files", "model", "federation", "robustness", "traffic", "privacy"
CONFIGS = [
    *(Config.of(method=method) for method in METHODS),
    Config.of().resolve(),
    Config.of(split="non-iid", rho=(0.1, 0.75), clients=4, device="cuda:1").resolve(),
    Config.of(dataset="femnist", method="non-iter", fresh_seeds=False, l2=0.0).resolve(),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_toml_gives_the_same_configuration(config):
    assert from_mapping(tomllib.loads(config.to_toml()), "here") == config


def test_toml_has_the_common_keys_and_those_of_the_method():
    tables = tomllib.loads(Config.of(method="focus").to_toml())
    assert list(tables) == [*COMMON, "inner", "outer"]
    steps = {"local_steps": 5, "inner_lr": "auto", "batch_size": 64}
    assert tables["inner"] == {**steps, "head_start": 0}
    assert tables["outer"] == {"focus_alpha": 1.0}


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("method", METHODS),
        ("dataset", [*DATASETS, "own"]),
        ("split", SPLITS),
        ("partition", ["auto", *PARTITIONS]),
        ("noise", NOISES),
        ("curvature", CURVATURES),
    ],
)
def test_choices_are_those_of_the_table(name, table):
    assert method_keys("single-loop")[name].allowed() == tuple(table)


def test_a_new_row_is_a_choice_at_once(monkeypatch):
    monkeypatch.setitem(NOISES, "dummy", NOISES["none"])
    assert Config.of(noise="dummy").noise == "dummy"


@pytest.mark.parametrize(
    ("values", "able"),
    [
        ({"method": "fedavg", "system": "galerkin", "self_paced": 5}, "non-iter"),
        (
            {"method": "fedavg", "initial_weight": 0.5},
            "single-loop, first-order, clean-step, simfbo",
        ),
        ({"method": "single-loop", "iterations": 2}, "iter-topk, iter-sketch"),
        ({"method": "iter-topk", "heavy": 2}, "single-loop, iter-sketch"),
        ({"method": "non-iter", "warm_start": False}, "iter-topk, iter-sketch"),
        ({"method": "focus", "preprocess_steps": 2}, "preprocess"),
        ({"method": "single-loop", "iterations": 1}, "iter-topk, iter-sketch"),  # its default too
        ({"rate": 50}, "single-loop, iter-topk, iter-sketch, non-iter, cg, neumann; choose one"),
        ({"share_noise": False}, "out-of-fold; choose one of them as the method"),
    ],
)
def test_a_key_that_the_method_does_not_read_is_refused(values, able):
    name = list(values)[-2 if "system" in values else -1]
    method = values.get("method", "auto")
    with pytest.raises(ConfigError) as caught:
        Config.of(**values)
    assert str(caught.value).startswith(f"{method} does not read the key '{name}'; ")
    assert f"methods that read it: {able}" in str(caught.value)
    assert f"`fedsift run --keys {method}`" in str(caught.value)


def test_values_by_name_and_by_group():
    config = Config.of(method="iter-topk", outer_lr=0.3, rounds=7)
    assert config.settings[OuterKeys].outer_lr == config.value("outer_lr") == 0.3
    assert (config.rounds, config.value("rounds"), config.value("system")) == (7, 7, None)


def test_another_method_keeps_what_was_changed():
    config = Config.of(method="iter-topk", rounds=7, local_steps=3).replace(method="fedavg")
    assert config == Config.of(method="fedavg", rounds=7, local_steps=3)


def test_another_method_must_read_what_was_changed():
    with pytest.raises(ConfigError, match="fedavg does not read the key 'rate'"):
        Config.of(method="iter-topk", rate=50).replace(method="fedavg")


def test_a_method_needs_its_own_settings():
    with pytest.raises(ConfigError, match=r"not those of fedavg; .* with Config\.replace"):
        replace(Config.of(), method="fedavg")


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        ("rounds = 3", {"seed": 1}, {"rounds": 3, "seed": 1}),
        ("iterations = 3", {"method": "iter-topk"}, {"method": "iter-topk", "iterations": 3}),
        ("method = 'non-iter'", {"method": "fedavg"}, {"method": "fedavg"}),
        ("seed = 1\nbootstrap = 1.0", {"seed": 2, "method": "fedavg"}, "x.toml: fedavg does not"),
        ("method = 'non-iter'\nr1 = 3", {"method": "fedavg"}, "here: fedavg does not read"),
        ("method = 'fedavg'\nrate = 3", {"method": "non-iter"}, "x.toml: fedavg does not read"),
        ("method = 'non-iter'\nrate = 0", {}, "x.toml: rate is 0.0"),
        ("method = 'non-iter'\nrate = 3", {"rate": 0}, "here: rate is 0"),
        ("l2 = 3", {"raet": 5}, "here: unknown key 'raet'; did you mean 'rate'?"),
        ("l2 = 3", {"method": "fedagv"}, "here: method is 'fedagv'"),
        ("rate = 3", {}, "x.toml: auto does not read the key 'rate'"),
        ("rate = 3", {"method": "auto"}, "x.toml: auto does not read the key 'rate'"),
        ("method = 'single-loop'\nrate = 3", {"method": "auto"}, "here: auto does not read"),
        ("method = 'single-loop'\nl2 = 0.1", {"method": "auto"}, {"method": "auto", "l2": 0.1}),
    ],
)
def test_changes_to_a_file(tmp_path, monkeypatch, text, changes, expected):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.toml"
    path.write_text(text)
    if isinstance(expected, dict):
        assert from_file(path, changes, "here") == Config.of(**expected)
    else:
        with pytest.raises(ConfigError, match=expected.replace("?", r"\?")):
            from_file(path, changes, "here")


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
        ({"share_summary": 1}, "share_summary is 1; it must be true or false"),
        ({"device": 3}, "device is 3; it must be text"),
        ({"method": "iter-skech"}, "method is 'iter-skech'; it must be one of "),
        ({"method": "iter-skech"}, "; did you mean 'iter-sketch'?"),
        (
            {"dataset": "imagenet"},
            "'imagenet'; it must be one of digits, mnist, cifar10, cifar10-features, femnist",
        ),
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
        from_mapping({"method": "single-loop"} | values, "my.toml")
    assert str(caught.value).startswith("my.toml: ")
    assert message in str(caught.value)


def test_whole_number_for_a_float_is_the_same_configuration():
    config = Config.of(l2=1, rho=[0, 1], split="non-iid")
    assert config.to_toml() == Config.of(l2=1.0, rho=(0.0, 1.0), split="non-iid").to_toml()


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
    c = Config.of(**given).resolve()
    resolved = (c.partition, c.clients, c.samples_per_client, c.validation_size, c.rho, c.model)
    assert resolved == sizes
    assert c.resolve() == c
