"""Columns and rows of blocks in slots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from milp_plan.api import Tableau
from milp_plan.kinds.jobs.blocks import Block, Grid
from milp_plan.kinds.jobs.bounds import Sizes
from milp_plan.kinds.jobs.problem import Job, JobsObjective

from .dual_feasible import dual_feasible

LEEWAY = 1e-6
"""By which rows of sums of times are wider than they are: floats may not cut off a plan."""

Column = tuple[str, Hashable]
"""Family ``x`` with number of a block and slot, or :data:`END`."""

END: Column = ("end", 0)
"""Column of the makespan."""


@dataclass
class Rows:
    """The model that asks for plans up to a value, or for the best one.

    Parameters
    ----------
    grid
        Slots of the horizon.
    target
        The value that is asked for; ``None`` for any.
    minimise
        Whether there is an objective.
    """

    grid: Grid
    target: int | None
    minimise: bool
    table: Tableau = field(default_factory=Tableau, init=False, repr=False)

    def __post_init__(self) -> None:
        self.blocks, self.problem = self.grid.blocks, self.grid.blocks.problem
        self.horizon, self.slot = self.grid.horizon, self.grid.slot
        self.makespan = self.problem.objective is JobsObjective.MAKESPAN
        self.since = min(job.release for job in self.problem.jobs)
        weights = [] if self.makespan else [job.weight for job in self.problem.jobs]
        self.unit = self.slot * max([1, *weights])  # of the objective

    @cached_property
    def columns(self) -> list[tuple[Column, Block, int]]:
        """What may begin where: behind the release and all earlier units, before all later ones."""
        heads, tails = self._reach()
        mirrored = self._mirrored()
        found: list[tuple[Column, Block, int]] = []
        for number, block in enumerate(self.blocks.all):
            job = self.problem.jobs[block.job]
            head = heads[block.job][block.first] - block.load
            soonest = max(job.release, head)
            latest = self.horizon - tails[block.job][block.last] - block.load - block.run
            latest = min(latest, self.horizon - block.ticks)
            if block.job == mirrored:
                latest = min(latest, (self.horizon - block.ticks) // 2)
            if latest >= soonest:
                slots = range(soonest // self.slot, latest // self.slot + 1)
                found += [(("x", (number, slot)), block, slot) for slot in slots]
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

    def end_of(self, block: Block, slot: int) -> int:
        """Return the least ticks until a block ends that begins in a slot."""
        return max(slot * self.slot, self.problem.jobs[block.job].release) + block.ticks

    def written(self) -> Tableau:
        """Return the model; where a unit has no column, there is no such plan, and no more rows."""
        for column, block, slot in self.columns:
            self.table.column(column, self._cost(block, slot))
        if self.minimise and self.makespan:
            self.table.column(END, 1.0, upper=self.horizon / self.slot, integer=False)
        if self._once_rows():
            self._device_rows()
            self._packing_rows()
            self._order_rows()
            self._host_rows()
            self._value_rows()
        return self.table

    def _cost(self, block: Block, slot: int) -> float:
        if self.makespan or not self.minimise or not self._completes(block):
            return 0.0
        return self.problem.jobs[block.job].weight * self.end_of(block, slot) / self.unit

    def _completes(self, block: Block) -> bool:
        return block.last == len(self.problem.jobs[block.job].units) - 1

    def _most(self, family: str, terms: Iterable[tuple[Column, float]], most: float) -> None:
        self.table.row(family, terms, -inf, most)

    def _once_rows(self) -> bool:
        covered: dict[tuple[int, int], list[Column]] = defaultdict(list)
        for column, block, _ in self.columns:
            for unit in range(block.first, block.last + 1):
                covered[block.job, unit].append(column)
        for job, spec in enumerate(self.problem.jobs):
            for unit in range(len(spec.units)):
                columns = covered[job, unit]
                self.table.row("once", [(column, 1.0) for column in columns], 1.0, 1.0)
                if not columns:
                    return False
        return True

    def _device_rows(self) -> None:
        held: dict[tuple[int, int], list[tuple[Column, float]]] = defaultdict(list)
        work: dict[int, list[tuple[Column, float]]] = defaultdict(list)
        for column, block, slot in self.columns:
            for at in range(slot, slot + block.ticks // self.slot):
                held[block.pool, at].append((column, float(block.devices)))
            work[block.pool].append((column, block.devices * block.ticks))
        for (pool, _), terms in sorted(held.items()):
            count = self.problem.pools[pool].devices
            if sum(factor for _, factor in terms) > count:
                self._most("devices", terms, float(count))
        for pool, terms in sorted(work.items()):
            count = self.problem.pools[pool].devices
            unit = max(1.0, (self.horizon - self.since) * count)
            self._most("work", [(c, factor / unit) for c, factor in terms], 1.0 + LEEWAY)
            if self.minimise and self.makespan:
                rate = self.slot * count
                paid = [(END, -1.0), *((c, factor / rate) for c, factor in terms)]
                self._most("work", paid, -self.since / self.slot)

    def _packing_rows(self) -> None:
        """Rows of those functions that say more of some block than its length does."""
        if not self.makespan:
            return
        by_pool: dict[int, list[tuple[Column, tuple[int, int]]]] = defaultdict(list)
        for column, block, _ in self.columns:
            if block.ticks:
                by_pool[block.pool].append((column, (block.devices, block.ticks)))
        for pool, entries in sorted(by_pool.items()):
            sizes = {size for _, size in entries}
            lengths = sorted({ticks for _, ticks in sizes})
            count = self.problem.pools[pool].devices
            for image in dual_feasible(lengths, self.horizon - self.since):
                worth = {(g, ticks): float(g * image[ticks]) for g, ticks in sizes if image[ticks]}
                terms = [(column, worth[size]) for column, size in entries if size in worth]
                self._most("packing", terms, count + LEEWAY)

    def _order_rows(self) -> None:
        begins: dict[tuple[int, int], list[tuple[Column, int, int]]] = defaultdict(list)
        ends: dict[tuple[int, int], list[tuple[Column, int, int]]] = defaultdict(list)
        for column, block, slot in self.columns:
            started = slot - (-block.load // self.slot)
            stopped = slot + (block.load + block.run) // self.slot
            stored = slot + block.ticks // self.slot
            begins[block.job, block.first].append((column, slot, started))
            ends[block.job, block.last].append((column, stored, stopped))
        for job, spec in enumerate(self.problem.jobs):
            for unit in range(len(spec.units) - 1):
                late = [(c, at) for c, _, at in begins[job, unit + 1]]
                self._precede("order", [(c, at) for c, _, at in ends[job, unit]], late)
            for before, after in _returns(spec):
                late = [(c, at) for c, at, _ in begins[job, after]]
                if self.blocks.serial:
                    self._precede("home", [(c, at) for c, at, _ in ends[job, before]], late)

    def _precede(
        self, family: str, early: list[tuple[Column, int]], late: list[tuple[Column, int]]
    ) -> None:
        """No column of ``late`` is there by a slot unless one of ``early`` is."""
        for slot in sorted({at for _, at in late}):
            terms = [(c, 1.0) for c, at in late if at <= slot]
            terms += [(c, -1.0) for c, at in early if at <= slot]
            self._most(family, terms, 0.0)

    def _host_rows(self) -> None:
        host, jobs = self.problem.host, self.problem.jobs
        if host is None or not any(job.host for job in jobs):
            return
        changes: dict[int, list[tuple[Column, float]]] = defaultdict(list)
        for column, block, slot in self.columns:
            part = jobs[block.job].host / max(1, host)
            if block.first == 0:
                changes[slot].append((column, part))
            if self._completes(block):
                changes[slot + block.ticks // self.slot].append((column, -part))
        so_far: dict[Column, float] = defaultdict(float)
        for at in sorted(changes):
            for column, factor in changes[at]:
                so_far[column] += factor
            if any(factor > 0 for _, factor in changes[at]):
                terms = [(c, factor) for c, factor in so_far.items() if factor]
                self._most("host", terms, min(1, host) + LEEWAY)

    def _value_rows(self) -> None:
        """What is complete when: by the target, or by the makespan that is minimised."""
        ends: dict[int, list[tuple[Column, int]]] = defaultdict(list)
        for column, block, slot in self.columns:
            if self._completes(block):
                ends[block.job].append((column, self.end_of(block, slot)))
        if self.makespan:
            for terms in ends.values() if self.minimise else ():
                self._most("end", [(END, -1.0), *((c, at / self.slot) for c, at in terms)], 0.0)
        elif self.target is not None:
            whole, jobs = max(1, self.target), self.problem.jobs
            weighted = [
                (column, jobs[job].weight * at / whole)
                for job, terms in ends.items()
                for column, at in terms
                if jobs[job].weight
            ]
            self._most("value", weighted, min(1, self.target) + LEEWAY)


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
