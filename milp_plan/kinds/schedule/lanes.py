"""A plan as lanes of bars: the timeline as data, before anything is drawn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from milp_plan.check.chain import Link
from milp_plan.core import Cluster, CommunicationModel, Plan, PlanningProblem
from milp_plan.core.schedule import Task, schedule

MOST_CHANNELS = 48
"""Plans that use more channels than this are drawn with one lane per sending device."""

MOST_CHUNKS = 4
"""Devices with more blocks of one micro-batch than this hold layers, not chunks of a pipeline."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One task in a lane, in ticks.

    ``chunk`` counts the stages of a pipeline on one device, from 0; ``critical`` says whether the
    makespan hangs on it.
    """

    label: str
    kind: str
    start_ticks: int
    stop_ticks: int
    chunk: int = field(default=0, compare=False)
    critical: bool = field(default=False, compare=False)

    @property
    def length_ticks(self) -> int:
        """Ticks from start to stop."""
        return self.stop_ticks - self.start_ticks


@dataclass(frozen=True, slots=True)
class Lane:
    """What one device computes, or one channel or port carries; bars by start time."""

    name: str
    bars: tuple[Bar, ...]

    @property
    def busy_ticks(self) -> int:
        """Ticks in which at least one bar runs."""
        busy = until = 0
        for bar in sorted(self.bars, key=lambda bar: bar.start_ticks):
            busy += max(0, bar.stop_ticks - max(bar.start_ticks, until))
            until = max(until, bar.stop_ticks)
        return busy


@dataclass(frozen=True)
class Lanes:
    """The timeline of a plan.

    Parameters
    ----------
    compute, transfer
        Lanes of devices, in device order, and of the channels or ports in use.
    start_ticks, stop_ticks
        First and last tick of any task; the start is 0 unless the plan begins earlier.
    idle
        Names of devices that run nothing.
    chunks
        The most stages of a pipeline on one device.
    notes
        What was merged or left out to keep the picture readable, one sentence each.
    """

    compute: tuple[Lane, ...]
    transfer: tuple[Lane, ...]
    start_ticks: int
    stop_ticks: int
    notes: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    chunks: int = 1

    @property
    def looks(self) -> tuple[tuple[str, int], ...]:
        """Kinds and chunks that some bar has, sorted."""
        return tuple(sorted({(bar.kind, bar.chunk) for lane in self.all for bar in lane.bars}))

    @property
    def all(self) -> tuple[Lane, ...]:
        """Every lane, devices first."""
        return (*self.compute, *self.transfer)


def lanes(
    problem: PlanningProblem, plan: Plan, chain: Iterable[Link] = (), most: int = MOST_CHANNELS
) -> Lanes:
    """Arrange a plan's tasks in lanes.

    Parameters
    ----------
    problem, plan
        The plan needs a schedule.
    chain
        Tasks that the makespan depends on.
    most
        Channels above which those of one sender share a lane.

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
    if transfers and problem.cluster.communication is CommunicationModel.DELAY:
        notes.append("Transfers do not contend: those on one channel may overlap.")
    used = _used(problem.cluster, transfers)
    if len(used) > most:
        notes.append(f"{len(used)} channels or ports are drawn as one lane per sending device.")
        transfers = [_by_sender(task) for task in transfers]
        used = [f"from {device}" for device in problem.cluster.device_names]
    hosts = problem.cluster.hosts
    computing = [name for name in problem.cluster.device_names if name not in hosts]
    critical = {(link.name, link.start_ticks, link.stop_ticks) for link in chain}
    chunk_of = chunks(problem, operators)
    devices_shown = [*computing, *_used_by(operators, hosts)]
    compute = _fill(devices_shown, operators, critical, chunk_of)
    transfer = tuple(lane for lane in _fill(used, transfers, critical, {}) if lane.bars)
    stop = max((task.stop_ticks for task in tasks), default=0)
    start = min((task.start_ticks for task in tasks), default=0)
    return Lanes(
        compute,
        transfer,
        min(start, 0),
        stop,
        tuple(notes),
        tuple(lane.name for lane in compute if not lane.bars),
        1 + max(chunk_of.values(), default=0),
    )


def chunks(problem: PlanningProblem, operators: Iterable[Task]) -> dict[tuple[str, str], int]:
    """Number the stages on a device, for (device, operator), where a pipeline has several on it.

    A stage is a block; those of one device count by the time at which they first run.
    """
    blocks: dict[str, dict[str, None]] = defaultdict(dict)
    placed = []
    for task in operators:
        if not problem.graph.has_operator(task.name):
            continue  # a transfer that holds nothing
        operator = problem.graph.operator(task.name)
        if operator.micro_batch is not None and operator.block is not None:
            for device in task.resources:
                blocks[device].setdefault(operator.block)
                placed.append((device, task.name, operator.block))
    if max(map(len, blocks.values()), default=0) > MOST_CHUNKS:
        return {}
    place = {
        device: {name: at for at, name in enumerate(entry)} for device, entry in blocks.items()
    }
    return {(device, name): place[device][block] for device, name, block in placed}


def idle_note(rows: Lanes) -> tuple[str, ...]:
    """Say which devices run nothing, if any."""
    if not rows.idle:
        return ()
    named = ", ".join(rows.idle[:8]) + (", ..." if len(rows.idle) > 8 else "")
    number = len(rows.idle)
    what = (
        "1 device runs nothing and has" if number == 1 else f"{number} devices run nothing and have"
    )
    return (f"{what} no lane: {named}.",)


def _used_by(operators: Iterable[Task], hosts: Iterable[str]) -> list[str]:
    """Return the hosts on which a broken plan runs something."""
    return [name for name in hosts if any(name in task.resources for task in operators)]


def _with_channels(problem: PlanningProblem) -> PlanningProblem:
    """Under ``delay`` a transfer holds nothing; for the eye it still uses its channels."""
    if problem.cluster.communication is not CommunicationModel.DELAY:
        return problem
    cluster = replace(problem.cluster, communication=CommunicationModel.CHANNEL)
    return replace(problem, cluster=cluster)


def _used(cluster: Cluster, transfers: Iterable[Task]) -> list[str]:
    """Return the channels or ports that some transfer holds, in the order of their devices."""
    result = {name for task in transfers for name in task.resources}
    names = cluster.device_names
    order = [f"{a}->{b}" for a in names for b in names]
    order += [f"{end} {name}" for name in names for end in ("send", "receive")]
    return [name for name in order if name in result]


def _by_sender(task: Task) -> Task:
    """Replace channels and ports by lanes of the devices they start from."""
    senders = dict.fromkeys(
        f"from {name.removeprefix('send ').split('->')[0]}"
        for name in task.resources
        if not name.startswith("receive ")
    )
    return replace(task, resources=tuple(senders))


def _fill(
    names: Iterable[str],
    tasks: Iterable[Task],
    critical: Collection[tuple[str, int, int]],
    chunk_of: Mapping[tuple[str, str], int],
) -> tuple[Lane, ...]:
    bars: dict[str, list[Bar]] = {name: [] for name in names}
    for task in tasks:
        times = (task.start_ticks, task.stop_ticks)
        hangs = any(
            (name, *times) in critical for name in (task.name, task.name.rpartition(" to ")[0])
        )
        for name in task.resources:
            chunk = chunk_of.get((name, task.name), 0)
            bars[name].append(Bar(task.name, task.kind, *times, chunk=chunk, critical=hangs))
    return tuple(Lane(name, tuple(entry)) for name, entry in bars.items())
