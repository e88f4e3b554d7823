"""Rule `assignment`: every operator runs once, on an admissible site, for its exact duration.

A recomputable operator runs at least once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from milp_plan.core import Counts, OperatorRun, Violation

from .facts import Facts
from .reading import Reading, Run, exact_times

RULE = "assignment"


def check(reading: Reading) -> Iterator[Violation]:
    """Yield missing and repeated operators, wrong sites, missing and wrong times."""
    facts = reading.facts
    counts = Counter(run.operator for run in reading.plan.runs)
    for name in facts.operators:
        if counts[name] != 1 and not (counts[name] and name in facts.recomputable):
            yield Violation(
                RULE, (name,), f"operator {name!r} runs {counts[name]} times", 1, counts[name]
            )
    for entry in reading.plan.runs:
        if not entry.devices:
            yield Violation(RULE, (entry.operator,), f"operator {entry.operator!r} has no device")
        if len(set(entry.devices)) < len(entry.devices):
            yield Violation(
                RULE,
                (entry.operator, *entry.devices),
                f"operator {entry.operator!r} names a device twice",
            )
        if entry.call is not None and facts.problem.serial is None:
            text = f"operator {entry.operator!r} has a call number, which counts under the serial "
            yield Violation(RULE, (entry.operator,), f"{text}law alone", None, entry.call)
        if reading.scheduled:
            yield from _times(entry)
    for run in reading.all_runs:
        yield from _site(facts, run)
        if reading.scheduled:
            yield from _duration(facts, run)


def _times(entry: OperatorRun) -> Iterator[Violation]:
    times = exact_times(entry)
    name = entry.operator
    if times is None:
        yield Violation(
            RULE,
            (name,),
            f"operator {name!r} has no exact times: "
            f"start {entry.start_ticks!r}, stop {entry.stop_ticks!r}",
        )
    elif times[0] < 0:
        text = f"operator {name!r} starts before time 0"
        yield Violation(RULE, (name,), text, 0, times[0], Counts.TIME)


def _site(facts: Facts, run: Run) -> Iterator[Violation]:
    name, option = run.operator, run.option
    place = "+".join(run.site)
    if len(run.site) != option.gang:
        yield Violation(
            RULE,
            (name, *run.site),
            f"operator {name!r} with option {option.name!r} runs on {place}",
            option.gang,
            len(run.site),
        )
    elif not facts.is_site(run.site):
        yield Violation(
            RULE, (name, *run.site), f"operator {name!r} runs on {place}, which is no process group"
        )
    for device in run.site:
        if facts.device_class[device] not in option.duration_ticks:
            yield Violation(
                RULE,
                (name, device),
                f"operator {name!r} with option {option.name!r} cannot run on {device!r} "
                f"of class {facts.device_class[device]!r}",
            )


def _duration(facts: Facts, run: Run) -> Iterator[Violation]:
    if run.times is None:
        return
    start, stop = run.times
    duration = facts.duration_ticks(run.operator, run.option, run.site)
    if stop < start:
        yield Violation(
            RULE,
            (run.operator,),
            f"operator {run.operator!r} stops before it starts",
            start,
            stop,
            Counts.TIME,
        )
    elif duration is not None and stop - start != duration:
        yield Violation(
            RULE,
            (run.operator,),
            f"operator {run.operator!r} has the wrong duration on {'+'.join(run.site)}",
            duration,
            stop - start,
            Counts.TIME,
        )
