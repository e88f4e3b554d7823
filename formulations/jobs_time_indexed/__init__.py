r"""Jobs by time slots: a relaxation that is exact where slots divide all times; no big-M.

A *block* is one or more units of a job, one behind the other on the same devices by options of one
pool (:mod:`milp_plan.kinds.jobs.blocks`). Slots are D ticks long; a block b that holds its devices
for d_b ticks has n_b = floor(d_b / D). The columns x[b,t] say that b begins, load and all, in
slot t. T is the value that is asked for, H a horizon that some best plan of at most that value
keeps, C the makespan where it is minimised.

============  ====================================================================================
``once``      sum of x[b,t] over b with unit u and all t = 1            each unit u
``devices``   sum of g_b x[b,t], t <= s < t + n_b, <= G_p                each pool p and slot s
``order``     sum of x[b,t] whose run starts by slot s, b begins with unit u + 1
              <= sum of x[b,t] whose run stops by slot s, b ends with unit u  each link, each s
``home``      the same for loads and stores of weights that return to the host in between
``host``      sum of h_j (blocks of j's first unit begun by s - of its last unit over by s) <= host
``work``      sum of g_b d_b x[b,t] <= G_p (H - min r), and (C - min r)  exact ticks, each pool p
``packing``   sum of g_b f(d_b / (H - min r)) x[b,t] <= G_p             dual feasible f, each pool
``value``     sum of w_j (t D + d_b) x[b,t] over last blocks <= T       weighted completion only
``end``       sum of (t D + d_b) x[b,t] over last blocks of j <= C      each job j, to minimise C
============  ====================================================================================

Every plan of value T or less is a solution: let begin in slot floor(s / D) what begins at s. If b
holds a device before c does, then s_c >= s_b + d_b, so floor(s_c / D) >= floor(s_b / D) + n_b: on
each device blocks overlap in no slot. ``order`` holds for the same reason, with the parts of blocks
rounded down and loads rounded up; jobs that ``host`` counts at slot s are all under way just before
(s + 1) D. Blocks that wait inside, or devices held longer than needed, are not lost: runs of a
block may be moved together, towards the last one, without touching anything else. So if there is no
solution, no plan is as good as T. Where D divides all times, nothing lasts no time, the last store
of a job ends last, and loads cannot overlap with runs (:attr:`.Blocks.serial`), solutions are
plans. Where loads may overlap, they are left out, which relaxes further.

``packing`` holds since on each device the lengths of blocks sum up to at most H - min r; for f see
:mod:`.dual_feasible`. It says how lengths go together where ``work`` says what they add up to.

The start-time form is Sousa and Wolsey's (1992); that Saturn's jobs need no columns for devices
follows from devices being alike: at each instant what runs may hold any that are free.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from milp_plan.api import BuilderFormulation, Card, CompiledModel, Guide, Scale, Values
from milp_plan.kinds.jobs.blocks import NOTHING, blocks_of, grid_of, runs_of
from milp_plan.kinds.jobs.problem import JobsObjective, JobsPlan, JobsProblem, Run

from .rows import END, Rows

NAME = "jobs_time_indexed"


@dataclass(frozen=True)
class Switches:
    """Options of the formulation."""

    slots: int = field(
        default=96, metadata={"help": "slots of the horizon, unless few of them divide all times"}
    )
    minimise: bool = field(
        default=True, metadata={"help": "False: only whether there is a plan up to the cutoff"}
    )


@dataclass(frozen=True)
class SlotModel(CompiledModel):
    """A matrix that knows how many ticks a slot has."""

    slot: int = 1


class JobsTimeIndexed(BuilderFormulation):
    """Bits of blocks and slots."""

    card = Card(
        name=NAME,
        title="Jobs by time slots: no big-M, and a bound for any length of a slot",
        source="this project; start-time form of Sousa and Wolsey (1992)",
        objectives=tuple(JobsObjective),
        exact=False,
        relaxes=True,
    )
    handles = JobsProblem
    Options = Switches

    def unsupported(self, problem: JobsProblem, options: Switches) -> str | None:
        """A unit that fits nowhere, or no slots."""
        if options.slots < 1:
            return "there has to be at least one slot"
        if all(all(units) for units in problem.fits):
            return None
        return "a unit has no option that fits, so there is no plan"

    def encode(
        self, problem: JobsProblem, options: Switches, model: SlotModel, plan: JobsPlan
    ) -> Values | None:
        """Slots of a plan's blocks; ``None`` where some of them is no column."""
        placed = list(_placed(problem, plan))
        chosen = {("x", (number, begin // model.slot)) for number, begin, _ in placed}
        if not chosen <= set(model.columns):
            return None
        values: Values = {END[0]: {END[1]: max(end for _, _, end in placed) / model.slot}}
        for family, index in model.columns:
            if family == "x":
                values.setdefault(family, {})[index] = float((family, index) in chosen)
        return values


class _Builder:
    """One question."""

    def __init__(self, problem: JobsProblem, options: Switches, guide: Guide) -> None:
        self.problem, self.grid = problem, grid_of(problem, options.slots, guide.cutoff)
        self.rows = Rows(self.grid, guide.cutoff, options.minimise)
        self.scale = Scale(float(self.rows.unit), problem.tick)

    def build(self) -> SlotModel:
        """Write the rows."""
        return SlotModel(**vars(self.rows.written().compiled()), slot=self.grid.slot)

    def decode(self, values: Values) -> JobsPlan | None:
        """Return the plan of blocks in their order, each as early as it can be.

        Where the host is scarce, blocks stay in their slots. ``None`` where loads were left out.
        """
        problem, blocks = self.problem, self.grid.blocks
        if not blocks.serial:
            return None
        free = [[0] * pool.devices for pool in problem.pools]
        ready = [job.release for job in problem.jobs]
        home: dict[tuple[int, str | None], int] = {}
        runs: list[Run] = []
        chosen = [(slot, blocks.all[n]) for (n, slot), bit in values["x"].items() if bit > 0.5]
        for slot, block in sorted(chosen, key=lambda c: (c[0], c[1].first, c[1].ticks)):
            job, lanes = problem.jobs[block.job], free[block.pool]
            name = job.units[block.first].weights
            begin = max(job.release, ready[block.job] - block.load, home.get((block.job, name), 0))
            if problem.host is not None:
                begin = max(begin, slot * self.grid.slot)
            begin = max(begin, sorted(lanes)[block.devices - 1])
            fit = [at for at in range(len(lanes)) if lanes[at] <= begin]
            devices = tuple(sorted(sorted(fit, key=lanes.__getitem__)[-block.devices :]))
            start = begin + block.load
            runs += runs_of(job, block.first, block.options, devices, begin, start)
            for device in devices:
                lanes[device] = begin + block.ticks
            ready[block.job] = begin + block.load + block.run
            home[block.job, name] = begin + block.ticks
        return JobsPlan(problem.name, tuple(runs), problem.fingerprint, planner=NAME)


def _placed(problem: JobsProblem, plan: JobsPlan) -> Iterator[tuple[int | None, int, int]]:
    """Numbers of the blocks of a plan, each with the last tick at which it can begin, and its end.

    ``None`` where a unit in the middle runs by another option than the shortest.
    """
    blocks = blocks_of(problem)
    numbers = {(b.job, b.first, b.options): number for number, b in enumerate(blocks.all)}
    by_job: dict[str, list[Run]] = {}
    for run in sorted(plan.runs, key=lambda run: run.unit):
        by_job.setdefault(run.job, []).append(run)
    for place, job in enumerate(problem.jobs):
        block: list[Run] = []
        for run, after in zip_longest(by_job[job.name], by_job[job.name][1:]):
            block.append(run)
            weights = blocks.moved(job.weights_of(run.unit))
            if weights and after is not None and after.load is None:
                continue
            ticks = [job.units[r.unit].options[r.option].ticks for r in block]
            stop = run.start + ticks[-1]
            key = place, block[0].unit, tuple(r.option for r in block)
            moved = weights or NOTHING
            yield numbers.get(key), stop - sum(ticks) - moved.load, stop + moved.store
            block = []


FORMULATION: Any = JobsTimeIndexed(_Builder)
