"""Reasons of schedule problems: devices, channels, memory; operators left out and moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from milp_plan.core import (
    Cluster,
    ComputationGraph,
    Counts,
    Device,
    Finding,
    InputError,
    Objective,
    OperatorRun,
    Plan,
    PlanningProblem,
    UnsupportedProblemError,
    Value,
    Verdict,
)
from milp_plan.core.cluster import Channel
from milp_plan.run.reasons.base import Block, Link, Move, Reasons, Remedy, Resource, Usage, Why

MOST_REMEDIES = 8


class ScheduleReasons(Reasons[PlanningProblem, Plan]):
    """Reasons of :class:`milp_plan.core.PlanningProblem`."""

    noun = "operators"

    def parts(self, problem: PlanningProblem) -> tuple[str, ...]:
        """Return the operators."""
        return tuple(operator.name for operator in problem.graph.operators)

    def keep(self, problem: PlanningProblem, names: Collection[str]) -> PlanningProblem:
        """Leave operators out, with the values that then have neither producer nor consumer.

        A plan of the whole problem without their runs, and without the transfers to them, is a
        plan: nothing waits for more, holds more, or travels more. A value whose producer is left
        out is gone, for its consumers would otherwise hold it from the first instant on.
        """
        graph, kept = problem.graph, set(names)
        values = []
        for value in graph.values:
            readers = tuple(name for name in value.consumers if name in kept)
            alive = value.producer in kept if value.producer is not None else bool(readers)
            if alive:
                values.append(value.read_by(readers))
        there = {value.name for value in values}
        operators = tuple(
            replace(
                operator,
                options=tuple(
                    replace(
                        option,
                        reads={v: layout for v, layout in option.reads.items() if v in there},
                        writes={v: layout for v, layout in option.writes.items() if v in there},
                    )
                    for option in operator.options
                ),
            )
            for operator in graph.operators
            if operator.name in kept
        )
        return problem.variant(graph=ComputationGraph(operators, tuple(values)))

    def resources(self, problem: PlanningProblem) -> tuple[Resource, ...]:
        """Return the memory of each device and host, the number of devices, each channel."""
        cluster = problem.cluster
        result = [
            Resource(
                f"memory of {device.name}",
                "host memory" if device.name in cluster.hosts else "memory",
                device.memory_bytes,
                Counts.SIZE,
            )
            for device in cluster.devices
        ]
        count = len(cluster.devices) - len(cluster.hosts)
        result.append(Resource("devices", "devices", count, Counts.THINGS, lifted=False))
        result += [
            Resource(
                f"link {channel.source}->{channel.target}",
                "link",
                channel.bandwidth_bytes_per_s,
                Counts.SIZE,
                lifted=False,
                users=(
                    f"{channel.source}->{channel.target}",
                    f"send {channel.source}",
                    f"receive {channel.target}",
                ),
            )
            for channel in cluster.channels
        ]
        return tuple(result)

    def resized(
        self, problem: PlanningProblem, amounts: Mapping[str, int | None]
    ) -> PlanningProblem:
        """Other memory and bandwidth; more devices are copies of those there are."""
        cluster = problem.cluster
        memory = {
            device.name: amounts[f"memory of {device.name}"]
            for device in cluster.devices
            if f"memory of {device.name}" in amounts
        }
        cluster = cluster.with_memory(memory)
        channels = []
        for channel in cluster.channels:
            rate = amounts.get(f"link {channel.source}->{channel.target}")
            wider = channel if rate is None else replace(channel, bandwidth_bytes_per_s=rate)
            channels.append(wider)
        cluster = replace(cluster, channels=tuple(channels))
        count = amounts.get("devices")
        if count is not None:
            cluster = with_devices(cluster, count)
        return problem.variant(cluster=cluster)

    def places(self, problem: PlanningProblem, part: str) -> tuple[str, ...]:
        """Return the devices that have a class one of its options of one device runs on."""
        classes = {
            name
            for option in problem.graph.operator(part).options
            if option.gang == 1
            for name in option.duration_ticks
        }
        return tuple(d.name for d in problem.cluster.devices if d.device_class in classes)

    def pinned(self, problem: PlanningProblem, part: str, place: str) -> PlanningProblem:
        """Give a device a class of its own that alone can run the operator."""
        if place not in self.places(problem, part):
            raise UnsupportedProblemError(
                f"{part!r} has no option that runs on {place!r} alone; it runs on one of "
                f"{', '.join(self.places(problem, part)) or 'groups of devices only'}"
            )
        cluster = problem.cluster
        usual = cluster.device(place).device_class
        own = f"{usual} of {place}"
        old = next(entry for entry in cluster.device_classes if entry.name == usual)
        alone = replace(old, name=own)
        operators = []
        for operator in problem.graph.operators:
            options = []
            for option in operator.options:
                times = dict(option.duration_ticks)
                if usual in times:
                    times[own] = times[usual]
                if operator.name == part:
                    if option.gang > 1 or own not in times:
                        continue
                    times = {own: times[own]}
                options.append(replace(option, duration_ticks=times))
            operators.append(replace(operator, options=tuple(options)))
        serial = problem.serial
        if serial is not None and usual in serial.payers:
            serial = replace(serial, payers=(*serial.payers, own))
        devices = tuple(
            replace(d, device_class=own) if d.name == place else d for d in cluster.devices
        )
        classes = (*cluster.device_classes, alone)  # also one that has no device left
        return problem.variant(
            graph=replace(problem.graph, operators=tuple(operators)),
            cluster=replace(cluster, device_classes=classes, devices=devices),
            serial=serial,
        )

    def why(self, problem: PlanningProblem, plan: Plan, verdict: Verdict) -> Why:
        """Return the chain, how busy everything is, memory against its limits."""
        from milp_plan.check.chain import critical_chain

        block = {operator.name: _block(operator) for operator in problem.graph.operators}
        makers = {value.name: value.producer for value in problem.graph.values}
        chain = tuple(
            Link(
                link.name,
                block.get(link.name) or block.get(makers.get(link.name) or ""),
                link.resources,
                link.start_ticks,
                link.stop_ticks,
                link.waited_ticks,
                link.cause,
                link.behind,
            )
            for link in (critical_chain(problem, plan) if _has_clock(problem, plan) else ())
        )
        parts = verdict.components
        whole = parts.get("makespan") if chain else None
        devices = set(problem.cluster.device_names)
        usage = [
            Usage(name, "device" if name in devices else "channel", ticks, whole, Counts.TIME)
            for name, ticks in _named(parts, "busy")
        ]
        usage = usage or [
            Usage(name, "device", ticks, None, Counts.TIME) for name, ticks in _loads(parts)
        ]
        room = {device.name: device.memory_bytes for device in problem.cluster.devices}
        limits = [
            Usage(f"memory of {name}", "memory", peak, room[name], Counts.SIZE)
            for name, peak in _named(parts, "peak_memory")
            if room.get(name) is not None
        ]
        waits = {
            f"memory of {name}"
            for link in chain
            if link.cause == "memory"
            for name in link.resources
            if name in devices
        }
        full = {entry.name for entry in limits if entry.amount == entry.whole}
        usage.sort(key=lambda entry: (-entry.amount, entry.name))
        limits.sort(key=lambda entry: (-(entry.share or 0), entry.name))
        return Why(
            chain,
            tuple(usage),
            tuple(limits),
            tuple(sorted(full | waits)),
            tuple(_blocks(problem, plan, chain)),
            tuple(_remedies(problem, chain, usage)),
        )

    def moves(
        self, problem: PlanningProblem, before: Plan, other: PlanningProblem, after: Plan
    ) -> tuple[Move, ...]:
        """Operators on other devices or with other options, by both; then those at other times.

        Costs: ticks of their runs, and of the journeys of values they make or, where their maker
        stays, read.
        """
        runs = _placements(before), _placements(after)
        groups: dict[tuple[str, str, str], list[str]] = {}
        kept: list[str] = []
        for operator in problem.graph.operators:
            one, two = ([run.placement for run in of.get(operator.name, ())] for of in runs)
            if one == two:
                kept.append(operator.name)
                continue
            devices = [", ".join("+".join(p.devices) for p in side) for side in (one, two)]
            options = [", ".join(p.option for p in side) for side in (one, two)]
            what, words = ("device", devices) if devices[0] != devices[1] else ("option", options)
            groups.setdefault((what, words[0], words[1]), []).append(operator.name)
        group_of = {name: key for key, names in groups.items() for name in names}
        costs: dict[tuple[str, str, str], Counter[str]] = {key: Counter() for key in groups}
        for side, at, plan in ((-1, problem, before), (1, other, after)):
            for run in plan.runs:
                group = group_of.get(run.operator)
                if group is not None:
                    costs[group]["work"] += side * at.duration_ticks(run.operator, run.placement)
            for value, ticks in _sent(at, plan):
                ends = (value.producer or "", *value.consumers)
                group = next((group_of[name] for name in ends if name in group_of), None)
                if group is not None:
                    costs[group]["transfers"] += side * ticks
        result = [
            Move(*key, tuple(names), dict(costs[key]))
            for key, names in sorted(groups.items(), key=lambda entry: -len(entry[1]))
        ]
        return (*result, *_shifted(*runs, kept))


def _has_clock(problem: PlanningProblem, plan: Plan) -> bool:
    return problem.serial is None and plan.has_schedule


def _block(operator: object) -> str | None:
    block: str | None = getattr(operator, "block", None)
    return block


def _named(parts: Mapping[str, int], word: str) -> Iterator[tuple[str, int]]:
    for name, amount in parts.items():
        if name.startswith(f"{word} "):
            yield name.removeprefix(f"{word} "), amount


def _loads(parts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the loads of devices under the serial law."""
    yield from _named(parts, "load")


def _placements(plan: Plan) -> dict[str, list[OperatorRun]]:
    """Return the runs of each operator, in order of time."""
    result: dict[str, list[OperatorRun]] = {}
    for run in sorted(plan.runs, key=lambda run: run.start_ticks or 0):
        result.setdefault(run.operator, []).append(run)
    return result


def _sent(problem: PlanningProblem, plan: Plan) -> Iterator[tuple[Value, int]]:
    """Yield the values that travel, and the ticks of each journey."""
    values = {value.name: value for value in problem.graph.values}
    for trip in plan.transfers:
        if trip.start_ticks is not None and trip.stop_ticks is not None:
            yield values[trip.value], trip.stop_ticks - trip.start_ticks


def _shifted(
    before: dict[str, list[OperatorRun]], after: dict[str, list[OperatorRun]], names: list[str]
) -> Iterator[Move]:
    """Yield the operators that run where they did, earlier or later."""
    earlier, later = [], []
    for name in names:
        pair = zip(before.get(name, ()), after.get(name, ()), strict=False)
        off = [
            two.start_ticks - one.start_ticks
            for one, two in pair
            if one.start_ticks is not None and two.start_ticks is not None
        ]
        if any(ticks < 0 for ticks in off):
            earlier.append((name, min(off)))
        elif any(off):
            later.append((name, max(off)))
    for entry, word in ((earlier, "earlier"), (later, "later")):
        if entry:
            furthest = max((ticks for _, ticks in entry), key=abs)
            parts = tuple(name for name, _ in entry)
            yield Move("start", "as planned first", word, parts, {"furthest": furthest})


def _blocks(problem: PlanningProblem, plan: Plan, chain: Sequence[Link]) -> Iterator[Block]:
    """Yield the work by block and by micro-batch, where operators say which they are of."""
    length = Counter[str]()
    for link in chain:
        length[link.name] += link.stop - link.start
    for sort in ("block", "micro_batch"):
        rows: dict[Any, list[OperatorRun]] = {}
        for run in plan.runs:
            label = getattr(problem.graph.operator(run.operator), sort)
            if label is not None:
                rows.setdefault(label, []).append(run)
        for label, runs in rows.items():
            names = {run.operator for run in runs}
            yield Block(
                str(label),
                sort.replace("_", "-"),
                len(names),
                tuple(dict.fromkeys(name for run in runs for name in run.devices)),
                sum(problem.duration_ticks(run.operator, run.placement) for run in runs),
                sum(length[name] for name in names) if chain else None,
                Counts.TIME,
            )


def _remedies(
    problem: PlanningProblem, chain: Sequence[Link], usage: Sequence[Usage]
) -> Iterator[Remedy]:
    """Yield the most that each part of the chain could gain, if it took no time."""
    if problem.objective is Objective.MAKESPAN and chain:
        yield from _of_chain(problem, chain)
    elif problem.objective in (Objective.BOTTLENECK, Objective.LATENCY) and usage:
        top = usage[0]
        second = next((u.amount for u in usage if u.amount < top.amount), 0)
        text = f"move work away from {top.name}, or make it faster: the next busiest thing sets"
        yield Remedy(f"{text} the pace then", top.amount - second)


def _of_chain(problem: PlanningProblem, chain: Sequence[Link]) -> Iterator[Remedy]:
    devices = set(problem.cluster.device_names)
    gains: Counter[tuple[str, str]] = Counter()
    for link in chain:
        if link.waited:
            where = ", ".join(name for name in link.resources if name in devices)
            gains[(link.cause, where)] += link.waited
        kind = "work" if link.resources and set(link.resources) <= devices else "transfer"
        if link.stop > link.start:
            gains[(kind, "+".join(link.resources) or "in flight")] += link.stop - link.start
    words = {
        "work": "faster work on {} (another option, a faster device, work moved elsewhere)",
        "transfer": "faster or fewer transfers over {} (a wider link, readers placed with writers)",
        "memory": "more memory on {}: tasks wait there for room",
        "unknown": "waits of the chain that no value, device or memory explains",
    }
    ranked = sorted(gains.items(), key=lambda entry: (-entry[1], entry[0]))
    for (kind, where), ticks in ranked[:MOST_REMEDIES]:
        if kind in words and ticks:
            yield Remedy(words[kind].format(where or "the devices"), ticks)


def with_devices(cluster: Cluster, count: int) -> Cluster:
    """Return the cluster with another number of devices, hosts not counted.

    Fewer: the first ones, with the groups among them. More: copies of the devices there are, one
    after the other; a copy is joined as its model is, and to its model as that is to the first
    device that it has channels to.

    Raises
    ------
    InputError
        None would be left.
    """
    hosts = [device for device in cluster.devices if device.name in cluster.hosts]
    devices = [device for device in cluster.devices if device.name not in cluster.hosts]
    if count < 1:
        result = [Finding("devices", str(count), "at least 1", "ask for more")]
        raise InputError(result)
    model = {device.name: device.name for device in devices[:count]}
    made = devices[:count]
    for number in range(len(devices), count):
        source = devices[number % len(devices)]
        name = f"{source.name} copy {number // len(devices)}"
        model[name] = source.name
        made.append(Device(name, source.device_class, source.memory_bytes))
    model |= {host.name: host.name for host in hosts}
    channels = []
    for one in model:
        for two in model:
            joint = _joint(cluster, model[one], model[two]) if one != two else None
            if joint is not None:
                channels.append(replace(joint, source=one, target=two))
    groups = tuple(g for g in cluster.groups if all(name in model for name in g))
    return replace(cluster, devices=(*made, *hosts), channels=tuple(channels), groups=groups)


def _joint(cluster: Cluster, one: str, two: str) -> Channel | None:
    """What joins copies of two devices; of one device: what joins it and its first neighbour."""
    if one != two:
        return cluster.channel(one, two)
    hosts = cluster.hosts
    near = (c for c in cluster.channels if c.source == one and c.target not in hosts)
    return next(near, None)
