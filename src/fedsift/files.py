"""Files that are complete or absent: written beside the target, then renamed to it.

A temporary file is named after its process, so that ``sweep`` can remove what a killed one left.
Where only the owner can open the folder, the file is the owner's alone too. ``hold`` keeps a second
process from writing where one already does. ``seal`` writes a list of hashes, ``check_seal``
compares.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from fedsift.errors import ConfigError, InputError, InUse, RunError

if sys.platform != "win32":
    import fcntl


PART, SEAL = ".part", "files.sha256"
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, None}


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file in the same folder, then put it in place."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{path.name}.{os.getpid()}."
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=PART)
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.chmod(0o644 if path.parent.stat().st_mode & 0o077 else 0o600)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from None


def cannot_write(path: Path, error: OSError) -> InputError | RunError:
    """Return the sentence on a file that the system did not write."""
    reason = error.strerror or " ".join(str(error).split())
    if error.errno not in FULL:
        return InputError(f"{path} cannot be written ({reason}); choose another place")
    return RunError(
        f"{path} cannot be written ({reason}); make room on that disk, then go on where it stopped"
    )


def sweep(folder: Path) -> None:
    """Remove temporary files of processes that have ended."""
    for path in folder.rglob(f".*{PART}"):
        owner = path.name.removesuffix(PART).rpartition(".")[0].rpartition(".")[2]
        if owner.isdigit() and not _runs(int(owner)):
            path.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def seal(folder: Path, names: Iterable[str]) -> None:
    """Write the hashes of a folder's files, as `sha256sum` would."""
    lines = (f"{_hash(folder / name)}  {name}\n" for name in sorted(names))
    write_text(folder / SEAL, "".join(lines))


def check_seal(folder: Path) -> None:
    """Refuse a folder of whose files one is missing or is not what was written."""
    path = folder / SEAL
    if not path.exists():
        return
    try:
        rows = [line.split("  ", 1) for line in path.read_text(encoding="utf-8").splitlines()]
        wanted = {name: digest for digest, name in rows}
    except ValueError:
        raise InputError(f"{path} is damaged; make the run again, or remove that file") from None
    for name, digest in wanted.items():
        if not (folder / name).is_file() or _hash(folder / name) != digest:
            raise InputError(
                f"{folder / name} is missing or is not what the run wrote; restore it, or remove "
                f"its line from {path} if you changed it yourself"
            )


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomically(path, lambda temporary: _write(temporary, text))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def absolute(path: str) -> str:
    """Return a path that is right from any folder; ``module:function`` stays."""
    return str(Path(path).absolute()) if path and Path(path).exists() else path


@contextmanager
def hold(path: Path, advice: str = "choose another folder") -> Iterator[None]:
    """Hold a lock file until the block ends, or the process does; refuse if another has it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _locked(path)
    except OSError as error:
        raise InputError(f"cannot write to {path.parent} ({error.strerror}); {advice}") from None
    if file is None:
        owner = path.read_text(encoding="utf-8")
        raise InUse(
            f"{path.parent} is in use by process {owner or 'unknown'}; wait until it has ended, or "
            f"{advice}"
        )
    with _owned(path, file):
        yield


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Hold a lock file as ``hold`` does, but yield False where another process has it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _locked(path)
    except OSError as error:
        raise cannot_write(path, error) from None
    if file is None:
        yield False
        return
    with _owned(path, file):
        yield True


def owner(path: Path) -> int | None:
    """Return the process that holds a lock file; None where nobody does."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read()
            if sys.platform != "win32":
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
    except FileNotFoundError:
        return None
    except BlockingIOError:
        pass
    return int(text) if text.isdigit() else None


@contextmanager
def _owned(path: Path, file: IO[str]) -> Iterator[None]:
    """Write into a lock file that this process holds who it is, and let it go in the end."""
    with file:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # while it is held: whoever waits looks again


def _locked(path: Path) -> IO[str] | None:
    """Return the locked file; None if another process has it."""
    while True:
        file = path.open("a+", encoding="utf-8")
        if sys.platform == "win32":
            return file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        try:
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                return file
        except FileNotFoundError:  # its last owner has removed it in between
            pass
        file.close()


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}; give the path of a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path} cannot be read as TOML ({error}); give a TOML file") from None
