from __future__ import annotations

import re

import numpy as np
import pytest

from fedsift.report import load_run
from fedsift.report.compare import settings
from fedsift.report.figures import charts
from fedsift.report.palette import COLOURS

LABELS = {"index": [0, 1, 2, 3], "label": [3, 4, 5, 6], "weight": [0.1, 0.9, 0.2, 0.7]}
BYTES = {"bytes_up": [2e6, 1e6, 1e6], "bytes_down": [1e6, 1e6, 5e5]}


def drawn(*folders):
    (setting,) = settings([load_run(folder) for folder in folders])
    return {chart.title: chart for chart in charts(setting, "s0")}


def points(svg: str, colour: str) -> np.ndarray:
    """Return the corners of the one line that is drawn in a colour."""
    (path,) = re.findall(rf'<path d="([^"]*)" style="fill: none; stroke: var\(--c{colour}', svg)
    return np.array([pair.split() for pair in re.findall(r"[\d.]+ [\d.]+", path)], dtype=float)


def test_a_line_goes_through_the_known_points_only(make_run):
    folder = make_run("fedavg", 0.2, None, 0.6, 0.5, float("nan"))

    line = points(drawn(folder)["Test accuracy"].svg, "808080")

    rounds, accuracy = np.array([1, 3, 4]), np.array([0.2, 0.6, 0.5])
    for drawing, data in ((line[:, 0], rounds), (-line[:, 1], accuracy)):
        slope, offset = np.polyfit(data, drawing, 1)
        assert slope > 0
        np.testing.assert_allclose(drawing, slope * data + offset, atol=1e-3)


def test_traffic_is_cumulative_and_in_both_directions(make_run):
    folder = make_run("fedavg", 0.1, 0.2, 0.3, rounds=BYTES)

    svg = drawn(folder)["Traffic so far"].svg

    line = -points(svg, "808080")[:, 1]
    np.testing.assert_allclose(np.diff(line) / (line[1] - line[0]), [1, 0.75], atol=1e-3)
    assert "Last values: fedavg 6.5 MB." in svg


def test_only_what_was_recorded_is_drawn(make_run):
    assert drawn(make_run("fedavg", None, None)) == {}


def test_the_oracle_is_dashed_in_the_colour_of_the_text(make_run):
    chart = drawn(make_run("fedavg", 0.5, 0.6), make_run("oracle", 0.8, 0.9))["Test accuracy"]

    dashed = re.findall(
        r"stroke-dasharray: [\d., ]+; stroke-dashoffset: 0; stroke: ([^;]*)", chart.svg
    )
    assert dashed == ["currentColor"]
    assert [(entry.name, bool(entry.dash)) for entry in chart.legend] == [
        ("fedavg", False),
        ("oracle", True),
    ]


def test_a_method_keeps_its_colour_whatever_it_is_drawn_with(make_run):
    columns = {"weights_f1": [0.1, 0.2], "validation_loss": [2, 1], "residual": [1, 0.1]}
    folder = make_run("single-loop", 0.5, 0.6, rounds=columns)
    alone, together = drawn(folder), drawn(folder, make_run("mine", 0.1, 0.2))

    colours = {
        entry.colour
        for chart in (*alone.values(), *together.values())
        for entry in chart.legend
        if entry.name == "single-loop"
    }
    assert colours == {COLOURS["single-loop"]}
    assert together["Test accuracy"].legend[1].colour != COLOURS["single-loop"]


def test_known_methods_have_distinct_colours():
    assert len(set(COLOURS.values())) == len(COLOURS)


@pytest.mark.parametrize(
    ("truth", "legend", "below"),
    [
        (
            {"true_label": [0, 4, 5, 0]},
            ["2 clean labels", "2 wrong labels"],
            "50.0 % of the 2 clean labels, 50.0 % of the 2 wrong labels",
        ),
        ({}, ["4 samples"], "50.0 % of the 4 samples"),
    ],
)
def test_weights_are_split_where_the_truth_is_known(make_run, truth, legend, below):
    chart = drawn(make_run("non-iter", 0.5, weights=[LABELS | truth]))["Weights of non-iter"]

    assert [entry.name for entry in chart.legend] == legend
    assert f"below 0.5: {below}." in chart.svg


def test_weights_that_are_part_of_the_method_are_not_drawn(make_run):
    oracle = make_run("oracle", 0.5, weights=[LABELS])
    constant = make_run("focus", 0.5, weights=[LABELS | {"weight": [1.0] * 4}])

    assert set(drawn(oracle, constant)) == {"Test accuracy"}


def test_names_are_escaped_in_the_drawing(make_run):
    svg = drawn(make_run("<b>$x$</b>", 0.5, 0.6, name="run"))["Test accuracy"].svg

    assert "&lt;b&gt;$x$&lt;/b&gt; 60 %" in svg
    assert "<b>" not in svg


def test_residuals_of_zero_are_left_out_of_the_log_scale(make_run):
    columns = {"residual": [1.0, 0.0, 0.01]}
    svg = drawn(make_run("non-iter", 0.1, 0.2, 0.3, rounds=columns))

    assert len(points(svg["Residual of the hypergradient solver"].svg, "cc79a7")) == 2
