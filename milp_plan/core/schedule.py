"""The schedule of a plan as tasks on resources, for drawings, exports and execution."""

from __future__ import annotations

from dataclasses import dataclass

from .cluster import Cluster, CommunicationModel
from .errors import MissingFacetError
from .plan import Plan, Transfer
from .problem import PlanningProblem

AGAIN = ", again"
"""Suffix of the kind of a task whose operator has run before."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task that occupies resources for some time.

    ``resources`` are device names for an operator; for a transfer ``a->b``, ``send a`` or
    ``receive b``, by the communication model (none under ``delay``).
    """

    name: str
    kind: str
    resources: tuple[str, ...]
    start_ticks: int
    stop_ticks: int


def transfer_resources(
    cluster: Cluster, source: tuple[str, ...], target: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the resources that a transfer occupies (law 3), each once, in a fixed order."""
    pairs = [(a, b) for a in source for b in target if a != b]
    if cluster.communication is CommunicationModel.CHANNEL:
        return tuple(f"{a}->{b}" for a, b in pairs)
    if cluster.communication is CommunicationModel.ENDPOINT:
        ports = [f"send {a}" for a, _ in pairs] + [f"receive {b}" for _, b in pairs]
        return tuple(dict.fromkeys(ports))
    return ()


def transfer_kind(cluster: Cluster, transfer: Transfer) -> str:
    """Return ``offload`` to a host, ``reload`` from one, ``transfer`` between devices."""
    if not cluster.hosts.isdisjoint(transfer.target):
        return "offload"
    return "transfer" if cluster.hosts.isdisjoint(transfer.source) else "reload"


def runs_again(plan: Plan) -> frozenset[int]:
    """Return the ``id`` of all runs of operators except the first run of each."""
    seen: set[str] = set()
    again = []
    if len(plan.runs) == len({run.operator for run in plan.runs}):
        return frozenset()
    for run in sorted(plan.runs, key=lambda run: run.start_ticks or 0):
        if run.operator in seen:
            again.append(id(run))
        seen.add(run.operator)
    return frozenset(again)


def schedule(problem: PlanningProblem, plan: Plan) -> tuple[Task, ...]:
    """Return the plan's runs and transfers as tasks, by start time.

    Raises
    ------
    MissingFacetError
        The plan has no schedule.
    """
    tasks = []
    again = runs_again(plan)
    for run in plan.runs:
        kind = problem.graph.operator(run.operator).kind
        if id(run) in again:
            kind += AGAIN
        tasks.append((run.operator, kind, run.devices, run.start_ticks, run.stop_ticks))
    for transfer in plan.transfers:
        resources = transfer_resources(problem.cluster, transfer.source, transfer.target)
        name = f"{transfer.value} to {'+'.join(transfer.target)}"
        kind = transfer_kind(problem.cluster, transfer)
        tasks.append((name, kind, resources, transfer.start_ticks, transfer.stop_ticks))
    done = []
    for name, kind, resources, start, stop in tasks:
        if start is None or stop is None:
            raise MissingFacetError(f"plan of {plan.problem!r} has no schedule: {name!r} no times")
        done.append(Task(name, kind, resources, start, stop))
    return tuple(sorted(done, key=lambda task: (task.start_ticks, task.stop_ticks, task.name)))
