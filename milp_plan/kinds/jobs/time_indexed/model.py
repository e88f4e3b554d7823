r"""Jobs by time slots: a relaxation that is exact where slots divide all times; no big-M.

A *block* is one or more units of a job, one behind the other on the same devices by options of one
pool, whose weights are loaded before the first and stored behind the last. Only units with equal
weights make blocks of more than one: weights that change are loaded anew. Slots are D ticks long;
a block b that holds its devices for d_b ticks has n_b = floor(d_b / D). The columns x[b,t] say that
b begins, load and all, in slot t.

============  ====================================================================================
``once``      sum of x[b,t] over b with unit u and all t = 1            each unit u
``devices``   sum of g_b x[b,t], t <= s < t + n_b, <= G_p                each pool p and slot s
``order``     sum of x[b,t] whose run starts by slot s, b begins with unit u + 1
              <= sum of x[b,t] whose run stops by slot s, b ends with unit u  each link, each s
``home``      the same for loads and stores of weights that return to the host in between
``host``      sum of h_j (blocks of j's first unit begun by s - of its last unit over by s) <= H
``work``      sum of g_b d_b x[b,t] <= G_p (T - min r)                  exact ticks, each pool p
``packing``   sum of g_b f(d_b / (T - min r)) x[b,t] <= G_p             dual feasible f, each pool
``value``     sum of w_j (t D + d_b) x[b,t] over last blocks <= T       weighted completion only
============  ====================================================================================

Every plan of value T or less is a solution: let begin in slot floor(s / D) what begins at s. If b
holds a device before c does, then s_c >= s_b + d_b, so floor(s_c / D) >= floor(s_b / D) + n_b: on
each device blocks overlap in no slot. ``order`` holds for the same reason, with the parts of blocks
rounded down and loads rounded up; jobs that ``host`` counts at slot s are all under way just before
(s + 1) D. Blocks that wait inside, or
devices held longer than needed, are not lost: runs of a block may be moved together, towards the
last one, without touching anything else. So if there is no solution, no plan is as good as T. Where
D divides all times, nothing lasts no time, the last store of a job ends last, and loads cannot
overlap with runs (:meth:`Blocks.serial`), solutions are plans. Where loads may overlap, they are
left out, which relaxes further.

``packing`` holds since on each device the lengths of blocks sum up to at most T - min r; for f see
:mod:`.dual_feasible`. It says how lengths go together where ``work`` says what they add up to.

The start-time form is Sousa and Wolsey's (1992); that Saturn's jobs need no columns for devices
follows from devices being alike: at each instant what runs may hold any that are free.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd, inf
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from milp_plan.core.quantity import ceil_div
from milp_plan.lp import CompiledModel

from ..bounds import Sizes
from ..problem import Job, JobsObjective, JobsPlan, JobsProblem, Run, Weights
from .dual_feasible import dual_feasible

LEEWAY = 1e-6
"""By which rows of sums of times are wider than they are: floats may not cut off a plan."""

Column = tuple[int, int]
"""Number of a block, slot."""


@dataclass(frozen=True, slots=True)
class Block:
    """Units ``first`` to ``last`` of a job by options of one pool.

    Parameters
    ----------
    job, first, last
        Which units.
    options
        Numbers of their options.
    pool
        Number of the pool.
    devices
        How many are held.
    load, run, store
        Ticks of its parts, one behind the other.
    """

    job: int
    first: int
    last: int
    options: tuple[int, ...]
    pool: int
    devices: int
    load: int
    run: int
    store: int

    @property
    def ticks(self) -> int:
        """Ticks from its begin to its end."""
        return self.load + self.run + self.store


@dataclass(frozen=True)
class Blocks:
    """All blocks of a problem.

    Parameters
    ----------
    problem
        Each unit has an option that fits.
    """

    problem: JobsProblem

    @cached_property
    def serial(self) -> bool:
        """Whether no device can hold weights while it loads, or stores, others that take time.

        Then loads, runs and stores of a device are all one behind the other.
        """
        moved = [
            (j, w.name, w.bytes)
            for j, job in enumerate(self.problem.jobs)
            for w in job.weights
            if w.load or w.store
        ]
        if not moved:
            return True
        if any(
            option.devices > 1
            for job in self.problem.jobs
            for unit in job.units
            for option in unit.options
        ):
            return False
        sizes = sorted(w.bytes for job in self.problem.jobs for w in job.weights if job.units)
        free = any(unit.weights is None for job in self.problem.jobs for unit in job.units)
        least = sizes[0] + (sizes[1] if len(sizes) > 1 else sizes[0])
        return not free and all(
            pool.memory is not None and pool.memory < least for pool in self.problem.pools
        )

    @cached_property
    def all(self) -> tuple[Block, ...]:
        """Every block."""
        return tuple(self._blocks())

    @cached_property
    def grain(self) -> int:
        """The longest slot that divides every time."""
        times = [job.release for job in self.problem.jobs]
        for block in self.all:
            times += [block.load, block.run, block.store]
        return gcd(*times) or 1

    def _blocks(self) -> Iterator[Block]:
        places = {pool.name: number for number, pool in enumerate(self.problem.pools)}
        for number, job in enumerate(self.problem.jobs):
            for first in range(len(job.units)):
                weights = job.weights_of(first)
                for option, chosen in self.problem.fits[number][first]:
                    options, run = [option], chosen.ticks
                    for last in range(first, len(job.units)):
                        if last > first:
                            more = self._more(number, last, weights, chosen.pool)
                            if more is None:
                                break
                            options.append(more[0])
                            run += more[1]
                        moved = weights if self.serial and weights else Weights("", 0, 0, 0)
                        yield Block(
                            number,
                            first,
                            last,
                            tuple(options),
                            places[chosen.pool],
                            chosen.devices,
                            moved.load,
                            run,
                            moved.store,
                        )

    def _more(
        self, job: int, unit: int, weights: Weights | None, pool: str
    ) -> tuple[int, int] | None:
        """The option, with its ticks, by which a unit stays with the one before it."""
        if weights is None or self.problem.jobs[job].weights_of(unit) != weights:
            return None
        if not self.serial or not (weights.load or weights.store):
            return None  # nothing is spared
        found = [
            (option.ticks, number)
            for number, option in self.problem.fits[job][unit]
            if option.pool == pool and option.devices == 1
        ]
        return (min(found)[1], min(found)[0]) if found else None


@dataclass
class Slotted:
    """The model that asks whether there is a plan of a value, by slots.

    Parameters
    ----------
    blocks
        Of the problem.
    target
        The value that is asked for.
    horizon
        No plan of that value runs longer.
    slot
        Ticks of a slot.
    """

    blocks: Blocks
    target: int
    horizon: int
    slot: int
    _entries: list[tuple[int, int, float]] = field(default_factory=list, init=False, repr=False)
    _high: list[float] = field(default_factory=list, init=False, repr=False)
    _low: list[float] = field(default_factory=list, init=False, repr=False)
    _families: list[str] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        self.problem = self.blocks.problem
        self.makespan = self.problem.objective is JobsObjective.MAKESPAN

    @cached_property
    def columns(self) -> list[Column]:
        """What may begin where: behind the release and all earlier units, before all later ones."""
        heads, tails = self._reach()
        mirrored = self._mirrored()
        found = []
        for number, block in enumerate(self.blocks.all):
            job = self.problem.jobs[block.job]
            head = heads[block.job][block.first] - block.load
            soonest = max(job.release, head)
            latest = self.horizon - tails[block.job][block.last] - block.load - block.run
            latest = min(latest, self.horizon - block.ticks)
            if block.job == mirrored:
                latest = min(latest, (self.horizon - block.ticks) // 2)
            found += [
                (number, slot)
                for slot in range(soonest // self.slot, latest // self.slot + 1)
                if latest >= soonest
            ]
        return found

    def _reach(self) -> tuple[list[list[int]], list[list[int]]]:
        """Least ticks until the run of each unit can start, and least ticks behind its stop."""
        heads, tails = [], []
        serial = self.blocks.serial
        for number, job in enumerate(self.problem.jobs):
            least = [min(o.ticks for _, o in unit) for unit in self.problem.fits[number]]
            first, last = job.weights_of(0), job.weights_of(len(job.units) - 1)
            head = job.release + (first.load if first and serial else 0)
            tail = last.store if last and serial else 0
            heads.append([head + sum(least[:unit]) for unit in range(len(least))])
            tails.append([tail + sum(least[unit + 1 :]) for unit in range(len(least))])
        return heads, tails

    def _mirrored(self) -> int | None:
        """A job that may be taken to begin in the first half, where a plan may run backwards."""
        jobs = self.problem.jobs
        if not self.makespan or not self.problem.plain or any(job.release for job in jobs):
            return None
        sizes = Sizes(self.problem)
        ones = [1] * len(self.problem.pools)
        return max(range(len(jobs)), key=lambda job: sizes.work_of(job, ones))

    @cached_property
    def compiled(self) -> CompiledModel | None:
        """The model; ``None`` where a unit has no column: then there is no such plan."""
        covered: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, (place, _) in enumerate(self.columns):
            block = self.blocks.all[place]
            for unit in range(block.first, block.last + 1):
                covered[block.job, unit].append(number)
        for job, spec in enumerate(self.problem.jobs):
            for unit in range(len(spec.units)):
                if not covered[job, unit]:
                    return None
                self._row("once", [(c, 1.0) for c in covered[job, unit]], 1.0, 1.0)
        self._device_rows()
        self._packing_rows()
        self._order_rows()
        self._host_rows()
        self._value_rows()
        return self._assembled()

    def _row(self, family: str, terms: list[tuple[int, float]], low: float, high: float) -> None:
        number = len(self._high)
        self._entries += [(number, column, factor) for column, factor in terms]
        self._low.append(low)
        self._high.append(high)
        self._families.append(family)

    def _device_rows(self) -> None:
        held: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
        work: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for number, (place, slot) in enumerate(self.columns):
            block = self.blocks.all[place]
            for at in range(slot, slot + block.ticks // self.slot):
                held[block.pool, at].append((number, float(block.devices)))
            work[block.pool].append((number, block.devices * block.ticks))
        for (pool, _), terms in sorted(held.items()):
            count = self.problem.pools[pool].devices
            if sum(factor for _, factor in terms) > count:
                self._row("devices", terms, -inf, float(count))
        since = min(job.release for job in self.problem.jobs)
        for pool, terms in sorted(work.items()):
            unit = max(1.0, (self.horizon - since) * self.problem.pools[pool].devices)
            self._row("work", [(c, factor / unit) for c, factor in terms], -inf, 1.0 + LEEWAY)

    def _packing_rows(self) -> None:
        """Rows of those functions that say more of some block than its length does."""
        if not self.makespan:
            return
        whole = self.horizon - min(job.release for job in self.problem.jobs)
        by_pool: dict[int, list[tuple[int, Block]]] = defaultdict(list)
        for number, (place, _) in enumerate(self.columns):
            block = self.blocks.all[place]
            if block.ticks:
                by_pool[block.pool].append((number, block))
        for pool, entries in sorted(by_pool.items()):
            lengths = sorted({block.ticks for _, block in entries})
            count = self.problem.pools[pool].devices
            for image in dual_feasible(lengths, whole):
                terms = [
                    (number, float(block.devices * image[block.ticks]))
                    for number, block in entries
                    if image[block.ticks]
                ]
                self._row("packing", terms, -inf, count + LEEWAY)

    def _order_rows(self) -> None:
        begins: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        ends: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        for number, (place, slot) in enumerate(self.columns):
            block = self.blocks.all[place]
            started = slot + ceil_div(block.load, self.slot)
            stopped = slot + (block.load + block.run) // self.slot
            stored = slot + block.ticks // self.slot
            begins[block.job, block.first].append((number, slot, started))
            ends[block.job, block.last].append((number, stored, stopped))
        for job, spec in enumerate(self.problem.jobs):
            for unit in range(len(spec.units) - 1):
                late = [(c, at) for c, _, at in begins[job, unit + 1]]
                self._precede("order", [(c, at) for c, _, at in ends[job, unit]], late)
            for before, after in _returns(spec):
                late = [(c, at) for c, at, _ in begins[job, after]]
                if self.blocks.serial:
                    self._precede("home", [(c, at) for c, at, _ in ends[job, before]], late)

    def _precede(
        self, family: str, early: list[tuple[int, int]], late: list[tuple[int, int]]
    ) -> None:
        """No column of ``late`` is there by a slot unless one of ``early`` is."""
        for slot in sorted({at for _, at in late}):
            terms = [(c, 1.0) for c, at in late if at <= slot]
            terms += [(c, -1.0) for c, at in early if at <= slot]
            self._row(family, terms, -inf, 0.0)

    def _host_rows(self) -> None:
        host, jobs = self.problem.host, self.problem.jobs
        if host is None or not any(job.host for job in jobs):
            return
        changes: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for number, (place, slot) in enumerate(self.columns):
            block, job = self.blocks.all[place], jobs[self.blocks.all[place].job]
            end = slot + block.ticks // self.slot
            if block.first == 0:
                changes[slot].append((number, job.host / max(1, host)))
            if block.last == len(job.units) - 1:
                changes[end].append((number, -job.host / max(1, host)))
        so_far: dict[int, float] = defaultdict(float)
        for at in sorted(changes):
            for number, factor in changes[at]:
                so_far[number] += factor
            if any(factor > 0 for _, factor in changes[at]):
                terms = [(c, factor) for c, factor in so_far.items() if factor]
                self._row("host", terms, -inf, min(1, host) + LEEWAY)

    def _value_rows(self) -> None:
        if self.makespan:
            return
        terms = []
        for number, (place, slot) in enumerate(self.columns):
            block, job = self.blocks.all[place], self.problem.jobs[self.blocks.all[place].job]
            if block.last == len(job.units) - 1 and job.weight:
                end = max(slot * self.slot, job.release) + block.ticks
                terms.append((number, job.weight * end / max(1, self.target)))
        self._row("value", terms, -inf, min(1, self.target) + LEEWAY)

    def _assembled(self) -> CompiledModel:
        rows, columns, factors = zip(*self._entries, strict=True)
        count = len(self.columns)
        entries = (np.array(factors, float), (np.array(rows, int), np.array(columns, int)))
        matrix: Any = csr_array(entries, shape=(len(self._high), count))
        return CompiledModel(
            cost=np.zeros(count),
            offset=0.0,
            matrix=matrix,
            row_lower=np.array(self._low, float),
            row_upper=np.array(self._high, float),
            column_lower=np.zeros(count),
            column_upper=np.ones(count),
            integrality=np.ones(count, np.uint8),
            columns=[("x", column) for column in self.columns],
            row_families=self._families,
        )


def _returns(job: Job) -> Iterator[tuple[int, int]]:
    """Pairs of units that use the same weights one after the other with others in between."""
    last: dict[str, int] = {}
    for unit, spec in enumerate(job.units):
        name = spec.weights
        if name is None:
            continue
        if name in last:
            yield last[name], unit
        last[name] = unit


def decoded(model: Slotted, chosen: list[Column]) -> JobsPlan | None:
    """Return the plan of a solution: its blocks in their order, each as early as it can be.

    Where the host is scarce, blocks stay in their slots. ``None`` where loads were left out.
    """
    problem, blocks = model.problem, model.blocks
    if not blocks.serial:
        return None
    free = [[0] * pool.devices for pool in problem.pools]
    ready = [job.release for job in problem.jobs]
    home: dict[tuple[int, str | None], int] = {}
    runs: list[Run] = []
    order = sorted(chosen, key=lambda c: (c[1], blocks.all[c[0]].first, blocks.all[c[0]].ticks))
    for place, slot in order:
        block = blocks.all[place]
        job, lanes = problem.jobs[block.job], free[block.pool]
        name = job.units[block.first].weights
        begin = max(job.release, ready[block.job] - block.load, home.get((block.job, name), 0))
        if problem.host is not None:
            begin = max(begin, slot * model.slot)
        begin = max(begin, sorted(lanes)[block.devices - 1])
        fit = sorted((at for at in range(len(lanes)) if lanes[at] <= begin), key=lanes.__getitem__)
        devices = tuple(sorted(fit[-block.devices :]))
        runs += _runs(job, block, devices, begin)
        for device in devices:
            lanes[device] = begin + block.ticks
        ready[block.job] = begin + block.load + block.run
        home[block.job, name] = begin + block.ticks
    return JobsPlan(problem.name, tuple(runs), problem.fingerprint)


def _runs(job: Job, block: Block, devices: tuple[int, ...], begin: int) -> Iterator[Run]:
    at = begin + block.load
    for unit, option in zip(range(block.first, block.last + 1), block.options, strict=True):
        stop = at + job.units[unit].options[option].ticks
        moved = job.units[unit].weights is not None
        load = begin if moved and unit == block.first else None
        store = stop if moved and unit == block.last else None
        yield Run(job.name, unit, option, devices, at, load, store)
        at = stop
