"""The best layers of a configuration's stages, by the formulation ``training_stages``.

The formulation minimises the closed form of a step; the replay decides between what it finds and
the layers that the configuration has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor

from milp_plan.backends import Limits, Stop
from milp_plan.backends.highs import solve
from milp_plan.models.protocol import Guide
from milp_plan.models.registry import get
from milp_plan.models.validated import compile_source

from .check_stages import verify_training_stages
from .configuration import Configuration, Recompute
from .costing import PlanCosts
from .stage_costs import stages_problem
from .stages_problem import Counts, TrainingStagesPlan, TrainingStagesProblem, peaks_of, step_of
from .step import TrainingStep, derive, excess_of, host_excess


@dataclass(frozen=True, slots=True)
class Stages:
    """An answer: layers and recomputation of a configuration.

    Parameters
    ----------
    problem, plan
        The problem of layers on stages, and the best plan found; ``None`` where there is none.
    bound
        No plan of that problem is faster; ``None`` where nothing is proved.
    stop
        Why the solver stopped.
    even
        The best plan with the layers that the configuration has, all running in one way; ``None``
        where none fits.
    candidates
        Configurations that say what the two plans do, with their replays, the fastest first; those
        that need more memory than there is are left out.
    columns
        Of the model.
    seconds
        That the solver took.
    """

    problem: TrainingStagesProblem
    plan: TrainingStagesPlan | None
    bound: int | None
    stop: Stop
    even: TrainingStagesPlan | None
    candidates: tuple[tuple[Configuration, TrainingStep], ...]
    columns: int
    seconds: float

    @property
    def proved(self) -> bool:
        """Whether no plan of the problem of layers on stages is better."""
        return self.stop is Stop.PROVED

    @property
    def configuration(self) -> Configuration | None:
        """The fastest candidate by its replay."""
        return self.candidates[0][0] if self.candidates else None


def fastest_stages(
    costs: PlanCosts,
    configuration: Configuration,
    ways: tuple[Recompute, ...] | None = None,
    time_limit_s: float = 20.0,
) -> Stages:
    """Return the best layers of a configuration by the formulation ``training_stages``.

    The layers that the configuration has, such as an even split, are the solver's start, and the
    replay decides between the two.

    Parameters
    ----------
    costs, configuration, ways
        As of :func:`stages_problem`.
    time_limit_s
        Seconds of the solver at most.

    Raises
    ------
    ValueError
        As :func:`why_no_stages` says.
    """
    problem = stages_problem(costs, configuration, ways)
    formulation = get("training_stages").formulation
    assert formulation is not None
    options, guide = formulation.Options(), Guide()
    source = formulation.build(problem, options, guide)
    model = compile_source(source)
    even = split_as(problem, configuration.chunk_layers(costs.problem.architecture))
    start = None if even is None else formulation.encode(problem, options, source, even)
    begin = None if start is None else model.vector(start)
    report = solve(model, Limits(time_s=time_limit_s, gap=1e-9), begin)
    bound: int | None = None
    plan: TrainingStagesPlan | None = None
    if report.bound is not None:
        unit = formulation.scale(problem, options, guide).unit
        bound = floor(report.bound * unit * (1 - 1e-9))
    if report.solution is not None:
        plan = formulation.decode(problem, options, guide, model.name_values(report.solution))
        if plan is not None and not verify_training_stages(problem, plan).ok:
            plan = None  # a rounded solution that breaks a limit is none
    made = [with_stages(configuration, problem, one) for one in (plan, even) if one is not None]
    candidates = _replayed(costs, [_within_memory(costs, one) for one in made if one is not None])
    if plan is not None and made[0] is None:  # several ways at once: the best with one of them
        some = (Recompute.NONE, _most_used(problem, plan))
        one_way = fastest_stages(costs, configuration, some, time_limit_s)
        candidates = tuple(sorted((*candidates, *one_way.candidates), key=lambda p: p[1].step_ns))
    columns = model.num_columns
    return Stages(problem, plan, bound, report.stop, even, candidates, columns, report.seconds)


def _replayed(
    costs: PlanCosts, configurations: list[Configuration]
) -> tuple[tuple[Configuration, TrainingStep], ...]:
    """Return the configurations that fit with their replays, the fastest first."""
    steps = [(c, derive(c, costs.priced(c))) for c in dict.fromkeys(configurations)]
    fit = [
        (c, step)
        for c, step in steps
        if excess_of(costs.problem, c, step.peaks)[0] <= 0
        and host_excess(costs.problem, c, step.host_peaks) <= 0
    ]
    return tuple(sorted(fit, key=lambda pair: pair[1].step_ns))


def with_stages(
    configuration: Configuration, problem: TrainingStagesProblem, plan: TrainingStagesPlan
) -> Configuration | None:
    """Return the configuration with the layers of a plan; ``None`` where it cannot say them.

    A configuration has one kind of recomputation, of some of the blocks of each chunk.
    """
    layers = plan.layers
    totals = [
        tuple(sum(row[way] for row in chunk) for chunk in plan.counts)
        for way in range(len(problem.ways))
    ]
    used = {name: row for name, row in zip(problem.ways, totals, strict=True) if any(row)}
    again = {name: row for name, row in used.items() if name != Recompute.NONE}
    if len(again) > 1:
        return None
    base = replace(configuration, layers=layers, recomputed=0, recomputed_by_chunk=())
    if not again:
        return replace(base, recompute=Recompute.NONE)
    ((name, row),) = again.items()
    some = () if row == layers else row
    return replace(base, recompute=Recompute(name), recomputed_by_chunk=some)


def _within_memory(costs: PlanCosts, c: Configuration) -> Configuration:
    """Return it with more blocks that save memory on stages that lack some in their replay.

    A plan says which kinds of blocks of a chunk save memory, a configuration how many blocks.
    """
    layers = c.chunk_layers(costs.problem.architecture)
    counts = c.recomputed_by_chunk
    while c.recompute is not Recompute.NONE and counts:
        peaks = derive(c, costs.priced(c)).peaks
        over = {s for s, peak in enumerate(peaks) if peak > costs.problem.limit_bytes(c, s)}
        more = (n + (c.device_of(k) in over) for k, n in enumerate(counts))
        grown = tuple(min(n, most) for n, most in zip(more, layers, strict=True))
        if grown == counts:
            break
        counts = grown
        c = replace(c, recomputed_by_chunk=counts)
    return c


def _most_used(problem: TrainingStagesProblem, plan: TrainingStagesPlan) -> Recompute:
    """Return the way to save memory that most layers take."""
    totals = {
        name: sum(row[way] for chunk in plan.counts for row in chunk)
        for way, name in enumerate(problem.ways)
        if name != Recompute.NONE
    }
    return Recompute(max(totals, key=lambda name: totals[name]))


def split_as(problem: TrainingStagesProblem, layers: tuple[int, ...]) -> TrainingStagesPlan | None:
    """Return the best plan with these layers of each chunk in which all run in one way.

    With the numbers of an even split this is what frameworks do by default; ``None`` where no such
    plan fits.
    """
    best = None
    for way in range(len(problem.ways)):
        counts = _dealt(problem, layers, way)
        value = step_of(problem, counts)
        peaks = zip(peaks_of(problem, counts), problem.devices, strict=True)
        fits = all(d.limit is None or peak <= d.limit for peak, d in peaks)
        if fits and (best is None or best.value is None or value < best.value):
            best = TrainingStagesPlan(problem.name, counts, problem.fingerprint, value, "split")
    return best


def _dealt(problem: TrainingStagesProblem, layers: tuple[int, ...], way: int) -> Counts:
    left = [run.count for run in problem.runs]
    counts = []
    for number in layers:
        rows, missing = [], number
        for run in range(len(left)):
            taken = min(left[run], missing)
            left[run], missing = left[run] - taken, missing - taken
            rows.append(tuple(taken if w == way else 0 for w in range(len(problem.ways))))
        counts.append(tuple(rows))
    return tuple(counts)
