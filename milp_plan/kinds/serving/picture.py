"""The picture of a deployment: passes of a request on stages, and memory by stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from milp_plan.draw.canvas import COLOURS, time_scale
from milp_plan.draw.panels import Panel
from milp_plan.kinds.training.picture import parts_panel, passes_panel

from .costs import PassTime
from .problem import deployment_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .report import ServingAnswer

MOST_TOKENS, MOST_STAGES = 8, 64
"""Further tokens and stages that are drawn."""

FILLS = {
    "prefill": COLOURS["forward"],
    "decode": COLOURS["backward-input"],
    "decode, other requests": "#CCCCCC",
}
PARTS = {"weights": "#332288", "cache": "#DDCC77", "buffers": "#777777"}


def picture(answer: ServingAnswer) -> Figure:
    """Return a figure of the best deployment.

    Raises
    ------
    ValueError
        There is none.
    BackendUnavailableError
        matplotlib is not installed.
    """
    from milp_plan.draw.figures import panels_figure

    if answer.best is None:
        raise ValueError("no deployment is known, so there is nothing to draw")
    text = deployment_text(answer.problem, answer.best.deployment)
    return panels_figure([(f"{answer.problem.name}: {text}", panels(answer))])


def panels(answer: ServingAnswer) -> tuple[Panel, ...]:
    """Return the passes of a request on every stage, and what each stage has in memory."""
    best, units = answer.best, answer.problem.units
    assert best is not None
    stages = min(best.deployment.pipeline, MOST_STAGES)
    bars = [bar for bar in passes(answer) if bar[0] < stages]
    time = time_scale(units, max(start + duration for _, _, start, duration in bars))
    fills = {kind: FILLS[kind] for kind in FILLS if any(bar[1] == kind for bar in bars)}
    left_out = answer.problem.further_tokens - MOST_TOKENS
    later = best.figures.decode is not None and left_out > 0
    notes = [f"{left_out:,} later tokens are left out"] if later else []
    passed = passes_panel("A request", time, stages, bars, fills=fills, notes=notes)
    uses = [
        {"weights": use.weights, "cache": use.cache, "buffers": use.buffers}
        for use in best.memory[:stages]
    ]
    return passed, parts_panel(units, uses, PARTS)


def passes(answer: ServingAnswer) -> Iterator[tuple[int, str, int, int]]:
    """List passes of a request and of those that decode in turn: stage, kind, start, duration."""
    assert answer.best is not None
    d, figures = answer.best.deployment, answer.best.figures
    begin = 0
    if figures.prefill is not None:
        yield from _through(figures.prefill, "prefill", 0)
        begin = figures.prefill.total
    if figures.decode is None or figures.token_ns is None:
        return
    for token in range(min(answer.problem.further_tokens, MOST_TOKENS)):
        for group in range(d.groups):
            kind = "decode, other requests" if group else "decode"
            start = begin + token * figures.token_ns + group * max(figures.decode.stages)
            yield from _through(figures.decode, kind, start)


def _through(passed: PassTime, kind: str, start: int) -> Iterator[tuple[int, str, int, int]]:
    for stage, duration in enumerate(passed.stages):
        yield stage, kind, start, duration
        start += duration
