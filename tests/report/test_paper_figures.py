"""Figures and tables of the paper from files of results."""

import json

import numpy as np
import pytest

from fedsift.algorithms.registry import METHODS as KNOWN
from fedsift.errors import InputError
from fedsift.report.paper_figures import MARKERS, draw, select, write_figure
from fedsift.report.paper_results import load_curves, markdown, pivot, table

KINDS = ("png", "svg", "md")


@pytest.fixture
def add(tmp_path):
    def write(
        method, accuracy, f1=None, *, dataset="mnist", split="iid", rate=20.0, seed=0, **more
    ):
        terms = more.pop("terms", "as-paper")
        preset = more.pop("preset", "")
        losses = more.pop("losses", None)
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
            "terms": terms,
            "preset": preset,
            "config": config | more,
            "series": {"round": rounds, "test_accuracy": accuracy, "weights_f1": f1},
        }
        if losses:
            result["series"]["validation_loss"] = losses
        name = f"{dataset}-{split}-{method}-{rate}-{terms}-{preset}-{more}-{seed}.json"
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
        f"{d}, {s}" for d in ("MNIST", "FEMNIST", "CIFAR-10") for s in ("i.i.d.", "non-i.i.d.")
    ]
    assert list(shown) == names


def test_a_panel_without_runs_says_so(add, tmp_path):
    add("fedavg", [0.2, 0.3], dataset="mnist", split="iid")
    add("fedavg", [0.2, 0.3], dataset="femnist", split="non-iid")
    shown = panels(draw("fig1", select("fig1", tmp_path)))
    said = {name: [text.get_text() for text in axes.texts] for name, axes in shown.items()}
    assert said["MNIST, non-i.i.d."] == said["FEMNIST, i.i.d."] == ["not run yet"]
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


def test_disagreement_shares_the_line_of_fedavg(add, tmp_path):
    add("disagreement", [0.2, 0.3], [0.5, 0.6])
    (axes,) = draw("fig1", select("fig1", tmp_path)).axes
    assert [line.get_label() for line in axes.get_lines()] == ["disagreement"]
    add("fedavg", [0.2, 0.3])
    curves = select("fig1", tmp_path)
    assert [row[3] for row in table(curves)[1]] == ["`fedavg`", "`disagreement`"]
    (axes,) = draw("fig1", curves).axes
    assert [line.get_label() for line in axes.get_lines()] == ["fedavg, disagreement"]


def test_a_figure_is_of_one_of_the_terms(add, tmp_path):
    add("fedavg", [0.2, 0.3])
    add("fedavg", [0.4, 0.5], terms="head-start")
    add("clean-only", [0.1, 0.1], terms=None)
    for terms, end in (("as-paper", 30), ("head-start", 50)):
        (axes,) = draw("fig1", select("fig1", tmp_path, terms)).axes
        ends = {line.get_label(): line.get_ydata()[1] for line in axes.get_lines()}
        assert ends == pytest.approx({"fedavg": end, "clean-only": 10})
    paths = write_figure("fig1", tmp_path, tmp_path / "out", "head-start")
    assert [path.name for path in paths] == [f"fig1-head-start.{kind}" for kind in KINDS]


def test_controls_alone_make_no_figure(add, tmp_path):
    add("clean-only", [0.1, 0.1], [0.2, 0.3], terms=None)
    assert select("fig1", tmp_path) == select("fig2", tmp_path) == []


def test_controls_are_grey_lines_in_every_panel_of_rates(add, tmp_path):
    for split in ("iid", "non-iid"):
        add("iter-topk", [0.2, 0.4], [0.1, 0.2], rate=10.0, split=split)
    add("no-hessian", [0.2, 0.4, 0.5], [0.3, 0.4, 0.5])
    shown = panels(draw("fig2", select("fig2", tmp_path)))
    names = {
        title: [line.get_label() for line in axes.get_lines()] for title, axes in shown.items()
    }
    assert names == {
        "MNIST, iter-topk, i.i.d.": ["10×", "no-hessian"],
        "MNIST, iter-topk, non-i.i.d.": ["10×"],
    }
    assert list(shown["MNIST, iter-topk, i.i.d."].get_lines()[1].get_ydata()) == [0.3, 0.4]


def test_iterations_and_presets_are_lines_of_their_own(add, tmp_path):
    add("iter-topk", [0.2, 0.4])
    add("iter-topk", [0.3, 0.5], iterations=5)
    add("iter-topk", [0.1, 0.2], iterations=5, preset="paper-literal")
    labels = ["iter-topk", "iter-topk, I = 5", "iter-topk, paper-literal"]
    assert [curve.label for curve in load_curves(tmp_path)] == labels


def test_a_run_would_stop_at_its_lowest_validation_loss(add, tmp_path):
    add("fedavg", [0.2, 0.6, 0.4], losses=[3.0, 1.0, 2.0])
    add("fedavg", [0.2, 0.6, 0.5], losses=[3.0, 1.0, 0.5], seed=1)
    (curve,) = load_curves(tmp_path)
    assert curve.stopped() == [(10, 0.6), (15, 0.5)]
    titles, (row,) = table([curve])
    shown = dict(zip(titles, row, strict=True))
    assert shown["accuracy"] == "0.450 (0.400 to 0.500)"
    assert shown["stopped at"] == "12 (10 to 15)"
    assert shown["accuracy if stopped"] == "0.550 (0.500 to 0.600)"


def test_a_pivot_has_a_row_per_method_and_says_what_was_not_run(add, tmp_path):
    add("fedavg", [0.2, 0.3])
    add("fedavg", [0.2, 0.4], terms="head-start")
    add("clean-only", [0.1, 0.1], terms=None)
    add("oracle", [0.2, 0.5], terms="head-start")
    add("oracle", [0.2, 0.6], dataset="femnist", split="non-iid")
    titles, rows = pivot(load_curves(tmp_path), lambda curve: f"{curve.values('test_accuracy')[0]}")
    assert titles == ["method", "MNIST, i.i.d.", "FEMNIST, non-i.i.d."]
    assert sorted(rows) == [
        ["`clean-only`", "0.1", "–"],
        ["`fedavg`", "0.3", "–"],
        ["`fedavg`, head start", "0.4", "–"],
        ["`oracle`", "–", "0.6"],
        ["`oracle`, head start", "0.5", "–"],
    ]


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
    row = "| mnist | iid | as-paper | `iter-sketch` | 20 | 0 | 10 | 0.400 | – | – | 0.700 | – "
    assert f"{row}| 2.0 | 5.5 | 3 |" in text.read_text()
    before = svg.read_bytes()
    write_figure("fig1", tmp_path, tmp_path / "out")
    assert svg.read_bytes() == before


def test_digits_are_used_where_there_is_nothing_else(add, tmp_path):
    add("fedavg", [0.1], dataset="digits")
    assert [c.dataset for c in select("fig1", tmp_path)] == ["digits"]
    add("fedavg", [0.1])
    assert [c.dataset for c in select("fig1", tmp_path)] == ["mnist"]
    assert select("fig3", tmp_path) == []


def test_table_has_the_mean_and_the_range(add, tmp_path):
    add("fedavg", [0.2, 0.4])
    add("fedavg", [0.2, 0.5], seed=1)
    titles, ((*_, seeds, rounds, accuracy, _at, _then, f1, residual, up, down, exchanges),) = table(
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
