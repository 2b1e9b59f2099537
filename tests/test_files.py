"""A file is the old one or the new one, never a part."""

import errno
import os
import resource
import signal
import stat
import subprocess
import sys

import pytest

from fedsift.errors import FedsiftError, InputError, RunError
from fedsift.files import check_seal, hold, seal, sweep, write_atomically, write_text


def test_text_is_written_into_a_new_folder(tmp_path):
    write_text(tmp_path / "a" / "b.txt", "ω ≈ 1\n")
    assert (tmp_path / "a" / "b.txt").read_bytes() == "ω ≈ 1\n".encode()


def test_file_is_replaced_and_readable_by_all(tmp_path):
    tmp_path.chmod(0o755)
    path = tmp_path / "file"
    for text in ("a longer text", "short"):
        write_text(path, text)
    assert path.read_text() == "short"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_target_is_whole_while_it_is_being_written(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    seen = []

    def write(temporary):
        temporary.write_text("ne")
        seen.append(path.read_text())
        temporary.write_text("new")

    write_atomically(path, write)
    assert (seen, path.read_text()) == (["old"], "new")


@pytest.mark.parametrize(
    ("error", "raised"), [(OSError, RunError), (KeyboardInterrupt, KeyboardInterrupt)]
)
@pytest.mark.parametrize("old", ["old", None])
def test_failed_writer_leaves_the_old_file_and_nothing_else(tmp_path, old, error, raised):
    path = tmp_path / "file"
    if old is not None:
        path.write_text(old)

    def write(temporary):
        temporary.write_text("half of the n")
        raise error

    with pytest.raises(raised):
        write_atomically(path, write)
    assert [p.read_text() for p in tmp_path.iterdir()] == ([] if old is None else [old])


def test_failed_rename_leaves_nothing_else(tmp_path):
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(FedsiftError, match="folder"):
        write_text(tmp_path / "folder", "text")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_in_a_private_folder_files_are_private(tmp_path):
    tmp_path.chmod(0o700)
    write_text(tmp_path / "file", "text")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


@pytest.mark.fault(
    "the disk full or read-only",
    "one sentence; the old file is whole, nothing is left beside it",
)
@pytest.mark.parametrize(
    ("number", "kind", "sentence"),
    [
        (errno.ENOSPC, RunError, r"file cannot be written \(No space left on device\); make room"),
        (
            errno.EROFS,
            InputError,
            r"file cannot be written \(Read-only file system\); choose another",
        ),
    ],
)
def test_a_full_disk_and_a_read_only_one_are_sentences(tmp_path, number, kind, sentence):
    def write(temporary):
        raise OSError(number, os.strerror(number))

    with pytest.raises(kind, match=sentence):
        write_atomically(tmp_path / "file", write)
    assert list(tmp_path.iterdir()) == []


def test_a_real_limit_of_the_system_is_a_sentence(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with pytest.raises(RunError, match="File too large"):
            write_text(tmp_path / "file", "x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.fault(
    "a process killed (-9) in the middle of a write",
    "its temporary file is removed when the folder is used again",
)
def test_what_a_killed_process_left_is_swept_and_nothing_else(tmp_path):
    code = (
        "import os, signal, sys, pathlib; from fedsift.files import write_atomically;"
        "write_atomically(pathlib.Path(sys.argv[1]) / 'a' / 'file',"
        "lambda path: os.kill(os.getpid(), signal.SIGKILL))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    (left,) = (tmp_path / "a").iterdir()
    mine = tmp_path / f".file.{os.getpid()}.x.part"
    for path in (mine, tmp_path / ".hidden.part", tmp_path / "kept.part"):
        path.write_text("")
    sweep(tmp_path)
    assert not left.exists()
    assert {p.name for p in tmp_path.iterdir()} == {"a", mine.name, ".hidden.part", "kept.part"}


@pytest.mark.fault(
    "two processes in one folder",
    "the second is refused, with the first one's number",
)
def test_a_folder_in_use_is_refused_with_a_sentence(tmp_path):
    with (
        hold(tmp_path / "lock"),
        pytest.raises(InputError, match=f"in use by process {os.getpid()}"),
        hold(tmp_path / "lock"),
    ):
        pass
    with hold(tmp_path / "lock"):
        pass


def test_the_hashes_are_those_of_sha256sum(tmp_path):
    write_text(tmp_path / "a" / "x", "1")
    write_text(tmp_path / "y", "2")
    seal(tmp_path, ["y", "a/x"])
    check_seal(tmp_path)
    done = subprocess.run(["sha256sum", "-c", "files.sha256"], cwd=tmp_path, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("damage", ["change", "remove", "list"])
def test_a_file_that_is_not_what_was_written_is_named(tmp_path, damage):
    write_text(tmp_path / "y", "2")
    seal(tmp_path, ["y"])
    if damage == "change":
        (tmp_path / "y").write_text("3")
    elif damage == "remove":
        (tmp_path / "y").unlink()
    else:
        (tmp_path / "files.sha256").write_text("nothing\n")
    with pytest.raises(InputError, match="is damaged" if damage == "list" else "y is missing or"):
        check_seal(tmp_path)


def test_a_folder_without_hashes_is_taken_as_it_is(tmp_path):
    check_seal(tmp_path)
