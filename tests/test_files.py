"""A file is the old one or the new one, never a part."""

import stat

import pytest

from fedsift.files import write_atomically, write_text


def test_text_is_written_into_a_new_folder(tmp_path):
    write_text(tmp_path / "a" / "b.txt", "ω ≈ 1\n")
    assert (tmp_path / "a" / "b.txt").read_bytes() == "ω ≈ 1\n".encode()


def test_file_is_replaced_and_readable_by_all(tmp_path):
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


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("old", ["old", None])
def test_failed_writer_leaves_the_old_file_and_nothing_else(tmp_path, old, error):
    path = tmp_path / "file"
    if old is not None:
        path.write_text(old)

    def write(temporary):
        temporary.write_text("half of the n")
        raise error

    with pytest.raises(error):
        write_atomically(path, write)
    assert [p.read_text() for p in tmp_path.iterdir()] == ([] if old is None else [old])


def test_failed_rename_leaves_nothing_else(tmp_path):
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        write_text(tmp_path / "folder", "text")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]
