"""Planning again while jobs run, on true times that estimates miss: Saturn's introspection.

An event simulator: until the next point jobs run by the plan at hand, each as long as it truly
takes; there, what has run tells its true speed, the rest is planned again, and the new plan is
taken if it promises to be better by a part (Saturn asks for 500 s). A job that has begun may change
its option at a point, at a price. What happened is a plan of its own problem, with a unit for each
stretch, so the checker judges it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

from milp_plan.kinds.jobs.planners.lists import STARTS, JobTables, Listing, allotments, placed
from milp_plan.kinds.jobs.problem import Job, JobsPlan, JobsProblem, Option, Unit

Chosen = list[tuple[int, int]]
"""Jobs in an order, each with the number of its option."""

ROUNDS = 3_000
"""Changes of an annealing at each point."""

BETTER = Fraction(1, 50)
"""Part by which a new plan has to promise to be better."""


class Simulation:
    """Jobs that truly take this many times what is thought.

    Parameters
    ----------
    problem
        As it is thought to be: plain, without releases, of one objective, the makespan.
    truth
        Factor of each job's times.
    price
        Ticks that a job takes longer when it goes on by another option.
    """

    def __init__(self, problem: JobsProblem, truth: Sequence[Fraction], price: int = 0) -> None:
        self.problem, self.truth, self.price = problem, truth, price
        self.left = [Fraction(1)] * len(problem.jobs)
        self.seen = [Fraction(1)] * len(problem.jobs)
        self.last: list[int | None] = [None] * len(problem.jobs)
        self.stretches: list[tuple[int, int, int, int]] = []  # job, option, start, ticks
        self.plans = 0

    def run(self, points: int, seed: int = 0) -> int:
        """Plan, and plan again at this many points; return the true makespan."""
        chosen = self._planned(range(len(self.problem.jobs)), seed)
        now = 0
        step = max(1, self._length(chosen, self.seen) // (points + 1))
        while chosen:
            until = now + step if points > 0 else None
            self._go(chosen, now, until)
            chosen = [entry for entry in chosen if self.left[entry[0]]]
            if until is not None and chosen:
                points, now = points - 1, until
                again = self._planned([job for job, _ in chosen], seed + points + 1)
                better = self._length(chosen, self.seen) * (1 - BETTER)
                chosen = again if self._length(again, self.seen) < better else chosen
        return max(start + ticks for _, _, start, ticks in self.stretches)

    def happened(self) -> tuple[JobsProblem, JobsPlan]:
        """Return what happened, as a plan of a problem of its own."""
        units: list[list[Unit]] = [[] for _ in self.problem.jobs]
        starts = []
        for job, number, start, ticks in self.stretches:
            option = self.problem.jobs[job].units[0].options[number]
            starts.append((job, len(units[job]), 0, start))
            units[job].append(Unit((replace(option, ticks=ticks),)))
        jobs = tuple(
            replace(job, units=tuple(own))
            for job, own in zip(self.problem.jobs, units, strict=True)
        )
        problem = replace(self.problem, jobs=jobs)
        return problem, placed(problem, starts, "introspection")

    def _tables(self, jobs: Sequence[int], speed: Sequence[Fraction]) -> JobTables:
        """What is left of some jobs, at given speeds."""
        made = []
        for job in jobs:
            spec = self.problem.jobs[job]
            options = tuple(
                self._rest(job, number, option, speed[job])
                for number, option in enumerate(spec.units[0].options)
            )
            made.append(Job(spec.name, (Unit(options),)))
        return JobTables(replace(self.problem, jobs=tuple(made)))

    def _rest(self, job: int, number: int, option: Option, speed: Fraction) -> Option:
        begun = self.last[job] not in (None, number)
        ticks = ceil(option.ticks * self.left[job] * speed) + (self.price if begun else 0)
        return replace(option, ticks=ticks)

    def _planned(self, jobs: Sequence[int], seed: int) -> Chosen:
        """Plan what is left, as far as it is known."""
        tables = self._tables(jobs, self.seen)
        starts = [make(tables, seed) for make in STARTS.values()]
        shortest = min(_end(tables, start) for start in starts)
        starts += allotments(tables, max(1, shortest // 2))
        found = tables.anneal(min(starts, key=lambda start: _end(tables, start)), ROUNDS, seed)
        spans = tables.spans(found)
        order = sorted(range(len(spans)), key=lambda place: spans[place][1:])
        return [(jobs[place], spans[place][0]) for place in order]

    def _spans(self, chosen: Chosen, speed: Sequence[Fraction]) -> list[tuple[int, int, int]]:
        """Option, start and stop of each of the chosen, in their order."""
        tables = self._tables([job for job, _ in chosen], speed)
        choice = [
            next(row for row in tables.of(place) if tables.rows[row][0] == option)
            for place, (_, option) in enumerate(chosen)
        ]
        return tables.spans(Listing(range(len(chosen)), choice))

    def _length(self, chosen: Chosen, speed: Sequence[Fraction]) -> int:
        return max(stop for *_, stop in self._spans(chosen, speed))

    def _go(self, chosen: Chosen, now: int, until: int | None) -> None:
        """Run until an instant, or to the end."""
        spans = self._spans(chosen, self.truth)
        for (job, _), (option, start, stop) in zip(chosen, spans, strict=True):
            begin, end = now + start, now + stop
            if until is not None and begin >= until:
                continue
            cut = end if until is None else min(end, until)
            self.stretches.append((job, option, begin, cut - begin))
            self.seen[job], self.last[job] = self.truth[job], option
            self.left[job] *= Fraction(end - cut, max(1, end - begin))


def _end(tables: JobTables, listing: Listing) -> int:
    return max(stop for *_, stop in tables.spans(listing))
