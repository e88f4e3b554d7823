"""Rule `exclusion`: a device, channel or port carries one task at a time."""

from __future__ import annotations

from collections.abc import Iterator

from milp_plan.core import Counts, Units, Violation
from milp_plan.core.amounts import time_text

from .reading import Reading

RULE = "exclusion"

_Entry = tuple[int, int, int, str]
"""Start, stop, position in the plan (so that equal tasks keep an order) and name of a task."""


def check(reading: Reading) -> Iterator[Violation]:
    """Yield a violation for each task that starts before an earlier one on its resource stops."""
    if not reading.scheduled:
        return
    entries_of: dict[str, list[_Entry]] = {}
    position = 0
    for run in reading.all_runs:
        if run.times is not None:
            position += 1
            for device in run.site:
                entry = (*run.times, position, run.operator)
                entries_of.setdefault(f"device {device}", []).append(entry)
    for journey in reading.journeys:
        if journey.times is not None:
            position += 1
            for name in reading.facts.occupied(journey.source, journey.target):
                entry = (*journey.times, position, journey.transfer.value)
                entries_of.setdefault(name, []).append(entry)
    for resource, entries in entries_of.items():
        yield from _overlaps(resource, entries, reading.facts.problem.units)


def _overlaps(resource: str, entries: list[_Entry], units: Units) -> Iterator[Violation]:
    entries.sort()
    last = entries[0]
    for entry in entries[1:]:
        start, stop, _, name = entry
        if start < last[1]:
            yield Violation(
                RULE,
                (resource, last[3], name),
                f"{name!r} starts on {resource} at {time_text(units, start)}, before {last[3]!r} "
                f"stops at {time_text(units, last[1])}",
                last[1],
                start,
                Counts.TIME,
            )
        if stop >= last[1]:
            last = entry
