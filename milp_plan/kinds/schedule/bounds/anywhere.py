"""Bounds where operators may run again or values may wait on hosts.

Other bounds rest on values that travel from their only producer, and on bytes that stay from
producer to reader. Neither is sure here, so a problem is relaxed before they are asked.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from milp_plan.core import Channel, CommunicationModel, PlanningProblem, Value
from milp_plan.core.view import view


@view
def anywhere(problem: PlanningProblem) -> PlanningProblem:
    """Return the problem without hosts in which each value is everywhere once it is made.

    Each operator runs once, transfers and changes of layout take no time and hold nothing.
    Results of operators that may run again are not kept: they may stay where another run was.

    Proof that makespan, span and busy times are relaxed, where memory has no limit: take a plan
    of the problem and keep, of each operator, the run that stops first. What a kept run reads
    stems, over transfers and hosts, from some run of the value's producer that stopped before;
    the kept run of that producer stopped no later, and a transfer of no length from there is
    complete at once. Sites, groups and exclusion are kept by leaving runs out, and no stop, span
    or busy time grows.

    Proof for what one operator needs beside its colocated operators' persistent values, under
    the given limits: every operator runs at least once, and while it does its site holds its
    workspace, its inputs and its outputs, wherever the inputs came from.
    """
    plain = problem.without_memory_saving
    again = {operator.name for operator in problem.graph.operators if operator.recomputable}
    values = (replace(v, kept=False) if v.producer in again else v for v in plain.graph.values)
    names = plain.cluster.device_names
    return replace(
        plain,
        graph=replace(plain.graph, values=tuple(map(_weightless, values))),
        cluster=replace(
            plain.cluster,
            channels=tuple(Channel(a, b, 0, 1) for a, b in permutations(names, 2)),
            communication=CommunicationModel.DELAY,
        ),
    )


@view
def anywhere_unlimited(problem: PlanningProblem) -> PlanningProblem:
    """Return the same without memory limits."""
    relaxed = anywhere(problem)
    limits = dict.fromkeys(relaxed.cluster.device_names)
    return replace(relaxed, cluster=relaxed.cluster.with_memory(limits))


def _weightless(value: Value) -> Value:
    return replace(
        value,
        transfer_bytes=dict.fromkeys(value.bytes, 0),
        messages=1,
        reshard_ticks=dict.fromkeys(permutations(value.bytes, 2), 0),
    )
