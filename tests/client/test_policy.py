"""``policy.toml``: written out and read again, and refused with a sentence where it is wrong."""

import pytest

from fedsift.cli.main import main
from fedsift.client.policy import OPEN, Policy, read_policy
from fedsift.errors import ConfigError, InputError


@pytest.mark.parametrize("policy", [Policy(), OPEN, Policy(methods=("fedavg", "em"), most_lr=0.5)])
def test_what_is_shown_can_be_read_again(tmp_path, policy):
    (tmp_path / "policy.toml").write_text(policy.to_toml())
    assert read_policy(tmp_path / "policy.toml") == policy


def test_without_a_file_it_is_the_default(tmp_path):
    assert read_policy(tmp_path / "policy.toml") == read_policy(None) == Policy()


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("least_batch = ", InputError, "is not a policy"),
        ("least_bach = 3", ConfigError, "did you mean 'least_batch'"),
        ("least_batch = 0", ConfigError, "at least 1"),
        ('methods = ["fedavgg"]', ConfigError, "did you mean 'fedavg'"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, text, kind, sentence):
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(kind, match=sentence):
        read_policy(tmp_path / "policy.toml")


def test_join_shows_the_policy_and_needs_nothing_else(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["join", "--policy", "show"])
    assert not end.value.code
    assert capsys.readouterr().out == Policy().to_toml()
    (tmp_path / "policy.toml").write_text("least_batch = 32")
    with pytest.raises(SystemExit):
        main(["join", "--folder", str(tmp_path), "--policy", "show"])
    assert "least_batch = 32" in capsys.readouterr().out
