"""Exact figures of a schedule, in units of time and of activations."""

from __future__ import annotations

from fractions import Fraction

from milp_plan.core import Objective
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.template import pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import Words, memory_peaks, times

Times = tuple[int, int, int]

TIMES: tuple[Times, ...] = ((1, 1, 1), (3, 5, 2), (10, 12, 7), (2, 7, 1), (5, 3, 9), (1, 1, 4))
"""F, B and W: equal, measured, W short, W longer than B."""


class Figures:
    """Bubbles beyond a device's work, and peak activations of each device."""

    def __init__(self, shop: Shop, words: Words, scale: int, activation: int) -> None:
        starts = times(shop, words)
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for kind, row in zip(shop.kinds, starts, strict=True):
            first[kind.machine] = min(first.get(kind.machine, row[0]), row[0])
            last[kind.machine] = max(last.get(kind.machine, 0), row[-1] + kind.duration)
        work = max(shop.work)
        self.makespan = Fraction(max(last.values()), scale)
        self.span = Fraction(max(last[m] - first[m] for m in last), scale)
        self.bubble = self.makespan - Fraction(work, scale)
        self.span_bubble = self.span - Fraction(work, scale)
        self.rate = 1 - Fraction(work, scale) / self.span
        self.peaks = [Fraction(peak, activation) for peak in memory_peaks(shop, words)]


def uniform_shop(
    devices: int,
    micro_batches: int,
    fbw: Times,
    transfer: int = 0,
    *,
    chunks: int = 1,
    joint: bool = False,
    early: Fraction | int = 0,
    cap: int | None = None,
) -> tuple[Shop, int, int]:
    """Shop of equal stages on a line or interleaved; ticks per unit; bytes per activation."""
    template, activation = uniform(
        devices,
        micro_batches,
        fbw,
        transfer=transfer,
        chunks=chunks,
        freed_at_backward=early,
        joint_backward=joint,
    )
    routes = place("interleaved", devices, chunks)
    limit = None if cap is None else cap * activation
    problem = pipeline_problem(
        "case", template, routes, memory_bytes=limit, objective=Objective.SPAN
    )
    shop = shop_of(problem)
    assert shop is not None
    return shop, template.units.time_scale or 1, activation
