"""Exact removal of dominated and impossible options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from milp_plan.core import (
    ComputationGraph,
    MemoryLaw,
    Operator,
    OperatorRun,
    Option,
    Placement,
    Plan,
    PlanningProblem,
)

from .reduction import Reduction


class UselessOptions:
    """Remove options that some optimal plan does not use. Exact.

    *Impossible*: no site admits the option, or on every admissible site some device is too small
    for what the operator needs at once while it runs (workspace, every input, every output). No
    valid plan uses such an option.

    *Dominated* by another option of the operator: same gang, same layouts, at least the same
    device classes, nowhere slower, no more workspace. Proof: in any plan put the other option on
    the same site at the same start. The run stops no later, so every transfer and reader finds
    its copy complete, every lifetime shrinks or stays, and a task that got shorter stays within
    its old interval; makespan, spans, busy times and memory do not grow.
    """

    name = "useless options"
    exact = True

    def apply(self, problem: PlanningProblem) -> Reduction | None:
        """Remove the options; ``None`` if all are useful."""
        slim = {operator.name: _slim(problem, operator) for operator in problem.graph.operators}
        for members in problem.graph.groups.values():
            if not _common_sites(problem, [slim[name] for name in members]):
                slim |= {name: problem.graph.operator(name) for name in members}
        operators = tuple(slim.values())
        if operators == problem.graph.operators:
            return None
        graph = ComputationGraph(operators, problem.graph.values)
        after = replace(problem, graph=graph)

        def undo(plan: Plan) -> Plan:
            return replace(plan, fingerprint=None)

        def project(plan: Plan) -> Plan | None:
            runs = [_with_useful_option(after, run) for run in plan.runs]
            result = tuple(run for run in runs if run is not None)
            return (
                replace(plan, runs=result, fingerprint=None) if len(result) == len(runs) else None
            )

        alone = {name: (name,) for name in slim}
        return Reduction(self.name, self.exact, problem, after, undo, alone, project)


def _with_useful_option(after: PlanningProblem, run: OperatorRun) -> OperatorRun | None:
    """Return the run with a remaining option: its own, or the fastest on its site."""
    able = [p for p in after.placements(run.operator) if p.devices == run.devices]
    if not able or any(p.option == run.option for p in able):
        return run if able else None
    best = min(able, key=lambda placement: after.duration_ticks(run.operator, placement))
    return replace(run, option=best.option)


def _common_sites(problem: PlanningProblem, operators: Sequence[Operator]) -> set[tuple[str, ...]]:
    """Return the sites that all operators can use; without any the problem is infeasible."""
    result = []
    for operator in operators:
        kept = {option.name for option in operator.options}
        ways = problem.placements(operator.name)
        result.append({way.devices for way in ways if way.option in kept})
    return set.intersection(*result)


def _slim(problem: PlanningProblem, operator: Operator) -> Operator:
    if len(operator.options) == 1:
        return operator
    placeable = {
        placement.option
        for placement in problem.placements(operator.name)
        if fits_alone(problem, operator, placement)
    }
    kept = [option for option in operator.options if option.name in placeable]
    if not kept:  # nothing fits: leave the proof of infeasibility to the planner
        return operator
    inputs = [value.name for value in problem.graph.inputs[operator.name]]
    outputs = [value.name for value in problem.graph.outputs[operator.name]]
    kept = undominated(kept, inputs, outputs)
    return (
        operator if len(kept) == len(operator.options) else replace(operator, options=tuple(kept))
    )


def fits_alone(problem: PlanningProblem, operator: Operator, placement: Placement) -> bool:
    """Return whether each device of a site can hold what the operator alone needs."""
    option = operator.option(placement.option)
    limits = [problem.cluster.device(d).memory_bytes for d in placement.devices]
    limit = min((bytes_ for bytes_ in limits if bytes_ is not None), default=None)
    if limit is None:
        return True
    graph = problem.graph
    lasts = problem.duration_ticks(operator.name, placement) > 0
    needed = sum(
        value.bytes[option.layout_read(value.name)]
        for value in graph.inputs[operator.name]
        if lasts or value.persistent
    )
    counts = lasts or problem.memory_law is MemoryLaw.STATIC
    needed += option.workspace_bytes if counts else 0
    needed += sum(
        value.bytes[option.layout_written(value.name)]
        for value in graph.outputs[operator.name]
        if counts or value.is_kept
    )
    return needed <= limit


def undominated(
    options: Sequence[Option], inputs: Sequence[str], outputs: Sequence[str]
) -> list[Option]:
    """Return the options that no other one dominates; of equal ones the first.

    ``inputs`` and ``outputs`` name the values the operator reads and makes.
    """
    kept: list[Option] = []

    def dominates(better: Option, worse: Option) -> bool:
        if better.gang != worse.gang or better.workspace_bytes > worse.workspace_bytes:
            return False
        for name, ticks in worse.duration_ticks.items():
            if name not in better.duration_ticks or better.duration_ticks[name] > ticks:
                return False
        return all(better.layout_read(name) == worse.layout_read(name) for name in inputs) and all(
            better.layout_written(name) == worse.layout_written(name) for name in outputs
        )

    for position, option in enumerate(options):
        later = [rival for rival in options[position + 1 :] if dominates(rival, option)]
        if any(dominates(rival, option) for rival in kept):
            continue
        if all(dominates(option, rival) for rival in later):
            kept.append(option)
    return kept
