"""The part of rule `supply` on values that are made again or stored on a host.

What each reader reads follows from the times (:mod:`.copies`). Here are the breaches: nothing to
read, a transfer with nothing to send, of the wrong length, made again or for nobody, and a run
of an operator with several that nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core import FULL, Counts, Violation
from milp_plan.core.amounts import time_text

from .copies import Copy, Reader, Sending, Trail
from .lengths import transfer_ticks
from .reading import Reading, Run

RULE = "supply"


def check(reading: Reading) -> Iterator[Violation]:
    """Yield missing inputs of consumers, and needless transfers and runs."""
    for trail in reading.trails:
        complete = is_complete(reading, trail)
        for reader, missing in trail.unserved:
            yield _unserved(reading, trail, reader, missing)
        for sending in trail.repeated():
            yield _about(trail, sending, "is made more than once from one run")
        for sending, copy in trail.sent:
            yield from _length(reading, trail, sending, copy)
            if complete and not copy.readers:
                yield _about(trail, sending, "is needless: nothing reads this copy")
    yield from _runs_for_nobody(reading)


def is_complete(reading: Reading, trail: Trail) -> bool:
    """Return whether all tasks that may read the value are present, with times."""
    runs = [reading.runs_of.get(name, ()) for name in trail.value.consumers]
    journeys = reading.journeys_of.get(trail.value.name, ())
    timed = all(run.times is not None for runs_of_one in runs for run in runs_of_one)
    return timed and all(runs) and all(journey.times is not None for journey in journeys)


def _unserved(
    reading: Reading, trail: Trail, reader: Reader, missing: tuple[str, ...]
) -> Violation:
    run = reader.task.entry
    assert isinstance(run, Run)
    name, start = trail.value.name, reader.task.start_ticks
    places = "+".join(missing)
    return Violation(
        RULE,
        (name, run.operator, *missing),
        f"{run.operator!r} starts at {time_text(reading.facts.problem.units, start)} and reads "
        f"{name!r} on {places} in layout {reader.layout!r}, where no copy of it is complete by "
        "then",
    )


def _length(reading: Reading, trail: Trail, sending: Sending, copy: Copy) -> Iterator[Violation]:
    if copy.origin is None:
        yield _about(
            trail,
            sending,
            "has nothing to send: no copy that it may carry is complete when it starts",
        )
        return
    length = transfer_ticks(
        reading.facts.cluster,
        trail.value,
        (copy.origin.site, copy.origin.layout),
        sending.source,
        (sending.target, sending.layout),
    )
    took = sending.task.stop_ticks - sending.task.start_ticks
    if length is None:
        yield _about(
            trail,
            sending,
            "is not allowed: a channel or an entry in reshard_ns is missing for it",
        )
    elif took != length:
        yield _about(trail, sending, "has the wrong duration", length, took)


def _runs_for_nobody(reading: Reading) -> Iterator[Violation]:
    """Yield runs of which no copy is read or stays, of operators that run more than once."""
    again = [name for name, runs in reading.runs_of.items() if len(runs) > 1]
    if not again:
        return
    read: set[int] = set()
    unsure: set[str] = set()
    for trail in reading.trails:
        if not is_complete(reading, trail):
            unsure.add(trail.value.producer or "")
        read |= {id(copy.maker.entry) for copy in trail.natives if copy.serves}
    for name in again:
        for number, run in enumerate(reading.runs_of[name], 1):
            if name not in unsure and run.times is not None and id(run) not in read:
                when = time_text(reading.facts.problem.units, run.times[0])
                yield Violation(
                    RULE,
                    (name, *run.site),
                    f"run {number} of {name!r}, at {when} on {'+'.join(run.site)}, is needless: "
                    "nothing reads what it makes",
                )


def _about(
    trail: Trail,
    sending: Sending,
    text: str,
    needed: int | None = None,
    available: int | None = None,
) -> Violation:
    way = f"{'+'.join(sending.source)} to {'+'.join(sending.target)}"
    layout = "" if sending.layout == FULL else f" in layout {sending.layout!r}"
    return Violation(
        RULE,
        (trail.value.name, *sending.source, *sending.target),
        f"the transfer of {trail.value.name!r} from {way}{layout} {text}",
        needed,
        available,
        Counts.TIME,
    )
