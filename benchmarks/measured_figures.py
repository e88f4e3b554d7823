"""Figures of the study of measured training: predictions against measurements, regrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from milp_plan.draw.canvas import LINES, new_figure
from milp_plan.draw.style import drawing_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKS = "o^sDvP*X"


def _plain(number: float, _place: float) -> str:
    return f"{number:g}"


def predicted_measured(sets: Mapping[str, Sequence[Sequence[float]]]) -> Figure:
    """Draw predicted against measured seconds of a step, both logarithmic.

    Parameters
    ----------
    sets
        Name of a set -> pairs of measured and predicted seconds.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    figure = new_figure(6.4, 5.4)
    with drawing_style():
        axes = figure.subplots()
        numbers = [number for points in sets.values() for pair in points for number in pair]
        ends = (min(numbers, default=0.1) / 1.5, max(numbers, default=10.0) * 1.5)
        axes.plot(ends, ends, color="#000000", linewidth=0.8)
        for share in (0.8, 1.25):
            axes.plot(ends, [share * end for end in ends], "--", color="#888888", linewidth=0.7)
        order = sorted(sets, key=lambda name: -len(sets[name]))
        for index, name in enumerate(order):
            measured, predicted = zip(*sets[name], strict=True)
            axes.plot(
                measured,
                predicted,
                _MARKS[index % len(_MARKS)],
                color=LINES[index % len(LINES)],
                markersize=3 if len(measured) > 100 else 5,
                alpha=0.45 if len(measured) > 100 else 0.85,
                markeredgewidth=0,
                label=f"{name} ({len(measured)})",
            )
        axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(_plain)
        axes.set_xlabel("measured step, s")
        axes.set_ylabel("predicted step, s")
        axes.set_title("Predicted against measured (dashed: a fifth off)")
        axes.legend(fontsize=7, loc="upper left", frameon=False)
    return figure


def regrets(sets: Mapping[str, Mapping[str, float]]) -> Figure:
    """Draw the mean regret of every chooser on every set.

    Parameters
    ----------
    sets
        Name of a set -> chooser -> regret as a share of the best measured step.

    Raises
    ------
    BackendUnavailableError
        matplotlib is not installed.
    """
    choosers = list(dict.fromkeys(name for bars in sets.values() for name in bars))
    figure = new_figure(1.2 + 2.2 * max(1, len(sets)), 3.8)
    with drawing_style():
        axes = figure.subplots()
        width = 0.8 / max(1, len(choosers))
        for index, chooser in enumerate(choosers):
            here = [(at, bars[chooser]) for at, bars in enumerate(sets.values()) if chooser in bars]
            places = [at + (index - (len(choosers) - 1) / 2) * width for at, _ in here]
            heights = [max(100 * value, 0.01) for _, value in here]
            bars_drawn = axes.bar(
                places, heights, width, color=LINES[index % len(LINES)], label=chooser
            )
            axes.bar_label(bars_drawn, [f"{100 * value:.1f}" for _, value in here], fontsize=6)
        axes.set_yscale("symlog", linthresh=1.0)
        axes.set_ylim(0, 3 * max(max(bars.values()) for bars in sets.values()) * 100)
        axes.yaxis.set_major_formatter(_plain)
        axes.set_xticks(range(len(sets)), list(sets))
        axes.set_ylabel("mean regret, %")
        axes.set_title("How much slower the choice is than the best measured run")
        axes.legend(fontsize=7, ncols=2, frameon=False)
    return figure
