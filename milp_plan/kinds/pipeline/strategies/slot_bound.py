"""Bounds of pipelines by refuting horizons: counting rows, HiGHS, and a check in integers.

A horizon T is refuted when the rows of :mod:`milp_plan.kinds.pipeline.slots` have no solution with
share 1. HiGHS maximises the share; its multipliers are only a suggestion, from which
:func:`milp_plan.lp.certificate.refutes` makes a proof in integers, or not. So every bound is
proved, however inexact the solver was, and the solver may stop early.

The largest share grows about linearly with T, by one micro-batch per period. So two or three
horizons per distance of points lead to the largest one that can be refuted; coarse points come
first and say where the finer ones begin.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from milp_plan.backends import Limits, highs
from milp_plan.core import Objective
from milp_plan.core.bound import Bound
from milp_plan.core.budget import now
from milp_plan.lp import CompiledModel
from milp_plan.lp.certificate import refutes

from ..bounds import best_floor, longest_path
from ..frames import Frame, colours, frames, whole
from ..shop import Shop
from ..slots import SlotRows

_OPTIONS: dict[str, bool | int | float | str] = {
    "solver": "ipm",
    "run_crossover": "off",
    "ipm_optimality_tolerance": 1e-4,
}
"""An interior point near the optimum; its multipliers are good enough to be checked."""

COARSEST = 700
"""Approximate number of columns of the first linear program."""

FINER = 0.7
"""Distance of points, as a multiple of the next coarser one."""

PROBES = 4
"""Largest number of horizons per distance of points."""

GROWTH = 1.6
"""Exponent with which solver time grows in the columns."""

MARGIN = 5e-4
"""Share by which the next horizon stays below the estimate, so that it can be refuted; four
times as much at coarse points."""

Progress = Callable[[Bound], None]


@dataclass(frozen=True)
class Probe:
    """One horizon that was tried.

    Parameters
    ----------
    horizon, step
        Ticks.
    columns
        Columns of the linear program.
    share
        Largest part of the tasks that fits, by the solver; ``None`` if it returned none.
    refuted
        Whether the multipliers prove that no plan fits.
    seconds
        Seconds of building, solving and checking.
    """

    horizon: int
    step: int
    columns: int
    share: float | None
    refuted: bool
    seconds: float


@dataclass(frozen=True)
class SlotBound:
    """A proved bound and how it was found.

    Parameters
    ----------
    bound
        The bound, ticks; that of the start when no horizon above it was refuted.
    probes
        Horizons in the order in which they were tried.
    seconds
        Wall-clock seconds of all probes.
    """

    bound: Bound
    probes: tuple[Probe, ...]
    seconds: float

    @property
    def value(self) -> int:
        """Ticks."""
        return self.bound.value


def slot_bound(
    shop: Shop,
    upper: int | None = None,
    limit_s: float = 10.0,
    lower: int | None = None,
    *,
    threads: int = 1,
    finest: int | None = None,
    on_progress: Progress | None = None,
    session: highs.Session | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> SlotBound:
    """Raise the bound of a shop's makespan or span.

    Parameters
    ----------
    shop
        The shop; the bound is on its objective.
    upper
        Value of a known plan; nothing is tried once the bound reaches it.
    limit_s
        Wall-clock seconds.
    lower
        A known bound; the combinatorial ones are computed in any case.
    threads
        Threads of the solver.
    finest
        Smallest distance of points, ticks; by default the largest common divisor of all
        durations and lags, at which the rows are exact.
    on_progress
        Called with each better bound.
    session
        A solver process to use; by default one is started for this bound. Many bounds in a row
        are faster with one session.
    stop
        Called between two solves; ``True`` ends the search.

    Returns
    -------
    SlotBound
        The proved bound; never below ``lower``.
    """
    with ExitStack() as stack:
        search = _SlotSearch(
            shop,
            upper,
            limit_s=limit_s,
            threads=threads,
            on_progress=on_progress,
            session=session or stack.enter_context(highs.Session()),
            stop=stop,
        )
        return search.run(lower, finest)


@dataclass
class _Line:
    """Horizons tried for one clock, with the solver's share of each."""

    frame: Frame
    period: float
    points: dict[int, float] = field(default_factory=dict)
    guess: float | None = None

    def crossing(self) -> float:
        """Estimate the horizon at which the share is 1."""
        (t, share), *others = sorted(self.points.items(), key=lambda p: abs(p[1] - 1.0))
        slope = 1.0 / self.period
        if others and others[0][1] != share:
            steepness = (others[0][1] - share) / (others[0][0] - t)
            slope = steepness if steepness > slope / 10 else slope
        return t + (1.0 - share) / slope


class _SlotSearch:
    def __init__(
        self,
        shop: Shop,
        upper: int | None,
        *,
        limit_s: float,
        threads: int,
        on_progress: Progress | None,
        session: highs.Session,
        stop: Callable[[], bool],
    ) -> None:
        self.shop, self.upper, self.threads = shop, upper, threads
        self.began = now()
        self.limit_s, self.stop = limit_s, stop
        self.on_progress, self.session = on_progress, session
        self.grain = shop.tick
        self.probes: list[Probe] = []
        self.rate = 0.0  # seconds per columns ** GROWTH of the last linear program
        self.columns = 1

    def left(self) -> float:
        return self.limit_s - (now() - self.began)

    def run(self, lower: int | None, finest: int | None) -> SlotBound:
        floor = best_floor(self.shop)
        self.best = floor
        if lower is not None and lower > floor.value:
            self.best = Bound("given", lower, "known before")
        busiest = max(self.shop.work[: self.shop.num_devices], default=1)
        path = longest_path(self.shop, whole(self.shop)).value
        period = max(1, busiest, floor.value - path)  # per share of 1; only a first guess
        lines = [
            _Line(frame, period)
            for frame in frames(self.shop, self.shop.objective is Objective.SPAN)
        ]
        steps = self.steps(lines, max(self.grain, finest or 0))
        while steps and not self.over():
            for line in lines:
                self.level(line, steps[0], last=len(steps) == 1)
            guessed = [line for line in lines if line.guess is not None]
            if not guessed:
                break
            # finer points only for the device that bounds most
            lines = [max(guessed, key=lambda line: line.guess or 0.0)]
            steps = self.finer(steps)
        return SlotBound(self.best, tuple(self.probes), now() - self.began)

    def over(self) -> bool:
        if self.stop() or self.left() <= 0.05:
            return True
        return self.upper is not None and self.best.value >= self.upper

    def steps(self, lines: list[_Line], finest: int) -> list[int]:
        """Return distances of points, coarse ones first, multiples of the grain."""
        columns = max(self.ticks(line.frame) for line in lines) / finest
        steps = [finest]
        step = float(finest)
        while columns * finest / step > COARSEST:
            step /= FINER
            steps.append(max(finest, round(step / self.grain) * self.grain))
        return sorted(set(steps), reverse=True)

    def ticks(self, frame: Frame) -> int:
        """Return the ticks in the windows of all classes of kinds, at the bound's horizon."""
        kind_of, _ = colours(self.shop, frame.anchor)
        total = 0
        for k in map(kind_of.index, set(kind_of)):
            away = (frame.heads[k] or 0) + (frame.tails[k] or 0) + self.shop.kinds[k].duration
            total += max(0, self.horizon() - away)
        return total

    def finer(self, steps: list[int]) -> list[int]:
        """Return the rest of the distances, from the finest that the time allows."""
        left = steps[1:]
        for horizons in (3.0, 1.3):
            for index, step in enumerate(reversed(left)):
                columns = self.columns * steps[0] / step
                if horizons * self.rate * columns**GROWTH <= self.left():
                    return left[len(left) - 1 - index :]
        return []

    def horizon(self) -> int:
        """Return the shortest horizon whose refutation raises the bound."""
        return -(-self.best.value // self.grain) * self.grain

    def rows(self, line: _Line, horizon: int, step: int) -> SlotRows:
        return SlotRows(self.shop, line.frame, horizon, step)

    def level(self, line: _Line, step: int, last: bool) -> None:
        """Refute horizons with points at this distance; roughly unless ``last``."""
        line.points = {}
        horizon = self.first()
        lowest_open: int | None = None
        for _ in range(PROBES):
            if self.over():
                return
            probe = self.probe(line, horizon, step)
            if probe is None or probe.share is None:
                return
            line.points[horizon] = probe.share
            line.guess = line.crossing()
            if not probe.refuted:
                lowest_open = horizon if lowest_open is None else min(lowest_open, horizon)
            near = step / 50 if last else step / 2
            if lowest_open is not None and lowest_open - self.horizon() <= near:
                return
            margin = line.period * (MARGIN if last else 4 * MARGIN)
            following = self.next(line.guess - margin, lowest_open)
            if following is None or following in line.points:
                return
            horizon = following

    def first(self) -> int:
        """Return the first horizon: just under a plan that is near, else just above the bound."""
        low = self.horizon()
        if self.upper is None:
            return low
        last = (self.upper - 1) // self.grain * self.grain
        return last if last - low <= max(4 * self.grain, 0.01 * low) else low

    def next(self, guess: float, lowest_open: int | None) -> int | None:
        """Return the next horizon: the estimate, between refuted and open ones."""
        low = self.horizon()
        ends = [] if self.upper is None else [(self.upper - 1) // self.grain * self.grain]
        if lowest_open is not None:
            ends.append(lowest_open - self.grain)
            room = lowest_open - low
            if lowest_open - guess < room / 10:  # the share jumps somewhere in between
                guess = low + room / 2
        if guess < low or (ends and min(ends) < low):
            return None
        return min([max(low, int(guess) // self.grain * self.grain), *ends])

    def probe(self, line: _Line, horizon: int, step: int) -> Probe | None:
        """Solve for one horizon; return ``None`` when there is no time left."""
        began = now()
        rows = self.rows(line, horizon, step)
        model = rows.model()
        if self.left() <= 0.05 or self.stop():
            return None
        scaled, factors = _scaled(model, step)
        report = self.session.solve(
            scaled,
            Limits(time_s=max(0.05, self.left()), threads=self.threads, grace_s=0.5),
            options=_OPTIONS,
        )
        refuted = report.row_duals is not None and refutes(
            model, -report.row_duals * factors, [1] + [0] * (model.num_columns - 1), rows.boxes
        )
        seconds = now() - began
        self.rate = report.seconds / model.num_columns**GROWTH
        self.columns = model.num_columns
        share = None if report.objective is None else -report.objective
        probe = Probe(horizon, step, model.num_columns, share, refuted, seconds)
        self.probes.append(probe)
        if refuted and horizon >= self.best.value:
            self.raise_to(horizon, line, rows)
        return probe

    def raise_to(self, horizon: int, line: _Line, rows: SlotRows) -> None:
        value = horizon // self.grain * self.grain + self.grain
        place = "" if line.frame.anchor is None else f" of {self.shop.machines[line.frame.anchor]}"
        detail = (
            f"nothing fits into less{place}: {rows.num_columns} counts at "
            f"{-(-horizon // rows.step)} points, multipliers checked in integers"
        )
        self.best = Bound("slots", value, detail)
        if self.on_progress is not None:
            self.on_progress(self.best)


def _scaled(model: CompiledModel, step: int) -> tuple[CompiledModel, NDArray[np.float64]]:
    """Return the same rows with work counted in steps, and the factors of the multipliers.

    Ticks may be millions; the solver's tolerances are made for numbers near 1.
    """
    from scipy.sparse import csr_array

    work = np.array([family == "work" for family in model.row_families])
    factors = np.where(work, 1.0 / step, 1.0)
    worked = np.array([family == "worked" for family, _ in model.columns])
    matrix = model.matrix.multiply(factors[:, None]).multiply(np.where(worked, float(step), 1.0))
    scaled = replace(model, matrix=csr_array(matrix), row_upper=model.row_upper * factors)
    return scaled, factors
