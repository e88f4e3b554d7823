"""DualPipe, which feeds a pipeline from both ends, and DualPipeV, which is DualPipe cut in half.

On a bidirectional placement half of the micro-batches go up the devices and half go down.
DualPipeV folds that pipeline in the middle, so that both directions are the two legs of a V.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import lcm

from milp_plan.core import Plan, PlanningProblem
from milp_plan.kinds.schedule.planners.dispatch import dispatch_order

from ..overlap import Pair, finer, fuse, sequence
from ..reading import shop_of
from ..shop import Shop
from ..timing import Words
from .lines import Cell, Layout, layout_of

PassGroup = tuple[int, ...]
"""Kinds that run consecutively; a group with a forward and a backward is a pair that
DualPipe overlaps."""


@dataclass
class _Rank:
    """One device of DualPipe: phase 0 enters the pipeline on this side, phase 1 on the other."""

    cells: tuple[Cell, Cell]
    steps: list[PassGroup] = field(default_factory=list)
    late: deque[int] = field(default_factory=deque)

    def forward(self, phase: int) -> None:
        self.steps.append((self.cells[phase].forward,))

    def backward(self, phase: int, defer: bool = False) -> None:
        """Run a whole backward, or the input gradient with the weight gradient deferred."""
        cell = self.cells[phase]
        self.steps.append((cell.backward,) if defer else cell.both)
        if defer and cell.weight is not None:
            self.late.append(cell.weight)

    def pair(self, ahead: int, back: int) -> None:
        """Run a forward of one phase overlapped with the whole backward of the other."""
        self.steps.append((self.cells[ahead].forward, *self.cells[back].both))

    def weight(self) -> None:
        self.steps.append((self.late.popleft(),))

    def run(self, half: int, depth: int, batches: int) -> list[PassGroup]:
        """Return the eight steps of DualPipe.

        Parameters
        ----------
        half
            Devices from an end of the pipeline to its middle.
        depth
            This device's distance from the end, 0 to ``half`` − 1.
        batches
            Micro-batches per direction.
        """
        outer = half - 1 - depth
        for _ in range(2 * outer):
            self.forward(0)
        for _ in range(depth + 1):
            self.forward(0)
            self.forward(1)
        for _ in range(outer):
            self.backward(1, defer=True)
            self.weight()
            self.forward(1)
        for turn in range(batches - 2 * half + depth + 1):
            if turn == 0 and outer == 0:  # the middle waits less with its first pair apart
                self.forward(0)
                self.backward(1)
            else:
                self.pair(0, 1)
            self.pair(1, 0)
        for _ in range(outer):
            self.backward(1)
            self.pair(1, 0)
        for turn in range(2 * (depth + 1)):  # the second half of these defer W
            self.backward(1 - turn % 2, defer=turn > depth)
        for _ in range(outer):
            self.weight()
            self.backward(0, defer=True)
        while self.late:
            self.weight()
        return self.steps


def _dualpipe(layout: Layout) -> list[list[PassGroup]] | None:
    p = layout.devices
    if p % 2 or not layout.placed("dualpipe") or len(set(layout.counts)) > 1:
        return None
    up, down = layout.cells
    sides = [(up[d], down[p - 1 - d]) if d < p // 2 else (down[p - 1 - d], up[d]) for d in range(p)]
    return _ranks(layout, sides, p // 2, layout.counts[0], lambda d: min(d, p - 1 - d))


def _dualpipev(layout: Layout) -> list[list[PassGroup]] | None:
    p = layout.devices
    if not layout.placed("v"):
        return None
    row = layout.cells[0]
    sides = [(row[d], row[2 * p - 1 - d]) for d in range(p)]
    return _ranks(layout, sides, p, layout.counts[0], lambda d: d)


def _ranks(
    layout: Layout,
    sides: Sequence[tuple[Cell, Cell]],
    half: int,
    batches: int,
    depth: Callable[[int], int],
) -> list[list[PassGroup]] | None:
    if not layout.split or batches < 2 * half:
        return None
    return [_Rank(cells).run(half, depth(d), batches) for d, cells in enumerate(sides)]


def dualpipe_words(shop: Shop) -> Words | None:
    """DualPipe, operator by operator: bidirectional, p even, m even and at least 2p.

    The order in which the authors' program computes, with F before B in every overlapped pair;
    :func:`overlapped_dualpipe` keeps the pairs whole. Needs split gradients.

    Source: DeepSeek-V3 report, arXiv 2412.19437, section 3.2.1, and the repository
    deepseek-ai/DualPipe. With pairs as long as F+B+W the bubble is at most
    (p/2−1)(F&B + (B+W) − 3W), which is attained for F = B = W; operator by operator it is half of
    that. Peak: p+1 activations of a stage.
    """
    return _words(shop, _dualpipe)


def dualpipev_words(shop: Shop) -> Words | None:
    """DualPipeV: DualPipe folded in the middle, on a V placement; m at least 2p.

    Source: "DualPipe could be better without the Dual" (Sea AI Lab, 2025) and the repository
    deepseek-ai/DualPipe. Bubble as DualPipe's with 2p stages; peak: 2p+1 activations of a stage,
    p+½ of a device's share.
    """
    return _words(shop, _dualpipev)


def _words(shop: Shop, build: Callable[[Layout], list[list[PassGroup]] | None]) -> Words | None:
    layout = layout_of(shop)
    rows = None if layout is None else build(layout)
    if layout is None or rows is None:
        return None
    return layout.words([[k for step in row for k in step] for row in rows])


def dualpipe_orders(shop: Shop) -> dict[str, list[Pair]] | None:
    """Return the operators of each device in the order of DualPipe or DualPipeV, in groups.

    Returns
    -------
    dict of str to list of tuple of str, or None
        Device -> groups of operators that the authors' program computes in one piece: an
        overlapped pair (F, B, W), a whole backward (B, W), or one operator. ``None`` where
        neither schedule is defined.
    """
    layout = layout_of(shop)
    rows = None if layout is None else _dualpipe(layout) or _dualpipev(layout)
    if layout is None or rows is None:
        return None
    members: list[Iterator[str]] = [iter(kind.members) for kind in shop.kinds]
    return {
        shop.machines[machine]: [tuple(next(members[k]) for k in step) for step in row]
        for machine, row in zip(layout.machines, rows, strict=True)
    }


def overlapped_dualpipe(
    problem: PlanningProblem, share: Fraction | int | None = 1
) -> tuple[PlanningProblem, Plan] | None:
    """DualPipe (or DualPipeV, on a V placement) as its authors' program computes it.

    Overlapped pairs are whole operators, and so are backwards whose weight gradient is not
    deferred: the input gradient leaves when both are done.

    Parameters
    ----------
    problem
        A pipeline problem with split gradients.
    share
        Length of a pair per F+B+W; less than 1 where computing hides transfers inside a pair.
        ``None`` opens the pairs: F, then the whole backward.

    Returns
    -------
    tuple of PlanningProblem and Plan, or None
        The problem with groups fused, on a finer grid of ticks where ``share`` requires it
        (see ``units.time_scale``), and the plan for it; ``None`` where the schedule is not defined
        or memory does not suffice.

    Raises
    ------
    ValueError
        ``share`` is not positive.
    """
    if share is not None and share <= 0:
        raise ValueError(f"share is {share}, expected more than 0")
    shop = shop_of(problem)
    orders = None if shop is None else dualpipe_orders(shop)
    if shop is None or orders is None:
        return None
    if share is None:
        orders = {device: _opened(row) for device, row in orders.items()}
    ticks = {m: kind.duration for kind in shop.kinds for m in kind.members}
    groups = [group for row in orders.values() for group in row if len(group) > 1]
    scale = Fraction(1 if share is None else share)
    lengths = {
        group: sum(ticks[name] for name in group) * (scale if len(group) == _PAIR else 1)
        for group in groups
    }
    factor = lcm(*(Fraction(length).denominator for length in lengths.values()))
    durations = {group: int(length * factor) for group, length in lengths.items()}
    fused, names = fuse(finer(problem, factor), durations)
    rows = {device: [names.get(g, g[0]) for g in row] for device, row in orders.items()}
    placements = {o.name: fused.placements(o.name)[0] for o in fused.graph.operators}
    plan = dispatch_order(fused, placements, sequence(fused, rows), insertion=False)
    return None if plan is None else (fused, replace(plan, planner="overlapped_dualpipe"))


_PAIR = 3
"""Operators of a pair: F, B, W."""


def _opened(row: Sequence[Pair]) -> list[Pair]:
    return [part for g in row for part in ((g[:1], g[1:]) if len(g) == _PAIR else (g,))]
