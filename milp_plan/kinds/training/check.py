"""The checker of training plans: every rule of ``docs/laws.md``, from the configuration alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from milp_plan.check.statement import misattributed, overclaimed
from milp_plan.core import Counts, Verdict, Violation

from .configuration import Configuration
from .problem import TrainingPlan, TrainingProblem
from .replay import NoScheduleError
from .rules import beyond_memory, exceeded, other_than_fixed
from .step import Costs, derive

OBJECTIVE = "step"
"""Time of one training step, nanoseconds."""


def verify(
    problem: TrainingProblem,
    plan: TrainingPlan,
    costs: Costs,
    refused: Callable[[Configuration], Iterable[str]],
) -> Verdict:
    """Check a plan against every law and recompute its value; never raises.

    Parameters
    ----------
    problem, plan
        What is checked.
    costs
        Of passes, memory and what follows the passes: those that plans are made by.
    refused
        Why the framework of the problem cannot run a configuration.

    Returns
    -------
    Verdict
        Value: time of a step in nanoseconds; ``None`` if the configuration cannot run. Components:
        passes, what follows them, and the peak memory of each pipeline stage.
    """
    broken = [*misattributed(problem, plan)]
    broken += [Violation("degrees", (), reason) for reason in problem.reasons(plan.configuration)]
    broken += other_than_fixed(problem, plan.configuration)
    name = problem.framework
    broken += [
        Violation("framework", (name,), f"{name}: {reason}")
        for reason in refused(plan.configuration)
    ]
    if any(violation.rule == "degrees" for violation in broken):
        return Verdict(tuple(broken), OBJECTIVE, None)
    try:
        step = derive(plan.configuration, costs.priced(plan.configuration))
    except NoScheduleError as error:
        broken.append(Violation("schedule", (str(plan.configuration.schedule),), str(error)))
        return Verdict(tuple(broken), OBJECTIVE, None)
    broken += beyond_memory(problem, plan.configuration, step.peaks)
    broken += _beyond_host(problem, plan.configuration, step.host_peaks)
    broken += overclaimed(problem, plan, step.step_ns, "a step", Counts.TIME)
    parts = {"passes": step.played.makespan_ns, "after": step.after_ns}
    parts |= {f"peak_memory stage {stage}": peak for stage, peak in enumerate(step.peaks)}
    parts |= {f"host_memory stage {stage}": peak for stage, peak in enumerate(step.host_peaks)}
    return Verdict(tuple(broken), OBJECTIVE, step.step_ns, parts)


def _beyond_host(
    problem: TrainingProblem, configuration: Configuration, peaks: Sequence[int]
) -> Iterator[Violation]:
    limits = [problem.host_limit(configuration, stage) for stage in range(len(peaks))]
    for stage, peak, limit in exceeded(peaks, limits):
        text = f"the host lacks memory for a device of pipeline stage {stage}"
        yield Violation("host memory", (f"stage {stage}",), text, peak, limit, Counts.SIZE)
