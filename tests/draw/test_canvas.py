import sys

import pytest

from milp_plan.core import BackendUnavailableError, Units
from milp_plan.draw import timeline, write_figure
from milp_plan.draw.canvas import (
    COLOURS,
    axis_label,
    colours,
    figure_legend,
    new_figure,
    size_scale,
    time_scale,
)
from milp_plan.draw.style import drawing_style
from tests.report.plans import plan_of_two_devices, two_devices


@pytest.mark.parametrize(
    ("ticks", "text"),
    [
        (999, "999 ns"),
        (1_500, "1.5 µs"),
        (2_345_678, "2.35 ms"),
        (3_000_000_000, "3 s"),
        (2 * 10**12, "2,000 s"),
    ],
)
def test_time_scale(ticks, text):
    assert time_scale(Units(), ticks).text(ticks) == text


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (80 * 2**30, "80 GiB"), (2**41, "2 TiB")],
)
def test_size_scale(num_bytes, text):
    assert size_scale(Units(), num_bytes).text(num_bytes) == text


def test_scales_without_units():
    units = Units("unspecified", "unspecified", 100)
    assert time_scale(units, 10**9).text(150) == "1.5"
    assert size_scale(units, 10**9).text(150) == "150"
    assert axis_label("time", time_scale(units, 1)) == "time (unit unspecified)"


def test_colours_differ_and_stay_with_their_kind():
    kinds = [*COLOURS, "recompute", "spill"]
    found = colours(kinds)
    assert len(set(found.values())) == len(kinds)
    assert list(found)[: len(COLOURS)] == list(COLOURS)
    assert colours(["update"]) == {"update": COLOURS["update"]}


@pytest.mark.parametrize("suffix", [".png", ".svg", ".PNG"])
def test_files_are_complete_and_repeatable(tmp_path, suffix):
    first, second = (
        write_figure(
            timeline(two_devices(), plan_of_two_devices()), tmp_path / "new" / f"{name}{suffix}"
        )
        for name in ("a", "b")
    )
    content = first.read_bytes()
    assert content == second.read_bytes()
    assert content.startswith(b"\x89PNG" if suffix != ".svg" else b"<?xml")
    assert sorted(path.name for path in first.parent.iterdir()) == [f"a{suffix}", f"b{suffix}"]


def test_other_suffixes_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"suffix '.gif', expected .png or .svg"):
        write_figure(new_figure(1, 1), tmp_path / "a.gif")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    target = tmp_path / "a.png"
    target.write_bytes(b"old")
    figure = new_figure(1, 1)

    def fail(path, **_):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        write_figure(figure, target)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "milp_plan.draw.picture", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(BackendUnavailableError, match=r"pip install 'milp_plan\[plot\]'"):
        new_figure(1, 1)


@pytest.mark.parametrize("letters", [1, 12, 40])
@pytest.mark.parametrize("count", [1, 9])
def test_a_legend_is_no_wider_than_its_figure(letters, count):
    """One of nine long names was cut at both edges of the picture."""
    from matplotlib.patches import Patch

    figure = new_figure(6.0, 2.0)
    with drawing_style():
        figure.subplots()
        names = [f"{'w' * letters}{number}" for number in range(count)]
        figure_legend(figure, [Patch(label=name) for name in names], "outside lower right")
        figure.draw_without_rendering()
        (legend,) = figure.legends
        box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width
    if letters == 1:
        assert legend._ncols == count
