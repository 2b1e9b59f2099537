"""Figures and tables of the paper from files of results."""

import json

import numpy as np
import pytest

from fedsift.algorithms.registry import METHODS as KNOWN
from fedsift.errors import InputError
from fedsift.report.paper_figures import MARKERS, draw, select, write_figure
from fedsift.report.paper_results import load_curves, markdown, table


@pytest.fixture
def add(tmp_path):
    def write(
        method, accuracy, f1=None, *, dataset="mnist", split="iid", rate=20.0, seed=0, **more
    ):
        config = {"dataset": dataset, "split": split, "method": method, "rate": rate, "seed": seed}
        rounds = [5 * (k + 1) for k in range(len(accuracy))]
        f1 = f1 or [None] * len(accuracy)
        result = {
            "seed": seed,
            "rounds": rounds[-1],
            "test_accuracy": accuracy[-1],
            "weights_f1": f1[-1],
            "bytes_up": 2_000_000,
            "bytes_down": 5_500_000,
            "exchanges": 3,
            "config": config | more,
            "series": {"round": rounds, "test_accuracy": accuracy, "weights_f1": f1},
        }
        name = f"{dataset}-{split}-{method}-{rate}-{seed}.json"
        (tmp_path / name).write_text(json.dumps(result))
        return tmp_path

    return write


def panels(figure):
    return {axes.get_title(): axes for axes in figure.axes}


def test_figure_1_has_a_row_per_dataset_and_a_column_per_split(add, tmp_path):
    for dataset in ("femnist", "mnist", "cifar10"):
        for split in ("iid", "non-iid"):
            add("fedavg", [0.2, 0.3], dataset=dataset, split=split)
    shown = panels(draw("fig1", select("fig1", tmp_path)))
    names = [
        f"{d}, {s}" for d in ("MNIST", "CIFAR-10", "FEMNIST") for s in ("i.i.d.", "non-i.i.d.")
    ]
    assert list(shown) == names


def test_a_panel_without_runs_says_so(add, tmp_path):
    add("fedavg", [0.2, 0.3], dataset="mnist", split="iid")
    add("fedavg", [0.2, 0.3], dataset="femnist", split="non-iid")
    shown = panels(draw("fig1", select("fig1", tmp_path)))
    said = {name: [text.get_text() for text in axes.texts] for name, axes in shown.items()}
    assert said["MNIST, non-i.i.d."] == said["FEMNIST, i.i.d."] == ["no runs"]
    assert said["MNIST, i.i.d."] == said["FEMNIST, non-i.i.d."] == []


def test_a_line_is_the_mean_and_its_band_the_range_over_the_seeds(add, tmp_path):
    add("fedavg", [0.2, 0.4])
    add("fedavg", [0.3, 0.8], seed=1)
    (axes,) = draw("fig1", select("fig1", tmp_path)).axes
    (line,) = axes.get_lines()
    np.testing.assert_allclose(line.get_xydata(), [[5, 25], [10, 60]])
    (band,) = axes.collections
    corners = {tuple(np.round(point, 6)) for point in band.get_paths()[0].vertices}
    assert corners == {(5, 20), (5, 30), (10, 40), (10, 80)}


def test_accuracy_is_shown_from_where_the_methods_are_after_a_quarter_of_the_rounds(add, tmp_path):
    add("fedavg", [0.1, 0.5, 0.9, 0.8])
    add("oracle", [0.3, 0.8, 0.9, 0.95])
    (axes,) = draw("fig1", select("fig1", tmp_path)).axes
    assert axes.get_ylim()[0] == pytest.approx(10 - 2)
    add("fedavg", [0.1, 0.5, 0.9, 0.8, 0.8])
    (axes,) = draw("fig1", select("fig1", tmp_path)).axes
    assert axes.get_ylim()[0] == pytest.approx(30 - 2)
    assert axes.get_ylim()[1] > 95


def test_disagreement_is_in_the_table_but_hides_no_line(add, tmp_path):
    add("disagreement", [0.2, 0.3], [0.5, 0.6])
    (axes,) = draw("fig1", select("fig1", tmp_path)).axes
    assert [line.get_label() for line in axes.get_lines()] == ["disagreement"]
    add("fedavg", [0.2, 0.3])
    curves = select("fig1", tmp_path)
    assert [row[2] for row in table(curves)[1]] == ["`fedavg`", "`disagreement`"]
    (axes,) = draw("fig1", curves).axes
    assert [line.get_label() for line in axes.get_lines()] == ["fedavg"]


def test_figure_2_has_a_row_per_method_and_a_line_per_rate(add, tmp_path):
    for method in ("non-iter", "iter-topk"):
        for rate in (1000.0, 1.0, 10.0):
            add(method, [0.2, 0.4], [0.1, 0.1 + rate / 2000], rate=rate)
    add("iter-topk", [0.9, 0.9], [0.9, 0.9])  # rate 20: Figure 1's
    shown = panels(draw("fig2", select("fig2", tmp_path)))
    assert list(shown) == ["MNIST, iter-topk, i.i.d.", "MNIST, non-iter, i.i.d."]
    for axes in shown.values():
        assert [line.get_label() for line in axes.get_lines()] == ["1×", "10×", "1000×"]
        ends = [line.get_ydata()[1] for line in axes.get_lines()]
        np.testing.assert_allclose(ends, [0.1005, 0.105, 0.6])


def test_files_are_png_svg_and_a_table(add, tmp_path):
    add("oracle", [0.2, 0.4])
    add("iter-sketch", [0.2, 0.4], [0.5, 0.7])
    png, svg, text = write_figure("fig1", tmp_path, tmp_path / "out")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "MNIST, i.i.d." in svg.read_text()
    assert "Test accuracy (%)" in svg.read_text()
    assert "| mnist | iid | `iter-sketch` | 20 | 0 | 10 | 0.400 | 0.700 | – | 2.0 | 5.5 | 3 |" in (
        text.read_text()
    )
    before = svg.read_bytes()
    write_figure("fig1", tmp_path, tmp_path / "out")
    assert svg.read_bytes() == before


def test_digits_are_used_where_there_is_nothing_else(add, tmp_path):
    add("fedavg", [0.1], dataset="digits")
    assert [c.dataset for c in select("fig1", tmp_path)] == ["digits"]
    add("fedavg", [0.1])
    assert [c.dataset for c in select("fig1", tmp_path)] == ["mnist"]
    with pytest.raises(InputError, match="no results for fig3"):
        select("fig3", tmp_path)


def test_table_has_the_mean_and_the_range(add, tmp_path):
    add("fedavg", [0.2, 0.4])
    add("fedavg", [0.2, 0.5], seed=1)
    titles, ((*_, seeds, rounds, accuracy, f1, residual, up, down, exchanges),) = table(
        load_curves(tmp_path)
    )
    assert (seeds, rounds, accuracy) == ("0, 1", "10", "0.450 (0.400 to 0.500)")
    assert (f1, residual, up, down, exchanges) == ("–", "–", "2.0", "5.5", "3")
    assert markdown(titles, [["x"] * len(titles)]).count("\n") == 3


def test_runs_of_two_configurations_have_no_mean(add, tmp_path):
    add("fedavg", [0.2], inner_lr=0.01)
    add("fedavg", [0.2], seed=1)
    with pytest.raises(InputError, match="mnist-iid-fedavg that differ in inner_lr"):
        load_curves(tmp_path)


def test_other_files_are_passed_over_and_broken_ones_named(tmp_path):
    (tmp_path / "theory.json").write_text("{}")
    assert load_curves(tmp_path) == []
    (tmp_path / "cut.json").write_text('{"series"')
    with pytest.raises(InputError, match=r"cut\.json is not valid JSON"):
        load_curves(tmp_path)


def test_every_method_has_a_marker_of_its_own():
    trained = {name for name, row in KNOWN.items() if row.choose is None}
    assert MARKERS.keys() == trained
    assert len(set(MARKERS.values())) == len(MARKERS)
