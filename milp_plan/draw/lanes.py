"""A plan as lanes of bars: the timeline as data, before anything is drawn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from milp_plan.core import Cluster, CommunicationModel, Plan, PlanningProblem
from milp_plan.core.schedule import Task, schedule

MOST_TASKS = 400
"""Plans with more tasks than this are drawn with neighbours of one kind merged."""

MOST_CHANNELS = 24
"""Plans that use more channels than this are drawn with one lane per sending device."""

_GAP_SHARE = 500
"""Neighbours merge when the gap between them is at most this fraction of the makespan."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One task in a lane, or several merged ones. Ticks; ``tasks`` says how many."""

    label: str
    kind: str
    start_ns: int
    stop_ns: int
    tasks: int = 1

    @property
    def length_ns(self) -> int:
        """Ticks from start to stop."""
        return self.stop_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Lane:
    """What one device computes, or one channel or port carries; bars by start time."""

    name: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Lanes:
    """The timeline of a plan.

    Parameters
    ----------
    compute, transfer
        Lanes of devices, in device order, and of the channels or ports in use.
    start_ns, stop_ns
        First and last tick of any task; the start is 0 unless the plan begins earlier.
    tasks
        Number of operators and transfers.
    overlapping
        Whether transfers in one lane may overlap, because they do not contend.
    notes
        What was merged or left out to keep the figure readable, one sentence each.
    """

    compute: tuple[Lane, ...]
    transfer: tuple[Lane, ...]
    start_ns: int
    stop_ns: int
    tasks: int
    overlapping: bool = False
    notes: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of all bars, sorted."""
        return tuple(sorted({bar.kind for lane in self.all for bar in lane.bars}))

    @property
    def all(self) -> tuple[Lane, ...]:
        """Every lane, devices first."""
        return (*self.compute, *self.transfer)


def lanes(
    problem: PlanningProblem,
    plan: Plan,
    most_tasks: int = MOST_TASKS,
    most_channels: int = MOST_CHANNELS,
) -> Lanes:
    """Arrange a plan's tasks in lanes.

    Parameters
    ----------
    problem, plan
        The plan needs a schedule.
    most_tasks, most_channels
        Sizes above which tasks and channels are merged.

    Raises
    ------
    MissingFacetError
        The plan has no schedule.
    """
    notes = []
    tasks = schedule(_with_channels(problem), plan)
    devices = set(problem.cluster.device_names)
    operators = [task for task in tasks if devices.issuperset(task.resources)]
    transfers = [task for task in tasks if not devices.issuperset(task.resources)]
    overlapping = bool(transfers) and problem.cluster.communication is CommunicationModel.DELAY
    if overlapping:
        notes.append("Transfers do not contend: those on one channel may overlap.")
    used = _used(problem.cluster, transfers)
    if len(used) > most_channels:
        notes.append(f"{len(used)} channels or ports are drawn as one lane per sending device.")
        transfers = [_by_sender(task) for task in transfers]
        used = [f"from {device}" for device in problem.cluster.device_names]
    hosts = problem.cluster.hosts
    computing = [name for name in problem.cluster.device_names if name not in hosts]
    compute = _fill([*computing, *_used_by(operators, hosts)], operators)
    transfer = tuple(lane for lane in _fill(used, transfers) if lane.bars)
    stop = max((task.stop_ns for task in tasks), default=0)
    start = min((task.start_ns for task in tasks), default=0)
    if len(tasks) > most_tasks:
        gap = max(stop - min(start, 0), 0) // _GAP_SHARE
        compute = tuple(_merged(lane, gap) for lane in compute)
        transfer = tuple(_merged(lane, gap) for lane in transfer)
        bars = sum(len(lane.bars) for lane in (*compute, *transfer))
        notes.insert(
            0, f"{len(tasks):,} tasks are drawn as {bars:,} bars: neighbours of one kind merge."
        )
    return Lanes(compute, transfer, min(start, 0), stop, len(tasks), overlapping, tuple(notes))


def _used_by(operators: Iterable[Task], hosts: Iterable[str]) -> list[str]:
    """Hosts on which a broken plan runs something."""
    return [name for name in hosts if any(name in task.resources for task in operators)]


def _with_channels(problem: PlanningProblem) -> PlanningProblem:
    """Under ``delay`` a transfer holds nothing; for the eye it still uses its channels."""
    if problem.cluster.communication is not CommunicationModel.DELAY:
        return problem
    cluster = replace(problem.cluster, communication=CommunicationModel.CHANNEL)
    return replace(problem, cluster=cluster)


def _used(cluster: Cluster, transfers: Iterable[Task]) -> list[str]:
    """Channels or ports that some transfer holds, in the order of their devices."""
    found = {name for task in transfers for name in task.resources}
    names = cluster.device_names
    order = [f"{a}->{b}" for a in names for b in names]
    order += [f"{end} {name}" for name in names for end in ("send", "receive")]
    return [name for name in order if name in found]


def _by_sender(task: Task) -> Task:
    """Replace channels and ports by lanes of the devices they start from."""
    senders = dict.fromkeys(
        f"from {name.removeprefix('send ').split('->')[0]}"
        for name in task.resources
        if not name.startswith("receive ")
    )
    return replace(task, resources=tuple(senders))


def _fill(names: Iterable[str], tasks: Iterable[Task]) -> tuple[Lane, ...]:
    bars: dict[str, list[Bar]] = {name: [] for name in names}
    for task in tasks:
        for name in task.resources:
            bars[name].append(Bar(task.name, task.kind, task.start_ns, task.stop_ns))
    return tuple(Lane(name, tuple(found)) for name, found in bars.items())


def _merged(lane: Lane, gap: int) -> Lane:
    bars: list[Bar] = []
    for bar in lane.bars:
        last = bars[-1] if bars else None
        if last is not None and last.kind == bar.kind and bar.start_ns - last.stop_ns <= gap:
            count = last.tasks + bar.tasks
            stop = max(last.stop_ns, bar.stop_ns)
            bars[-1] = Bar(f"{count} tasks", bar.kind, last.start_ns, stop, count)
        else:
            bars.append(bar)
    return replace(lane, bars=tuple(bars))
