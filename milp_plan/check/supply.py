"""Rule `supply`: every consumer gets each input in time, by the transfers that the law requires.

For each value ``Reading.distributions`` lists the copies that have to be sent. This rule
compares the plan's transfers with that list: missing, repeated, needless, from the wrong devices,
not allowed, of the wrong length, too early for the producer, too late for a reader.
"""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core import FULL, Counts, Transfer, Units, Violation
from milp_plan.core.amounts import time_text

from . import rereading
from .facts import Site
from .lengths import transfer_ticks
from .reading import Distribution, Journey, Reading, exact_times

RULE = "supply"


def check(reading: Reading) -> Iterator[Violation]:
    """Yield missing inputs of consumers, and needless transfers."""
    for transfer in reading.plan.transfers:
        yield from _form(transfer)
        if reading.scheduled:
            yield from _times(transfer)
    for value in reading.facts.persistent:
        for _ in reading.journeys_of.get(value.name, ()):
            yield Violation(
                RULE, (value.name,), f"persistent value {value.name!r} is sent: it never travels"
            )
    for distribution in reading.distributions:
        yield from _natively(distribution, reading.facts.problem.units)
        yield from _by_transfer(reading, distribution)
    yield from rereading.check(reading)


def _form(transfer: Transfer) -> Iterator[Violation]:
    for ends, label in ((transfer.source, "source"), (transfer.target, "target")):
        if not ends or len(set(ends)) < len(ends):
            yield Violation(
                RULE,
                (transfer.value, *ends),
                f"the {label} of a transfer of {transfer.value!r} is {list(ends)}, "
                "expected one or more different devices",
            )


def _times(transfer: Transfer) -> Iterator[Violation]:
    times = exact_times(transfer)
    name = transfer.value
    if times is None:
        yield Violation(
            RULE,
            (name,),
            f"a transfer of {name!r} has no exact times: "
            f"start {transfer.start_ticks!r}, stop {transfer.stop_ticks!r}",
        )
    elif times[0] < 0:
        yield Violation(
            RULE, (name,), f"a transfer of {name!r} starts before time 0", 0, times[0], Counts.TIME
        )


def _natively(distribution: Distribution, units: Units) -> Iterator[Violation]:
    producer = distribution.producer
    if producer.times is None:
        return
    stop = producer.times[1]
    for run, devices in distribution.native:
        if run.times is not None and run.times[0] < stop:
            name = distribution.value.name
            yield Violation(
                RULE,
                (name, producer.operator, run.operator),
                f"{run.operator!r} starts at {time_text(units, run.times[0])} and reads {name!r} "
                f"on {'+'.join(devices)}, where {producer.operator!r} makes it until "
                f"{time_text(units, stop)}",
                stop,
                run.times[0],
                Counts.TIME,
            )


def _by_transfer(reading: Reading, distribution: Distribution) -> Iterator[Violation]:
    journeys = reading.journeys_of.get(distribution.value.name, [])
    if not journeys and not distribution.deliveries:
        return
    made: dict[tuple[Site, str], int] = {}
    for journey in journeys:
        key = (journey.target, journey.layout)
        made[key] = made.get(key, 0) + 1
        if made[key] == 2:
            yield _violation(journey, "is made more than once")
        if key in distribution.deliveries:
            yield from _needed(reading, distribution, journey)
        elif distribution.complete:
            yield _needless(distribution, journey)
    for (target, layout), readers in distribution.deliveries.items():
        if (target, layout) not in made:
            name, place = distribution.value.name, "+".join(target)
            operators = tuple(run.operator for run in readers)
            yield Violation(
                RULE,
                (name, *operators, *target),
                f"value {name!r} is not brought to {place} in layout {layout!r}, where "
                f"{', '.join(operators)} reads it",
            )


def _needless(distribution: Distribution, journey: Journey) -> Violation:
    native = journey.layout == distribution.layout and (
        journey.target == distribution.producer.site
        or (journey.layout == FULL and set(journey.target) <= set(distribution.producer.site))
    )
    if native:
        return _violation(journey, "is needless: the native copy is there already")
    return _violation(journey, "is needless: no consumer reads this copy")


def _needed(reading: Reading, distribution: Distribution, journey: Journey) -> Iterator[Violation]:
    producer = distribution.producer
    copy = (journey.target, journey.layout)
    if distribution.layout == journey.layout == FULL:
        right = len(journey.source) == 1 and journey.source[0] in producer.site
        expected = f"one of {', '.join(producer.site)}"
    else:
        right = journey.source == producer.site
        expected = "+".join(producer.site)
    if not right:
        yield _violation(journey, f"leaves from the wrong devices, expected {expected}")
    else:
        made = (producer.site, distribution.layout)
        cluster = reading.facts.cluster
        yield from _length(
            journey, transfer_ticks(cluster, distribution.value, made, journey.source, copy)
        )
    if journey.times is None:
        return
    start, stop = journey.times
    if producer.times is not None and start < producer.times[1]:
        yield _violation(
            journey, f"starts before {producer.operator!r} stops", producer.times[1], start
        )
    for run in distribution.deliveries[copy]:
        if run.times is not None and run.times[0] < stop:
            yield _violation(
                journey, f"arrives too late for {run.operator!r}", stop, run.times[0], run.operator
            )


def _length(journey: Journey, length: int | None) -> Iterator[Violation]:
    if length is None:
        yield _violation(
            journey, "is not allowed: a channel or an entry in reshard_ns is missing for it"
        )
    elif journey.times is not None:
        start, stop = journey.times
        if stop - start != length:
            yield _violation(journey, "has the wrong duration", length, stop - start)


def _violation(
    journey: Journey,
    text: str,
    needed: int | None = None,
    available: int | None = None,
    reader: str | None = None,
) -> Violation:
    name = journey.transfer.value
    way = f"{'+'.join(journey.source)} to {'+'.join(journey.target)}"
    subjects = (name, *([] if reader is None else [reader]), *journey.source, *journey.target)
    return Violation(
        RULE,
        subjects,
        f"the transfer of {name!r} from {way} in layout {journey.layout!r} {text}",
        needed,
        available,
        Counts.TIME,
    )
