"""The options of reading: to ``ReadOptions``, and back to what is typed."""

import argparse

import pytest

from fedsift.cli.reading import add_reading, arguments, reading
from fedsift.data.sources import ReadOptions

CASES = [
    ([], ReadOptions()),
    (["--label-column", "y", "--id-column", "who"], ReadOptions("y", "who")),
    (["--ignore-column", "a", "--ignore-column=-b"], ReadOptions(ignore_columns=("a", "-b"))),
    (
        ["--image-column", "scan", "--image-size", "8"],
        ReadOptions(image_column="scan", image_size=(8, 8)),
    ),
    (
        ["--image-size", "4x6", "--skip-unreadable"],
        ReadOptions(image_size=(4, 6), skip_unreadable=True),
    ),
]


def _parse(typed):
    parser = argparse.ArgumentParser()
    add_reading(parser)
    return parser.parse_args(typed)


@pytest.mark.parametrize(("typed", "options"), CASES)
def test_options_are_read(typed, options):
    assert reading(_parse(typed)) == options


@pytest.mark.parametrize(("typed", "options"), CASES)
def test_a_process_that_is_started_with_them_reads_the_same(typed, options):
    assert reading(_parse(arguments(_parse(typed)))) == options
