"""Operators that run one after the other on one site: choices, layouts, time and memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from milp_plan.core import ComputationGraph, MemoryLaw, Option, PlanningProblem


@dataclass(frozen=True)
class OptionChoice:
    """One option per member of a cluster, all with the same gang.

    Parameters
    ----------
    name
        Name of the coarse option.
    options
        Options in member order.
    classes
        Device classes that can run every one of them, and for which the choice is meant.
    """

    name: str
    options: tuple[Option, ...]
    classes: tuple[str, ...]

    @property
    def gang(self) -> int:
        """Devices held together."""
        return self.options[0].gang


@dataclass(frozen=True)
class Layouts:
    """Layouts of what a cluster reads from outside and writes, under one choice."""

    reads: dict[str, str]
    writes: dict[str, str]


def candidate_choices(problem: PlanningProblem, members: Sequence[str]) -> list[OptionChoice]:
    """Return useful choices: fastest and leanest on one device, one per label of a gang.

    Their layouts need not fit together; :func:`layouts` says so.
    """
    operators = [problem.graph.operator(name) for name in members]
    if len(operators) == 1:
        return [OptionChoice(o.name, (o,), tuple(o.duration_ticks)) for o in operators[0].options]
    classes = [entry.name for entry in problem.cluster.device_classes]
    pools = [[o for o in operator.options if o.gang == 1] for operator in operators]
    result: list[tuple[str, tuple[Option, ...], tuple[str, ...]]] = []
    for title, rank in (("fastest", _by_time), ("leanest", _by_workspace)):
        per_class: dict[tuple[int, ...], tuple[tuple[Option, ...], list[str]]] = {}
        for name in classes:
            able = [[o for o in pool if name in o.duration_ticks] for pool in pools]
            if all(able):
                best = tuple(min(pool, key=rank(name)) for pool in able)
                per_class.setdefault(tuple(map(id, best)), (best, []))[1].append(name)
        result += [(title, best, tuple(names)) for best, names in per_class.values()]
    gangs = dict.fromkeys(o.gang for operator in operators for o in operator.options)
    for gang in gangs:
        pools = [[o for o in operator.options if o.gang == gang] for operator in operators]
        if all(pools):
            for label in dict.fromkeys(o.name for pool in pools for o in pool):
                picked = tuple(_labelled(pool, label) for pool in pools)
                shared = tuple(c for c in classes if all(c in o.duration_ticks for o in picked))
                result.append((label, picked, shared))
    return _named(result)


def _by_time(device_class: str) -> Callable[[Option], tuple[int, int]]:
    return lambda option: (option.duration_ticks[device_class], option.workspace_bytes)


def _by_workspace(device_class: str) -> Callable[[Option], tuple[int, int]]:
    return lambda option: (option.workspace_bytes, option.duration_ticks[device_class])


def _labelled(pool: Sequence[Option], label: str) -> Option:
    """Return the option of that name, else the fastest one."""
    named = [option for option in pool if option.name == label]
    return named[0] if named else min(pool, key=lambda o: sum(o.duration_ticks.values()))


def _named(
    found: Iterable[tuple[str, tuple[Option, ...], tuple[str, ...]]],
) -> list[OptionChoice]:
    """Return each choice once, with a unique name: the label, where all members share it."""
    seen: set[tuple[tuple[int, ...], tuple[str, ...]]] = set()
    names: set[str] = set()
    choices = []
    for title, options, classes in found:
        key = (tuple(map(id, options)), classes)
        if not classes or key in seen:
            continue
        seen.add(key)
        labels = {option.name for option in options}
        name = unique(labels.pop() if len(labels) == 1 else title, names)
        choices.append(OptionChoice(name, options, classes))
    return choices


def unique(name: str, taken: set[str]) -> str:
    """Return the name, or the name with the first free number; takes it."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}.{number}", number + 1
    taken.add(found)
    return found


def layouts(
    graph: ComputationGraph, members: Sequence[str], choice: OptionChoice
) -> Layouts | None:
    """Return the layouts at the border of a cluster; ``None`` when members do not fit together.

    They fit when every member reads the values of the others in the layout they are written in
    (then the native copy serves, the site being the same), and when all members read a value
    from outside in one layout.
    """
    chosen = dict(zip(members, choice.options, strict=True))
    reads: dict[str, str] = {}
    writes: dict[str, str] = {}
    for member, option in chosen.items():
        for value in graph.outputs[member]:
            writes[value.name] = option.layout_written(value.name)
    for member, option in chosen.items():
        for value in graph.inputs[member]:
            made = writes if value.producer in chosen else reads
            layout = option.layout_read(value.name)
            if made.setdefault(value.name, layout) != layout:
                return None
    return Layouts(reads, writes)


def duration_ticks(problem: PlanningProblem, choice: OptionChoice) -> dict[str, int]:
    """Return ticks per class that suffice for the members, one after the other, on every site.

    On a site of several classes the slowest counts for each member, and the sum of the slowest
    can exceed the slowest sum; the slowest class of such a site is charged the difference.
    """
    ticks = {name: sum(o.duration_ticks[name] for o in choice.options) for name in choice.classes}
    if choice.gang == 1 or len(choice.options) == 1:
        return ticks
    for site in problem.cluster.sites(choice.gang):
        classes = {problem.cluster.device(d).device_class for d in site}
        if len(classes) > 1 and classes <= ticks.keys():
            needed = sum(max(o.duration_ticks[name] for name in classes) for o in choice.options)
            slowest = max(sorted(classes), key=lambda name: ticks[name])
            ticks[slowest] = max(ticks[slowest], needed)
    return ticks


def workspace_bytes(
    problem: PlanningProblem,
    members: Sequence[str],
    choice: OptionChoice,
    border: Layouts,
    held: Collection[str],
) -> int:
    """Return the bytes a cluster needs on each device beyond the values that remain values.

    ``held`` names the values that stay values: outputs, which count from the start of the cluster,
    and inputs that nobody else reads and that do not stay, which count until its stop. While a
    member runs, the cluster really holds its workspace, the values made and still needed inside,
    the outputs made so far and the inputs not yet read for the last time. The result is the largest
    excess of that over the sum of what is held; members that take no time hold nothing. Under the
    static law values inside stay values as well, so the largest workspace is all.
    """
    if problem.memory_law is MemoryLaw.STATIC:
        return max(option.workspace_bytes for option in choice.options)
    graph = problem.graph
    place = {member: position for position, member in enumerate(members)}
    steps = [0] * (len(members) + 1)

    def add(first: int, last: int, number: int) -> None:
        steps[first] += number
        steps[last + 1] -= number

    for member in members:
        for value in graph.outputs[member]:
            amount = value.bytes[border.writes[value.name]]
            if value.name not in held:
                stop = max((place[c] for c in value.consumers), default=place[member])
                add(place[member], max(stop, place[member]), amount)
            elif place[member] > 0:
                add(0, place[member] - 1, -amount)
    for name, layout in border.reads.items():
        value = graph.value(name)
        if name in held and not value.persistent:
            last = max(place[c] for c in value.consumers if c in place)
            if last + 1 < len(members):
                add(last + 1, len(members) - 1, -value.bytes[layout])
    excess = [
        live + option.workspace_bytes
        for live, option in zip(accumulate(steps[:-1]), choice.options, strict=True)
        if any(option.duration_ticks[name] for name in choice.classes)
    ]
    return max([0, *excess])


def as_option(
    problem: PlanningProblem,
    choice: OptionChoice,
    workspace: int,
    reads: dict[str, str],
    writes: dict[str, str],
) -> Option:
    """Return the coarse option of a choice; a lone member has its own option."""
    if len(choice.options) == 1:
        option = choice.options[0]
        same = (workspace, reads, writes) == (option.workspace_bytes, option.reads, option.writes)
        if same:
            return option
        return replace(option, workspace_bytes=workspace, reads=reads, writes=writes)
    return Option(
        choice.name, duration_ticks(problem, choice), choice.gang, workspace, reads, writes
    )


def usable(problem: PlanningProblem, members: Sequence[str]) -> list[tuple[OptionChoice, Layouts]]:
    """Return choices of a cluster whose layouts fit together, with these layouts."""
    result = []
    for choice in candidate_choices(problem, members):
        border = layouts(problem.graph, members, choice)
        if border is not None:
            result.append((choice, border))
    return result
