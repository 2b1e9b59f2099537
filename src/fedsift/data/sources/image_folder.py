"""A folder of class folders of images.

    scans/healthy/a.png     label "healthy", id "healthy/a.png"
    scans/ill/b.png         label "ill"
    scans/classes.txt       optional: one class a line, in their order

Files that are no images are left out, counted and named in the notes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedsift.data.samples import Samples
from fedsift.data.sources.gallery import Images, gallery
from fedsift.data.sources.names import first_few
from fedsift.data.sources.options import ReadOptions
from fedsift.data.sources.pixels import SUFFIXES
from fedsift.errors import DataError

CLASSES = "classes.txt"


@dataclass(frozen=True)
class _Listing:
    files: list[Path]
    others: list[str]
    empty: list[str]


def is_image_folder(path: Path) -> bool:
    """Tell a folder that has folders in it."""
    return path.is_dir() and any(_class_folders(path))


def read_image_folder(path: Path, options: ReadOptions) -> Samples:
    """Read the headers of all images; their pixels are decoded when asked for."""
    classes, listing = _classes(path), _listed(path)
    if not listing.files:
        raise DataError(
            f"{path} has folders but no {', '.join(s[1:] for s in SUFFIXES)} file in them; give "
            "the folder whose folders are classes and hold the images"
        )
    names = [str(file.relative_to(path)) for file in listing.files]
    images = Images(
        each=lambda: listing.files,
        at=listing.files.__getitem__,
        name=lambda row: str(listing.files[row]),
        about=lambda row: {"file": names[row]},
    )
    found = gallery(images, str(path), options)
    labels = [listing.files[row].parent.name for row in found.rows]
    if classes and (unknown := next((name for name in labels if name not in classes), None)):
        raise DataError(
            f"{path / unknown} is a class that {path / CLASSES} does not list; add it there or "
            "remove the folder"
        )
    return Samples(
        where=str(path),
        content=found.content,
        labels=tuple(labels),
        ids=tuple(names[row] for row in found.rows),
        classes=classes,
        notes=(*_notes(listing), *found.notes),
    )


def _class_folders(path: Path) -> list[Path]:
    return sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))


def _classes(path: Path) -> tuple[str, ...] | None:
    listing = path / CLASSES
    if not listing.is_file():
        return None
    try:
        lines = listing.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{listing} is not UTF-8 text; save it as UTF-8") from None
    names = tuple(line for line in lines if line.strip())
    if len(set(names)) < len(names) or not names:
        raise DataError(f"{listing} has a class twice or none at all; write each class once a line")
    return names


def _listed(path: Path) -> _Listing:
    files: list[Path] = []
    empty: list[str] = []
    folders = _class_folders(path)
    used = {CLASSES, *(folder.name for folder in folders)}
    others = [p.name for p in sorted(path.iterdir()) if p.name not in used]
    for folder in folders:
        entries = sorted(folder.iterdir())
        images = [p for p in entries if _is_image(p)]
        files += images
        others += [str(p.relative_to(path)) for p in entries if not _is_image(p)]
        empty += [] if images else [folder.name]
    return _Listing(files, others, empty)


def _is_image(path: Path) -> bool:
    hidden = path.name.startswith(".")
    return path.suffix.lower() in SUFFIXES and not hidden and not path.is_dir()


def _notes(listing: _Listing) -> list[str]:
    notes = []
    if listing.others:
        few = first_few(listing.others)
        notes.append(f"{len(listing.others)} files or folders are left out, no images: {few}")
    if listing.empty:
        notes.append(f"{len(listing.empty)} folders have no image: {first_few(listing.empty)}")
    return notes
