"""The picture of an answer: timeline of a step, memory of each stage, alternatives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from milp_plan.core import Units
from milp_plan.draw.canvas import (
    COLOURS,
    FULL,
    MEMORY,
    Scale,
    axis_label,
    figure_legend,
    new_figure,
    size_scale,
    time_scale,
)
from milp_plan.draw.panels import Axis, Panel, row_box
from milp_plan.draw.style import drawing_style
from milp_plan.kinds.pipeline.timing import times

from .configuration import Configuration
from .costing import PlanCosts
from .replay import ChunkCost, shop_and_words
from .step import Priced
from .texts import degrees_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .report import TrainingAnswer

_GB = 10**9
_MOST_PASSES = 64
"""Passes of a stage that are drawn in one piece; of more, the first and the last half."""
_MOST_STAGES = 64
_THIN = 24
"""Passes of a stage from which on bars have no edge."""
_NAMES = {
    "forward": "forward",
    "backward-input": "backward, inputs",
    "backward-weight": "backward, weights",
    "backward": "backward",
    "update": "gradients and optimizer",
}
_PARTS = {
    "weights": "#332288",
    "gradients": "#88CCEE",
    "optimizer": "#AA4499",
    "buffers": "#777777",
    "activations": "#DDCC77",
}

MOST_BOXES = 4000
"""Passes of a panel."""

Bar = tuple[int, str, int, int, int]
"""Stage, role, start, duration, chunk of the stage."""


def picture(answer: TrainingAnswer) -> Figure:
    """Return a figure: timeline of a step, memory by stage, and alternatives if they are known.

    Raises
    ------
    ValueError
        No configuration was found.
    BackendUnavailableError
        matplotlib is not installed.
    """
    if answer.best is None:
        raise ValueError("no configuration was found, so there is nothing to draw")
    c = answer.best.configuration
    stages = min(c.pipeline, _MOST_STAGES)
    figure = new_figure(14.0, 3.6 + 0.14 * stages)
    with drawing_style():
        costs = PlanCosts(answer.problem)
        priced = costs.priced(c)
        bars = [bar for bar in step_bars(c, priced) if bar[0] < stages]
        end = answer.best.step_ns - priced.after_ns
        bars += [(stage, "update", end, priced.after_ns, 0) for stage in range(stages)]
        cut = _cut(bars, answer.best.step_ns)
        widths = [3.6, 3.6] if cut else [7.2]
        others = [3.6] if answer.found.alternatives else []
        ratios = [*widths, 3.4, *others]
        axes = figure.subplots(1, len(ratios), width_ratios=ratios)
        _timeline(list(axes[: len(widths)]), bars, answer, cut)
        _memory(axes[len(widths)], answer, stages)
        if others:
            _alternatives(axes[-1], answer)
        figure.suptitle(f"{answer.problem.name}: {degrees_text(c)}")
        _legend(figure, {role for _, role, _, duration, _ in bars if duration}, c.virtual > 1)
    return figure


def step_bars(c: Configuration, priced: Priced) -> Iterator[Bar]:
    """List every pass of a step, as the law replays it."""
    if c.pipeline == 1:
        yield from _alone(c, priced.chunks)
        return
    shop, words = shop_and_words(c, priced.chunks, priced.lag_ns)
    for kind, starts in zip(shop.kinds, times(shop, words), strict=True):
        if kind.machine < c.pipeline:
            chunk = int("".join(filter(str.isdigit, kind.block)) or 0)
            late = int(chunk >= c.pipeline)
            for start in starts:
                yield kind.machine, kind.role, start, kind.duration, late


def _alone(c: Configuration, chunks: tuple[ChunkCost, ...]) -> Iterator[Bar]:
    at = 0
    for _ in range(c.micro_batches):
        for role, duration in (
            ("forward", sum(chunk.forward_ns for chunk in chunks)),
            ("backward", sum(chunk.backward_ns + chunk.weight_ns for chunk in chunks)),
        ):
            yield 0, role, at, duration, 0
            at += duration


def panels(answer: TrainingAnswer) -> tuple[Panel, ...]:
    """Return the passes of a step on every stage, and what each stage keeps in memory."""
    best = answer.best
    assert best is not None
    c, stages = best.configuration, min(best.configuration.pipeline, _MOST_STAGES)
    bars = [b for b in step_bars(c, PlanCosts(answer.problem).priced(c)) if b[0] < stages]
    left_out = len(bars) - MOST_BOXES
    time = time_scale(answer.problem.units, best.step_ns)
    drawn = [bar[:4] for bar in sorted(bars, key=lambda bar: bar[2])[:MOST_BOXES]]
    notes = [f"{left_out:,} later passes are left out"] if left_out > 0 else []
    fills = {role: COLOURS.get(role, "#777777") for _, role, _, _ in drawn}
    passed = passes_panel("A step", time, stages, drawn, fills=fills, notes=notes, searched=True)
    amounts = [answer.memory_parts(best, stage) for stage in range(stages)]
    return passed, parts_panel(answer.problem.units, amounts, _PARTS)


def passes_panel(
    title: str, time: Scale, stages: int, bars: Iterable[tuple[int, str, int, int]], **more: Any
) -> Panel:
    """Return passes on stages: stage, kind, start and duration of each."""
    rows = [f"stage {stage}" for stage in range(stages)]
    boxes = [
        row_box(stage, kind, (time(start), time(start + duration)), kind, rows[stage])
        for stage, kind, start, duration in bars
    ]
    return Panel(title, Axis("time", time), rows=rows, boxes=boxes, **more)


def parts_panel(
    units: Units, stages: Sequence[Mapping[str, int]], fills: Mapping[str, str]
) -> Panel:
    """Return what the devices of each stage have in memory, by parts."""
    size = size_scale(units, max(sum(parts.values()) for parts in stages))
    rows, boxes = [f"stage {stage}" for stage in range(len(stages))], []
    for stage, parts in enumerate(stages):
        low = 0
        for part, amount in parts.items():
            ends = (size(low), size(max(low, low + amount)))
            boxes.append(row_box(stage, part, ends, part, rows[stage]))
            low += amount
    return Panel("Memory by stage", Axis("memory", size), rows=rows, boxes=boxes, fills=fills)


def _cut(bars: Sequence[Bar], step: int) -> tuple[int, int] | None:
    """Return the end of the first part and the start of the last one; ``None`` draws all."""
    counts: dict[int, int] = {}
    for stage, *_ in bars:
        counts[stage] = counts.get(stage, 0) + 1
    most = max(counts.values())
    if most <= _MOST_PASSES:
        return None
    part = step * _MOST_PASSES // (2 * most)
    return part, step - part


def _timeline(
    axes: list[Axes], bars: Sequence[Bar], answer: TrainingAnswer, cut: tuple[int, int] | None
) -> None:
    from matplotlib.ticker import MaxNLocator

    assert answer.best is not None
    step = answer.best.step_ns
    scale = time_scale(answer.problem.units, step)
    windows = [(0, step)] if cut is None else [(0, cut[0]), (cut[1], step)]
    stages = 1 + max(bar[0] for bar in bars)
    for axis, (low, high) in zip(axes, windows, strict=True):
        drawn: dict[tuple[int, str, int], list[tuple[float, float]]] = {}
        count = 0
        for stage, role, start, duration, late in bars:
            if start < high and start + duration > low and duration:
                drawn.setdefault((stage, role, late), []).append((scale(start), scale(duration)))
                count += stage == 0
        edge: dict[str, Any] = {"linewidth": 0.0}
        if count <= _THIN:
            edge = {"linewidth": 0.4, "edgecolor": "white"}
        for (stage, role, late), spans in drawn.items():
            colour, alpha = COLOURS.get(role, "#777777"), 0.6 if late else 1.0
            axis.broken_barh(spans, (stage - 0.42, 0.84), facecolors=colour, alpha=alpha, **edge)
        axis.set(xlim=(scale(low), scale(high)), ylim=(stages - 0.5, -0.5))
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.set_xlabel(axis_label("time", scale))
        _stage_ticks(axis, stages)
    axes[0].set_ylabel("pipeline stage")
    axes[0].set_title("a step" if cut is None else "a step: start")
    if cut is not None:
        axes[1].set_title("end")
        axes[1].set_yticks([])


def _stage_ticks(axis: Axes, stages: int) -> None:
    axis.set_yticks(range(0, stages, max(1, -(-stages // 16))))


def _memory(axis: Axes, answer: TrainingAnswer, stages: int) -> None:
    best = answer.best
    assert best is not None
    left = [0.0] * stages
    for part, colour in _PARTS.items():
        sizes = [answer.memory_parts(best, stage)[part] / _GB for stage in range(stages)]
        axis.barh(range(stages), sizes, 0.84, left=left, color=colour, label=part)
        left = [a + b for a, b in zip(left, sizes, strict=True)]
    for stage in range(stages):
        limit = answer.problem.limit_bytes(best.configuration, stage) / _GB
        axis.plot([limit, limit], [stage - 0.5, stage + 0.5], color=FULL, linewidth=1.6)
    axis.set(ylim=(stages - 0.5, -0.5), xlabel="memory of a device (GB)", title="peak by stage")
    _stage_ticks(axis, stages)


def _alternatives(axis: Axes, answer: TrainingAnswer) -> None:
    found, best = answer.found, answer.best
    assert best is not None
    scale = time_scale(answer.problem.units, best.step_ns)
    near = [
        (scale(one.least_ns), one.permille / 10)
        for one in found.alternatives
        if one.least_ns <= 2 * best.step_ns
    ]
    for fits, marker, colour in ((True, "o", MEMORY), (False, "x", FULL)):
        points = [point for point in near if (point[1] <= 100) is fits and point[1] <= 200]
        axis.scatter(
            [time for time, _ in points],
            [share for _, share in points],
            s=9,
            marker=marker,
            color=colour,
            alpha=0.5,
            linewidths=0.6 if marker == "x" else 0,
            label=("fits" if fits else "does not fit") + ", lower bounds",
        )
    for number, candidate in enumerate(found.best):
        first = number == 0
        axis.scatter(
            scale(candidate.step_ns),
            _filled(answer, candidate.configuration, candidate.peaks),
            s=70 if first else 28,
            marker="*" if first else "D",
            color=COLOURS["backward-weight" if first else "forward"],
            zorder=4 if first else 3,
            label=("best", "next best", None)[number],
        )
    axis.axhline(100, color=FULL, linewidth=1.2)
    axis.set_xlabel(axis_label("step", scale))
    axis.set_ylabel("memory of the fullest device (% of its limit)")
    axis.set_title("alternatives")
    axis.legend(loc="best", frameon=False)


def _filled(answer: TrainingAnswer, c: Configuration, peaks: tuple[int, ...]) -> float:
    """Percent of its limit that the fullest device takes."""
    limits = (answer.problem.limit_bytes(c, stage) for stage in range(len(peaks)))
    return max(100 * peak / limit for peak, limit in zip(peaks, limits, strict=True))


def _legend(figure: Figure, roles: set[str], virtual: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(color=COLOURS[role], label=name) for role, name in _NAMES.items() if role in roles
    ]
    if virtual:
        handles.append(Patch(color=COLOURS["forward"], alpha=0.6, label="lighter: later chunks"))
    handles += [Patch(color=colour, label=part) for part, colour in _PARTS.items()]
    handles.append(Line2D([], [], color=FULL, label="limit"))
    figure_legend(figure, handles, "outside lower center")
