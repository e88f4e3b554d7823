"""The checker of plans of jobs: every rule of ``docs/laws.md``, in Python's integers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from milp_plan.check.statement import misattributed, overclaimed
from milp_plan.core import Verdict, Violation
from milp_plan.core.verdict import Counts

from .problem import Job, JobsPlan, JobsProblem, Option, Run, Weights


@dataclass(frozen=True, slots=True)
class Reading:
    """A run with what the problem says of it."""

    run: Run
    job: Job
    option: Option
    weights: Weights | None

    @property
    def name(self) -> str:
        """Of people."""
        return f"{self.run.job}/{self.run.unit}"

    @property
    def stop(self) -> int:
        """When it has run."""
        return self.run.start + self.option.ticks

    @property
    def loaded(self) -> int | None:
        """When its load has ended."""
        return None if self.run.load is None else self.run.load + (self.weights or _NONE).load

    @property
    def stored(self) -> int | None:
        """When its store has ended."""
        return None if self.run.store is None else self.run.store + (self.weights or _NONE).store

    @property
    def first(self) -> int:
        """Its first instant."""
        return self.run.start if self.run.load is None else min(self.run.load, self.run.start)

    @property
    def last(self) -> int:
        """Its last instant."""
        return self.stop if self.stored is None else max(self.stored, self.stop)


_NONE = Weights("", 0, 0, 0)

Lines = dict[tuple[str, int], list[Reading]]
"""Device (pool and number) -> its runs in the order of start and stop."""


def verify_jobs(problem: JobsProblem, plan: JobsPlan) -> Verdict:
    """Check a plan against its problem; never raises, however broken the plan is.

    Returns
    -------
    Verdict
        Value: of the problem's objective; ``None`` unless every unit runs exactly once by an
        option of its own. Components: ``makespan``, ``weighted_completion``, ``busy_time`` (device
        ticks of all runs), and ``peak_memory`` and ``peak_host`` in bytes.
    """
    broken = [*misattributed(problem, plan), *_assignment(problem, plan)]
    value, figures = None, {}
    if not any(violation.rule == "assignment" for violation in broken):
        readings = read_runs(problem, plan)
        lines = lines_of(readings)
        broken += [*_order(readings), *_exclusion(lines), *_weights(readings, lines)]
        broken += [*_lanes(lines)]
        memory, breaches = _memory(problem, lines)
        host, more = _host(problem, readings)
        broken += [*breaches, *more]
        ends = completions(readings)
        figures = {
            "makespan": max(ends.values()),
            "weighted_completion": sum(job.weight * ends[job.name] for job in problem.jobs),
            "busy_time": sum(r.option.ticks * r.option.devices for r in readings),
            "peak_memory": memory,
            "peak_host": host,
        }
        value = figures[problem.objective.value]
    broken += overclaimed(problem, plan, value, f"a {problem.objective}", Counts.TIME)
    return Verdict(tuple(broken), problem.objective.value, value, figures)


def read_runs(problem: JobsProblem, plan: JobsPlan) -> list[Reading]:
    """Return the runs with what the problem says, of a plan whose runs are those of the problem."""
    jobs = {job.name: job for job in problem.jobs}
    return [
        Reading(
            run,
            jobs[run.job],
            jobs[run.job].units[run.unit].options[run.option],
            jobs[run.job].weights_of(run.unit),
        )
        for run in plan.runs
    ]


def lines_of(readings: Iterable[Reading]) -> Lines:
    """Return the runs of each device, by start and stop, else as the plan lists them."""
    lines: Lines = defaultdict(list)
    for reading in sorted(readings, key=lambda r: (r.run.start, r.stop)):
        for device in reading.run.devices:
            lines[reading.option.pool, device].append(reading)
    return dict(lines)


def completions(readings: Iterable[Reading]) -> dict[str, int]:
    """Return when each job is complete."""
    ends: dict[str, int] = {}
    for reading in readings:
        ends[reading.job.name] = max(reading.last, ends.get(reading.job.name, reading.last))
    return ends


def _assignment(problem: JobsProblem, plan: JobsPlan) -> Iterator[Violation]:
    counts = Counter((run.job, run.unit) for run in plan.runs)
    jobs = {job.name: job for job in problem.jobs}
    for job in problem.jobs:
        for unit in range(len(job.units)):
            if counts[job.name, unit] != 1:
                times = counts[job.name, unit]
                text = f"unit {unit} of {job.name!r} runs {times} times, expected once"
                yield Violation("assignment", (job.name,), text, 1, times)
    for run in plan.runs:
        text = _misfit(problem, jobs.get(run.job), run)
        if text:
            yield Violation("assignment", (run.job,), f"run {run.job}/{run.unit} {text}")


def _misfit(problem: JobsProblem, job: Job | None, run: Run) -> str:
    """What a run is that the problem does not know, in words."""
    if job is None:
        return "is of a job that the problem does not have"
    if not 0 <= run.unit < len(job.units):
        return "is of a unit that its job does not have"
    options = job.units[run.unit].options
    if not 0 <= run.option < len(options):
        return f"takes option {run.option}, there are {len(options)}"
    numbers = (run.start, run.load or 0, run.store or 0, *run.devices)
    if any(type(number) is not int for number in numbers):
        return "has a number that is no integer"
    option = options[run.option]
    pool = problem.pool[option.pool]
    if len(set(run.devices)) != len(run.devices) or len(run.devices) != option.devices:
        return f"holds the devices {list(run.devices)}, its option wants {option.devices}"
    wrong = [device for device in run.devices if not 0 <= device < pool.devices]
    if wrong:
        return f"holds device {wrong[0]}, pool {pool.name!r} has {pool.devices}"
    return ""


def _order(readings: list[Reading]) -> Iterator[Violation]:
    by_job: dict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        by_job[reading.job.name].append(reading)
        least = reading.job.release
        if reading.first < least:
            text = f"{reading.name} begins before the release of its job"
            at = reading.first
            yield Violation("release", (reading.job.name,), text, at, least, Counts.TIME)
    for name, units in by_job.items():
        units.sort(key=lambda entry: entry.run.unit)
        for before, after in pairwise(units):
            if after.run.start < before.stop:
                text = f"{after.name} starts before {before.name} has stopped"
                yield Violation("order", (name,), text, after.run.start, before.stop, Counts.TIME)


def _exclusion(lines: Lines) -> Iterator[Violation]:
    for (pool, device), line in lines.items():
        latest = line[0]
        for reading in line[1:]:
            if reading.run.start < latest.stop:
                text = f"{latest.name} and {reading.name} run on device {device} of {pool!r}"
                names = (latest.job.name, reading.job.name)
                yield Violation("exclusion", names, f"{text} at once")
            latest = max(latest, reading, key=lambda entry: entry.stop)


def _stays(before: Reading | None, after: Reading | None) -> bool:
    """Whether weights that one run used are those the next one on the same devices needs."""
    return (
        before is not None
        and after is not None
        and before.weights is not None
        and (before.job.name, before.weights) == (after.job.name, after.weights)
        and set(before.run.devices) == set(after.run.devices)
        and before.option.pool == after.option.pool
    )


def _neighbours(lines: Lines) -> dict[int, list[tuple[Reading | None, Reading | None]]]:
    """For each run, by identity, the runs before and after it on each of its devices."""
    found: dict[int, list[tuple[Reading | None, Reading | None]]] = defaultdict(list)
    for line in lines.values():
        padded = [None, *line, None]
        for place, reading in enumerate(line):
            found[id(reading)].append((padded[place], padded[place + 2]))
    return found


def _weights(readings: list[Reading], lines: Lines) -> Iterator[Violation]:
    beside = _neighbours(lines)
    uses: dict[tuple[str, str], list[Reading]] = defaultdict(list)
    for reading in readings:
        around = beside[id(reading)]
        if reading.weights is None:
            if reading.run.load is not None or reading.run.store is not None:
                text = f"{reading.name} moves weights, it has none"
                yield Violation("weights", (reading.job.name,), text)
            continue
        uses[reading.job.name, reading.weights.name].append(reading)
        yield from _present(reading, [before for before, _ in around])
        yield from _returned(reading, [after for _, after in around])
    for (name, weights), users in uses.items():
        users.sort(key=lambda entry: entry.run.unit)
        for before, after in pairwise(users):
            if after.run.load is not None and (before.stored or before.stop) > after.run.load:
                text = f"{after.name} loads {weights!r} before {before.name} has stored them"
                yield Violation("weights", (name,), text)


def _present(reading: Reading, before: list[Reading | None]) -> Iterator[Violation]:
    if reading.loaded is not None:
        if reading.loaded > reading.run.start:
            text = f"{reading.name} starts before its weights are loaded"
            amounts = (reading.run.start, reading.loaded, Counts.TIME)
            yield Violation("weights", (reading.job.name,), text, *amounts)
    elif not all(_stays(other, reading) and _kept(other) for other in before):
        text = f"{reading.name} has no load, and the weights did not stay on its devices"
        yield Violation("weights", (reading.job.name,), text)


def _kept(reading: Reading | None) -> bool:
    return reading is not None and reading.run.store is None


def _returned(reading: Reading, after: list[Reading | None]) -> Iterator[Violation]:
    used = all(_stays(reading, other) and other and other.run.load is None for other in after)
    name = (reading.job.name,)
    if reading.run.store is None and not used:
        text = f"{reading.name} has no store, and the next run does not need its weights"
        yield Violation("weights", name, text)
    if reading.run.store is not None and reading.run.store < reading.stop:
        text = f"{reading.name} stores its weights before it has stopped"
        amounts = (reading.run.store, reading.stop, Counts.TIME)
        yield Violation("weights", name, text, *amounts)


def _lanes(lines: Lines) -> Iterator[Violation]:
    for (pool, device), line in lines.items():
        for lane in ("load", "store"):
            spans = _spans(line, lane)
            yield from _clashes(f"{lane}s of device {device} of {pool!r}", spans)


def _spans(line: list[Reading], lane: str) -> list[tuple[int, int, Reading]]:
    """Begin and end of each load, or of each store, in order; those that last no time are none."""
    found = []
    for reading in line:
        begin = reading.run.load if lane == "load" else reading.run.store
        end = reading.loaded if lane == "load" else reading.stored
        if begin is not None and end is not None and end > begin:
            found.append((begin, end, reading))
    return sorted(found, key=lambda entry: entry[:2])


def _clashes(what: str, spans: list[tuple[int, int, Reading]]) -> Iterator[Violation]:
    for (_, end, before), (begin, _, after) in pairwise(spans):
        if begin < end:
            names = (before.job.name, after.job.name)
            yield Violation("lane", names, f"{what}: {before.name} and {after.name} overlap")


def _memory(problem: JobsProblem, lines: Lines) -> tuple[int, list[Violation]]:
    """Most bytes on any device, and a breach for each device that has less, at its worst."""
    highest, breaches = 0, []
    for (pool, device), line in lines.items():
        peak, at = peak_of(holdings(line))
        highest = max(highest, peak)
        limit = problem.pool[pool].memory
        if limit is not None and peak > limit:
            text = f"device {device} of {pool!r} holds too much at {at}"
            breaches.append(Violation("memory", (pool,), text, peak, limit, Counts.SIZE))
    return highest, breaches


def holdings(line: list[Reading]) -> list[tuple[int, int, int]]:
    """What the runs of a device hold there: begin, end and bytes."""
    found, begin = [], None
    for reading in line:
        found.append((reading.run.start, reading.stop, reading.option.bytes))
        if reading.weights is None:
            continue
        begin = reading.run.load if reading.run.load is not None else begin
        end = reading.stored
        since = reading.run.start if begin is None else begin
        if end is not None:
            found.append((since, end, reading.weights.bytes))
            begin = None
    return found


def peak_of(spans: Iterable[tuple[int, int, int]]) -> tuple[int, int]:
    """Return the largest sum of amounts at one instant, and the first such instant."""
    changes: dict[int, int] = defaultdict(int)
    for begin, end, amount in spans:
        if end > begin:
            changes[begin] += amount
            changes[end] -= amount
    held = peak = at = 0
    for time in sorted(changes):
        held += changes[time]
        if held > peak:
            peak, at = held, time
    return peak, at


def _host(problem: JobsProblem, readings: list[Reading]) -> tuple[int, list[Violation]]:
    begins: dict[str, int] = {}
    for reading in readings:
        name = reading.job.name
        begins[name] = min(reading.first, begins.get(name, reading.first))
    ends = completions(readings)
    spans = [(begins[job.name], ends[job.name], job.host) for job in problem.jobs]
    peak, at = peak_of(spans)
    if problem.host is None or peak <= problem.host:
        return peak, []
    names = tuple(
        job.name for job in problem.jobs if begins[job.name] <= at < ends[job.name] and job.host
    )
    text = f"the jobs under way at {at} need more than the host has"
    return peak, [Violation("host", names, text, peak, problem.host, Counts.SIZE)]
