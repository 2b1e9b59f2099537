"""`--config FILE.toml` of `join` and `server`: the same options as on the command line."""

from pathlib import Path

import pytest

from fedsift.cli.main import main, parser

JOIN = """
server = "fed.org:8443"
ca = "ca.crt"
key = "keys/north"
folder = "site"
client = 3
name = "north"
data = "train.csv"
label-column = "diagnosis"
ignore_column = ["notes", "-x"]
share-summary = true
approve = false
give-up = 60
encoder = "net.onnx"
"""


@pytest.fixture
def parsed(tmp_path, monkeypatch):
    """Return what a command makes of a file, started in another folder than the file's."""
    (tmp_path / "here").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    def read(command, text, *more):
        (tmp_path / "here" / "c.toml").write_text(text)
        options = parser([command]).parse_args([command, "--config", "../here/c.toml", *more])
        return vars(options)

    return read


def test_a_file_s_options_are_those_that_are_typed(parsed, tmp_path):
    here = f"{tmp_path}/elsewhere/../here"
    typed = ["--server", "fed.org:8443", "--ca", f"{here}/ca.crt", "--key", f"{here}/keys/north"]
    typed += ["--folder", f"{here}/site", "--client", "3", "--name", "north"]
    typed += ["--data", f"{here}/train.csv", "--label-column", "diagnosis", "--share-summary"]
    typed += ["--ignore-column", "notes", "--ignore-column=-x", "--give-up", "60"]
    wanted = vars(parser(["join"]).parse_args(["join", *typed, "--encoder", f"{here}/net.onnx"]))
    assert parsed("join", JOIN) == wanted | {"config": Path("../here/c.toml")}


def test_the_command_line_wins(parsed):
    more = ["--client", "4", "--ignore-column", "mine", "--data=module:function"]
    found = parsed("join", JOIN, *more)
    assert (found["client"], found["ignore_column"]) == (4, ["mine"])
    assert (found["data"], found["name"]) == ("module:function", "north")


def test_a_server_s_lists_and_references(parsed, tmp_path):
    text = 'folder = "f"\nclasses = ["a", "b"]\ncolumn-kind = ["age=number"]\nport = 81\n'
    text += 'validation = "my.module:read"\nencoder = "timm:resnet18"\nmodel = "cnn"\n'
    found = parsed("server", text, "--conf=../here/c.toml")
    assert found["folder"].resolve() == tmp_path / "here" / "f"
    assert (found["classes"], found["column_kind"], found["port"]) == (
        ["a", "b"],
        ["age=number"],
        81,
    )
    assert [found[name] for name in ("validation", "encoder", "model")] == [
        "my.module:read",
        "timm:resnet18",
        "cnn",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('fodler = "f"', "c.toml: there is no option 'fodler'; did you mean 'folder'?"),
        ('config = "d.toml"', "there is no option 'config'"),
        ('share-summary = "yes"', "share-summary is a switch; it must be true or false"),
        ("name = true", "name must be a text or a number"),
        ('name = ["a"]', "name must be a text or a number"),
        ("[site]\nname = 1", "there is no option 'site'"),
        ("ignore-column = [1, {}]", "ignore-column must be a text or a number, or a list of them"),
        ("client = ", "c.toml cannot be read as TOML"),
        ('client = "first"', "argument --client: invalid int value: 'first'"),
        ("client = 1", "arguments are required: --server"),
    ],
)
def test_what_is_wrong_is_one_sentence(parsed, capsys, text, sentence):
    with pytest.raises(SystemExit) as stopped:
        parsed("join", text)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_a_file_that_is_absent(capsys):
    with pytest.raises(SystemExit):
        main(["server", "--config", "nowhere.toml"])
    assert "there is no file nowhere.toml" in capsys.readouterr().err
