"""Exit codes, one line for every fault, and help whose examples work."""

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fedsift.cli import running
from fedsift.cli.main import COMMANDS, main, parser
from fedsift.errors import ConfigError

NAMES = list(COMMANDS)
EXAMPLES = Path(__file__).parents[2] / "examples" / "deployment"


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ("run none.toml", ["no file none.toml"]),
        ("run broken.toml", ["broken.toml cannot be read as TOML", "line 1"]),
        ("run typo.toml", ["typo.toml: unknown key 'raet'", "did you mean 'rate'?"]),
        ("run table.toml", ["table.toml: unknown table [sovler]", "did you mean 'solver'?"]),
        ("run low.toml", ["low.toml: rate is 0.5", "at least 1"]),
        ("run .", ["cannot be read as TOML"]),
        (
            "run --dataset imagenet",
            ["dataset is 'imagenet'", "digits, mnist, cifar10, cifar10-features"],
        ),
        ("run --method iter-sketsh", ["method is 'iter-sketsh'", "did you mean 'iter-sketch'?"]),
        ("run --set colour=red", ["unknown key 'colour'"]),
        ("run --set rate", ["--set 'rate' is not of the form key=value"]),
        ("run --method single-loop --set rate=-2", ["rate is -2.0", "at least 1"]),
        ("run --set l2=-0.5", ["l2 is -0.5", "at least 0"]),
        ("run --set l2=fast", ["l2 is 'fast'", "must be a number"]),
        ("run --set rate=5", ["auto does not read the key 'rate'", "choose one of them"]),
        ("run --method iter-sketch --set heavy=10000000", ["heavy is 10000000", "11122"]),
        ("run --method non-iter --set r1=10000000", ["r1 is 10000000", "11122 parameters"]),
        ("run --set rho=1.5", ["rho is 1.5", "[0, 1]"]),
        ("run --set rho=[0.5]", ["rho is [0.5]", "a pair [low, high]"]),
        ("run --set rho=[0.1,0.2]", ["rho", "split 'iid' needs one number"]),
        ("run --set clients=100", ["1297 train samples", "10000 for 100 clients", "lower clients"]),
        ("run --set min_clients=11", ["min_clients is 11 but a round has 10 clients"]),
        ("run --set model=paper_cnn", ["paper_cnn", "8x8 is too small"]),
        ("run --set device=tpu", ["device is 'tpu'", "use auto, cpu"]),
        ("run --dataset mnist", ["no train.parquet", "nowhere/ylecun/mnist", "FEDSIFT_DATA"]),
        ("run --out taken", ["taken already holds a run", "--resume", "--out"]),
        ("run --out broken.toml", ["cannot write to broken.toml", "--out"]),
        ("run --rate 5", ["unrecognized arguments: --rate", "see fedsift --help"]),
        ("demo --rounds 0", ["rounds is 0", "at least 1"]),
        ("demo --rounds many", ["invalid int value: 'many'", "fedsift demo --help"]),
        ("report nothing", ["nothing is not a run folder"]),
        ("report", ["arguments are required: RUN"]),
        ("data info", ["info needs the name of a dataset"]),
        ("data prepare", ["prepare needs the name of a dataset"]),
        ("data info minst", ["no dataset 'minst'", "did you mean 'mnist'?"]),
        ("data info mnist", ["nowhere/ylecun/mnist"]),
        ("data show", ["invalid choice: 'show'"]),
        ("", ["arguments are required: COMMAND"]),
        ("trian", ["invalid choice: 'trian'"]),
    ],
)
def test_bad_input_gets_one_line_and_code_2(fedsift, monkeypatch, arguments, parts):
    monkeypatch.setenv("FEDSIFT_DATA", "nowhere")
    Path("broken.toml").write_text("rate = = 5")
    Path("typo.toml").write_text("[solver]\nraet = 5")
    Path("table.toml").write_text("[sovler]\nrate = 5")
    Path("low.toml").write_text("method = 'non-iter'\nrate = 0.5")
    Path("taken").mkdir()
    Path("taken/config.toml").touch()
    before = sorted(Path().rglob("*"))
    ended = fedsift(*arguments.split())
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("fedsift")
    assert ended.err.endswith("\n")
    assert ended.err.count("\n") == 1
    assert [part for part in parts if part not in ended.err] == []
    assert sorted(Path().rglob("*")) == before


def test_debug_shows_the_traceback(fedsift):
    with pytest.raises(ConfigError):
        fedsift("--debug", "run", "--set", "rate=0")
    with pytest.raises(ConfigError):
        fedsift("run", "--set", "rate=0", "--debug")


def test_failed_run_is_one_line_and_code_1(fedsift, tiny):
    keys = ("--method", "fedavg", "--set", "inner_lr=1e6", "--set", "rounds=50")
    ended = fedsift("run", tiny, *keys, "--out", "run")
    assert ended.code == 1
    assert re.fullmatch(r"fedsift: the model is no longer finite .*; lower .*\n", ended.err)
    assert len(Path("run/rounds.jsonl").read_text().splitlines()) > 0
    assert len(list(Path("run/checkpoint").iterdir())) == 1


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "fedsift: interrupted; `fedsift run --resume` continues a run"),
        (
            ValueError("two\nlines"),
            1,
            "fedsift: ValueError: two lines (`fedsift --debug ...` shows where)",
        ),
        (OSError(28, "No space left on device", "x"), 1, "No space left on device: 'x'"),
    ],
)
def test_what_was_not_foreseen_is_one_line(fedsift, monkeypatch, error, code, line):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(running, "execute", fail)
    ended = fedsift("run")
    assert ended.code == code
    assert line in ended.err
    assert ended.err.count("\n") == 1


def process(*arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "fedsift", *arguments]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    return subprocess.Popen(command, env=buffered, stderr=subprocess.PIPE, text=True, **options)


def test_process_ends_with_the_code_and_no_traceback():
    with process("run", "--set", "l2=-0.5") as ended:
        _, err = ended.communicate()
    assert ended.returncode == 2
    assert err == "fedsift: command line: l2 is -0.5; it must be at least 0\n"


def test_closed_pipe_is_no_fault():
    with process("run", "--keys", stdout=subprocess.PIPE) as ended:
        ended.stdout.close()
        assert (ended.stderr.read(), ended.wait()) == ("", 1)


def test_version(fedsift):
    assert re.fullmatch(r"fedsift \d+\.\d+\.\d+\S*\n", fedsift("--version").out)


def test_help_lists_every_command(fedsift):
    text = fedsift("--help").out
    assert [name for name in NAMES if not re.search(rf"^    {name}\s+\w", text, re.M)] == []


@pytest.mark.parametrize("name", ["", *NAMES])
def test_help_shows_examples_that_parse(fedsift, name):
    text = re.sub(r" \\\n +", " ", fedsift(*name.split(), "--help").out)  # as a shell joins lines
    lines = re.findall(r"^  (fedsift .*?)(?:   .*)?$", text.partition("examples:")[2], re.M)
    assert lines
    for path in EXAMPLES.glob("*.toml"):  # of options, which are read
        Path(path.name).write_text(path.read_text())
    for line in lines:
        words = shlex.split(line.partition(" >")[0])
        options = parser().parse_args(words[1:])
        assert options.command == (name or words[1])
        if options.command == "run":  # and its keys are known
            Path("experiment.toml").write_text(running.keys_text("single-loop"))
            running.configuration(options)


def test_every_option_has_a_help_text():
    kinds = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    commands = kinds[0].choices
    assert sorted(commands) == sorted(NAMES)
    for name, command in commands.items():
        assert not [action.dest for action in command._actions if not action.help], name


def test_help_needs_no_torch():
    code = "import sys, fedsift.cli.main as m\ntry: m.main(['--help'])\nexcept SystemExit: pass\n"
    code += "print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fedsift demo" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"


def test_main_returns_0():
    assert main(["run", "--keys"]) == 0
