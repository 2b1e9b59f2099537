"""Images from folders, tables and structs, against the pixels that were written."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

import fedsift as fs
from encoded import encode, raw_png
from fedsift.data.samples import Pictures
from fedsift.data.sources import gallery, parquet_file
from fedsift.errors import DataError

RAMP = np.arange(65536, dtype=np.uint16).reshape(256, 256)
GREY = np.arange(20, dtype=np.uint8).reshape(4, 5)
COLOUR = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
KEPT = {  # file -> what is written, its encoding
    "grey.png": (GREY, "PNG"),
    "grey.bmp": (GREY, "BMP"),
    "grey.tif": (GREY, "TIFF"),
    "colour.PNG": (COLOUR, "PNG"),
    "colour.tiff": (COLOUR, "TIFF"),
    "deep.png": (RAMP, "PNG"),
    "deep.tif": (RAMP, "TIFF"),
    "big-endian.tif": (RAMP.astype(">u2"), "TIFF"),
    "wide.tif": (RAMP.astype(np.int32), "TIFF"),
    "float.tif": (np.float32([[0.1, -5e9], [np.pi, 0]]), "TIFF"),
}
STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


@pytest.mark.parametrize("name", KEPT)
def test_pixels_keep_the_values_of_the_file(write, name):
    pixels, kind = KEPT[name]
    content = fs.read(write({f"d/cat/{name}": encode(pixels, kind)}) / "d").content
    assert isinstance(content, Pictures)
    found = content.pixels(0)
    np.testing.assert_array_equal(found, pixels)
    assert found.dtype == content.dtype == {"i": "uint16"}.get(pixels.dtype.kind, pixels.dtype.name)
    assert (content.height, content.width) == pixels.shape[:2]
    assert content.channels == (3 if pixels.ndim == 3 else 1)


def test_a_16_bit_ramp_keeps_65536_values(write):
    content = fs.read(write({"d/cat/a.png": encode(RAMP)}) / "d").content
    assert len(np.unique(content.pixels(0))) == 65536


def test_jpeg_is_what_pillow_decodes(write):
    data = encode(np.repeat(GREY, 4, 0), "JPEG")
    folder = write({"d/cat/a.jpg": data})
    expected = np.asarray(Image.open(folder / "d/cat/a.jpg"))
    np.testing.assert_array_equal(fs.read(folder / "d").content.pixels(0), expected)


def test_folders_are_classes_and_files_are_ids(write):
    files = {
        f"d/{name}.png": encode(GREY + n) for n, name in enumerate(["dog/b", "cat/z", "cat/a"])
    }
    others = {"d/cat/Thumbs.db": b"?", "d/dog/.hidden.png": b"?", "d/readme.txt": b"?"}
    samples = fs.read(write({**files, **others}) / "d")
    assert samples.labels == ("cat", "cat", "dog")
    assert samples.ids == ("cat/a.png", "cat/z.png", "dog/b.png")
    assert [samples.content.pixels(i)[0, 0] for i in range(3)] == [2, 1, 0]
    assert samples.content.fields(1) == {"file": "cat/z.png"}
    assert samples.classes is None
    (note,) = samples.notes
    assert note.startswith("3 files")
    assert all(name in note for name in ("readme.txt", "cat/Thumbs.db", "dog/.hidden.png"))


def test_classes_txt_gives_the_order(write):
    files = {"d/classes.txt": "dog\ncat\nowl\n", "d/cat/a.png": encode(GREY)}
    samples = fs.read(write(files) / "d")
    assert (samples.classes, samples.labels, samples.notes) == (("dog", "cat", "owl"), ("cat",), ())


@pytest.mark.parametrize("named", [{}, {"image_column": "scan"}])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_of_paths(write, named, kind):
    folder = write({"scans/1.png": encode(GREY), "scans/2.png": encode(GREY + 1)})
    table = pd.DataFrame({"age": [4, 5], "scan": ["scans/2.png", "scans/1.png"], "label": "ab"})
    table["label"] = ["a", "b"]
    getattr(table, f"to_{kind}")(folder / f"t.{kind}", index=False)
    samples = fs.read(folder / f"t.{kind}", **named)
    np.testing.assert_array_equal(samples.content.pixels(0), GREY + 1)
    assert samples.content.fields(1) == {"age": 5, "scan": "scans/1.png"}
    assert samples.ids == ("scans/2.png", "scans/1.png")
    assert samples.notes == ("columns beside the image are shown but not trained on: age",)


def test_names_of_images_that_are_nowhere_are_categories_and_that_is_said(write):
    samples = fs.read(write({"t.csv": "scan,label\n1.png,a\n2.png,b\n"}) / "t.csv")
    assert samples.content.kind == "table"
    assert "names of images that are not there" in samples.notes[0]


def test_hub_parquet_decodes_only_what_is_asked_for(tmp_path, write_images, monkeypatch):
    images = [encode(GREY + n) for n in range(10)]
    for shard in range(2):
        write_images(tmp_path / f"{shard}.parquet", images[5 * shard :][:5], label=[0, 1, 2, 1, 0])
    samples = fs.read(tmp_path)
    decoded, read = [], gallery.read_pixels
    spy = lambda *a: decoded.append(a[1]) or read(*a)  # noqa: E731
    monkeypatch.setattr(gallery, "read_pixels", spy)
    for row in (7, 0, 9):
        np.testing.assert_array_equal(samples.content.pixels(row), GREY + row)
    assert len(decoded) == 3
    assert samples.labels == tuple("0121001210")


def test_row_groups_beyond_the_limit_are_read_again(tmp_path, write_images, monkeypatch):
    monkeypatch.setattr(parquet_file, "KEPT", 1)
    images = [encode(GREY + n) for n in range(9)]
    path = write_images(tmp_path / "a.parquet", images, label=[0] * 9)
    content = fs.read(path).content
    assert [content.pixels(row)[0, 0] for row in (8, 0, 5, 0, 8)] == [8, 0, 5, 0, 8]


def test_a_saved_dataset_has_its_class_names_and_images(save_to_disk):
    cells = [{"bytes": encode(GREY + n), "path": f"{n}.png"} for n in range(5)]
    table = pa.table(
        {"scan": pa.array(cells, STRUCT), "label": [2, 0, 1, 0, 2], "who": list("abcde")}
    )
    names = '{"_type": "ClassLabel", "names": ["cat", "dog", "owl"]}'
    folder = save_to_disk(table, f'{{"scan": {{"_type": "Image"}}, "label": {names}}}')
    samples = fs.read(folder, id_column="who")
    assert samples.labels == ("owl", "cat", "dog", "cat", "owl")
    assert samples.classes == ("cat", "dog", "owl")
    assert samples.ids == tuple("abcde")
    for row in (4, 1):
        np.testing.assert_array_equal(samples.content.pixels(row), GREY + row)
    assert samples.content.fields(3) == {"file": "3.png"}


@pytest.mark.parametrize("size", [3, (6, 7)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_resizing_on_request_is_pillows_bilinear(write, size, dtype):
    pixels = (np.random.default_rng(0).random((8, 9)) * 200).astype(dtype)
    files = {"d/a/1.tif": encode(pixels, "TIFF"), "d/a/2.tif": encode(pixels[:5], "TIFF")}
    content = fs.read(write(files) / "d", image_size=size).content
    height, width = (size, size) if isinstance(size, int) else size
    whole = Image.fromarray(pixels.astype(np.float32))
    expected = np.asarray(whole.resize((width, height), Image.Resampling.BILINEAR))
    assert content.pixels(1).shape == (content.height, content.width) == (height, width)
    np.testing.assert_allclose(
        content.pixels(0), expected, atol=1e-4 if dtype == np.float32 else 0.5
    )


REFUSED = {
    "palette": (encode(Image.fromarray(GREY).convert("P")), "mode P"),
    "alpha": (encode(Image.new("RGBA", (5, 4))), "mode RGBA"),
    "grey-alpha": (encode(Image.new("LA", (5, 4))), "mode LA"),
    "see-through": (encode(Image.new("RGB", (5, 4)), transparency=(0, 0, 0)), "transparency"),
    "one-bit": (encode(Image.new("1", (5, 4))), "mode 1"),
    "cmyk": (encode(Image.new("CMYK", (5, 4)), "JPEG"), "mode CMYK"),
    "deep-colour": (raw_png(1, 1, 16, 2, b"\0" + b"\1\2" * 3), "16 bits per colour"),
    "bomb": (raw_png(60000, 60000, 8, 0, b""), "more than"),
    "large": (raw_png(9000, 9000, 8, 0, b""), "more than"),
    "text": (b"not an image", "not a readable image"),
    "empty": (b"", "not a readable image"),
    "gif": (encode(GREY, "GIF"), "not a readable image"),
    "header-cut": (encode(GREY)[:20], "not a readable image"),
}
for _kind, _suffix in (("PNG", "animated"), ("TIFF", "pages")):
    _more = {"save_all": True, "append_images": [Image.fromarray(GREY + 1)]}
    REFUSED[_suffix] = (encode(GREY, _kind, **_more), "2 pictures")


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_converted_is_refused_by_name(write, name):
    data, sentence = REFUSED[name]
    folder = write({"d/a/good.png": encode(GREY), f"d/b/{name}.png": data})
    with pytest.raises(DataError, match=rf"{name}\.png.*{sentence}.*; .*--skip-unreadable"):
        fs.read(folder / "d")


def test_on_request_they_are_left_out_and_named(write):
    bad = {f"d/b/{name}.png": data for name, (data, _) in REFUSED.items()}
    cut = encode(np.random.default_rng(0).integers(0, 255, (4, 5), np.uint8))[:-30]
    files = {"d/a/good.png": encode(GREY), "d/c/also.png": encode(GREY + 1), "d/b/cut.png": cut}
    samples = fs.read(write({**files, **bad}) / "d", skip_unreadable=True)
    assert (samples.labels, samples.ids) == (("a", "c"), ("a/good.png", "c/also.png"))
    np.testing.assert_array_equal(samples.content.pixels(1), GREY + 1)
    (note,) = samples.notes
    assert note.startswith(f"{len(REFUSED) + 1} images are left out")
    assert "alpha.png" in note


def test_a_file_that_is_cut_off_is_named_when_decoded(write):
    pixels = np.random.default_rng(0).integers(0, 255, (64, 64), np.uint8)
    content = fs.read(write({"d/a/cut.png": encode(pixels)[:2000]}) / "d").content
    with pytest.raises(DataError, match=r"cut\.png.*cut off"):
        content.pixels(0)


def test_values_beyond_16_bits_are_refused(write):
    hounsfield = np.int32([[-1000, 3000]])
    content = fs.read(write({"d/a/ct.tif": encode(hounsfield, "TIFF")}) / "d").content
    with pytest.raises(DataError, match=r"ct\.tif has values from -1000 to 3000.*float TIFF"):
        content.pixels(0)


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (GREY[:3], r"a/1\.png is 4x5 and .*b/2\.png is 3x5 .*; give --image-size 4x5"),
        (COLOUR, r"a/1\.png is 8-bit grey and .*b/2\.png is 8-bit RGB"),
        (GREY.astype(np.uint16), r"a/1\.png is 8-bit grey and .*b/2\.png is 16-bit grey"),
    ],
)
def test_images_that_differ_are_both_named(write, other, sentence):
    with pytest.raises(DataError, match=sentence):
        fs.read(write({"d/a/1.png": encode(GREY), "d/b/2.png": encode(other)}) / "d")


def test_the_picture_for_people_is_a_png(write):
    drawn = fs.read(write({"d/a/1.png": encode(RAMP)}) / "d").content.picture(0)
    assert drawn.startswith(b"\x89PNG")
