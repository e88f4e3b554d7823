"""Operators that no device can hold: bad input rather than a hard problem."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from milp_plan.core import Finding, MemoryLaw, Placement, PlanningProblem
from milp_plan.core.amounts import size_text


class _Misfit(NamedTuple):
    """How much a placement of an operator needs, and the smallest memory it would need it in."""

    need: int
    memory: int
    placement: Placement


def oversized(problem: PlanningProblem) -> list[Finding]:
    """List the operators that exceed a memory wherever they run.

    While an operator runs, each of its devices holds its workspace and all its inputs and
    outputs in the layouts of its option (docs/laws.md, memory); under the serial law inputs made
    elsewhere are streamed and take nothing. An operator that takes no time
    need not hold them under the law ``instant``: then only its persistent inputs count, and these
    only when the plan takes time at all.
    """
    lasting = any(
        all(
            problem.duration_ns(operator.name, placement) > 0
            for placement in problem.unlike_placements(operator.name)
        )
        for operator in problem.graph.operators
    )
    findings = []
    for operator in problem.graph.operators:
        name = operator.name
        misfits = []
        for placement in problem.unlike_placements(name):
            misfit = _misfit(problem, name, placement, lasting)
            if misfit is None:
                break
            misfits.append(misfit)
        else:
            findings.append(_finding(problem, name, misfits))
    return findings


def _misfit(
    problem: PlanningProblem, operator: str, placement: Placement, lasting: bool
) -> _Misfit | None:
    limits = [problem.cluster.device(name).memory_bytes for name in placement.devices]
    memory = min((limit for limit in limits if limit is not None), default=None)
    if memory is None:
        return None
    need = _need_bytes(problem, operator, placement, lasting)
    return _Misfit(need, memory, placement) if need > memory else None


def _need_bytes(
    problem: PlanningProblem, operator: str, placement: Placement, lasting: bool
) -> int:
    graph = problem.graph
    option = graph.operator(operator).option(placement.option)
    inputs = graph.inputs[operator]
    persistent = sum(v.bytes[option.layout_read(v.name)] for v in inputs if v.persistent)
    if problem.memory_law is MemoryLaw.INSTANT and not problem.duration_ns(operator, placement):
        return persistent if lasting else 0
    copies = () if problem.serial is not None else [v for v in inputs if not v.persistent]
    read = sum(v.bytes[option.layout_read(v.name)] for v in copies)
    written = sum(v.bytes[option.layout_written(v.name)] for v in graph.outputs[operator])
    return option.workspace_bytes + persistent + read + written


def _finding(problem: PlanningProblem, operator: str, misfits: list[_Misfit]) -> Finding:
    least = min(misfits, key=lambda misfit: misfit.need)
    devices = {name for place in problem.placements(operator) for name in place.devices}
    limits = {name: problem.cluster.device(name).memory_bytes or 0 for name in sorted(devices)}
    largest = max(limits, key=lambda name: limits[name])
    option, site = least.placement
    text = partial(size_text, problem.units)
    return Finding(
        f"operator {operator!r}",
        f"a need of at least {text(least.need)} (option {option!r} on {'+'.join(site)}, "
        f"which has {text(least.memory)})",
        f"a need that fits a memory; the largest it may use is {text(limits[largest])} "
        f"({largest!r})",
        "add an option that needs less, or a device with more memory",
    )
