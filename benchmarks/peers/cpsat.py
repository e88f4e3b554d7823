"""A peer to measure against: OR-Tools CP-SAT on instances with objective makespan.

``python benchmarks/peers/cpsat.py INSTANCE --limit 60 --workers 2 --out plan.json``; needs ortools,
in an environment of its own (OR-Tools and highspy clash in one process). List schedules and stages
come first, then the whole model where it is small enough, then neighbourhoods, each process with
one of them at a time. The last line is a JSON object: value, bound, and every better plan with the
seconds from the start of the process at which it was known.
"""

from __future__ import annotations

import time

BEGAN = time.monotonic()

import argparse  # noqa: E402
import json  # noqa: E402
import multiprocessing  # noqa: E402
import queue  # noqa: E402
import random  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from constructions import ONCE, Climb, Constructions, Start  # noqa: E402
from neighbourhoods import KINDS, neighbourhood  # noqa: E402
from reader import Instance, Plan, UnsupportedError  # noqa: E402

CONSTRUCTION_SHARE, MOST_CONSTRUCTION_S = 0.15, 20.0
CLIMB_SHARE = 0.1
"""Parts of the limit for constructions, and for moving classes about in the best of them."""

PATIENCE_S = 2.0
"""Seconds of such moves in vain after which they end."""

MOST_PAIRS = 4000
"""Pairs of a producer's mode and a reader's mode up to which the whole model is built."""

FULL_SHARE, LEAST_FULL_S = 0.4, 20.0
STEP_S = 4.0
"""Seconds of one neighbourhood."""

SIZE = 40
"""Operators of the first neighbourhoods."""

NEAR = 1.3
"""Plans this many times as long as the best are improved as well."""

STILL = 8
"""Answers in vain, one after the other, after which a plan rests until the others do too."""

LEAST_WORTH = 0.3
"""Weight of a kind of neighbourhood that has not helped for long."""

LAST_S = 1.0
"""Seconds before the end after which no neighbourhood begins."""

_instance: Instance
_news: Any


def _begin(path: str, news: Any) -> None:
    """Begin a process of the pool."""
    global _instance, _news
    _instance, _news = Instance(path), news


def _construct(part: int, seed: int, end: float, climb_end: float) -> None:
    """Constructions of one process, then moves from the best of them."""
    best: list[Start] = []

    def tell(start: Start) -> None:
        if not best or start.plan.value < best[-1].plan.value:
            best.append(start)
        _news.put((start.plan, start.name, start.family))

    tries = Constructions(_instance, lambda: time.monotonic() > end, tell)
    for step in (tries.lists, tries.stages) if part % 2 else (tries.stages, tries.lists):
        step()
    if best:
        Climb(_instance, best[-1], seed).run(lambda: time.monotonic() > climb_end, tell, PATIENCE_S)


class Racer:
    """A plan that neighbourhoods improve, with what has been learnt about it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.vain = 0
        self.worth = dict.fromkeys(KINDS, 1.0)
        self.sizes = {kind: SIZE * (3 if kind == "order" else 1) for kind in KINDS}

    def learn(self, answer: tuple[str, Plan | None, str, float], begun: int, most: int) -> None:
        """Take a better plan, or as good another one; else larger or smaller neighbourhoods."""
        status, plan, kind, spent = answer
        better = plan is not None and plan.value < self.plan.value
        if better or (plan is not None and plan.value == self.plan.value == begun):
            self.plan = plan
        self.vain = 0 if better else self.vain + 1
        self.worth[kind] = 0.85 * max(0.0, self.worth[kind]) + better
        if better:
            self.worth = {name: max(0.0, worth) for name, worth in self.worth.items()}
            return
        if status in ("OPTIMAL", "INFEASIBLE") and spent < STEP_S / 2:
            if self.sizes[kind] >= most:
                self.worth[kind] = -LEAST_WORTH  # nothing to gain there until the plan changes
            self.sizes[kind] = min(int(1.35 * self.sizes[kind]) + 1, most)
        elif status in ("FEASIBLE", "UNKNOWN", "LATE"):
            self.sizes[kind] = max(6, int(0.85 * self.sizes[kind]))


def _improve(task: tuple[Any, ...]) -> tuple[str, Plan | None, str, float]:
    """Solve one neighbourhood of a plan."""
    from schedule_model import ScheduleModel

    plan, kind, size, seed, end, strict = task
    began, rng = time.monotonic(), random.Random(seed)
    free = neighbourhood(_instance, plan, kind, size, rng)
    modes = [
        _instance.operators[number].modes if number in free.moving else [mode]
        for number, mode in enumerate(plan.modes)
    ]
    most = plan.value - max(1, plan.value // 2000) if strict else plan.value
    model = ScheduleModel(_instance, modes, most)
    model.chain(plan, free.turning)
    model.hint(plan)
    left = min(STEP_S, end - time.monotonic() - 0.3)
    if left < 0.2:
        return "LATE", None, kind, time.monotonic() - began
    answer = model.solve(
        left, 1, seed, symmetry_level=0, linearization_level=0, cp_model_presolve=False
    )
    return answer.status, answer.plan, kind, time.monotonic() - began


class Search:
    """The search of one instance until its end."""

    def __init__(self, path: str, limit_s: float, workers: int, seed: int) -> None:
        self.instance = Instance(path)
        self.limit_s, self.workers, self.seed = limit_s, workers, seed
        self.end = BEGAN + limit_s
        self.plan: Plan | None = None
        self.by = ""
        self.bound = self.instance.bound
        self.trace: list[tuple[float, int]] = []
        self.built: Plan | None = None
        self.firsts: dict[str, Plan] = {}
        self.solved = 0
        import ortools.sat.python.cp_model  # noqa: F401  (once, before there are processes)

        context = multiprocessing.get_context("fork")
        self.news = context.Queue()
        self.pool = context.Pool(workers, _begin, (path, self.news))

    def offer(self, plan: Plan | None, by: str) -> None:
        """Keep a plan if it is the best."""
        if plan is not None and (self.plan is None or plan.value < self.plan.value):
            self.plan, self.by = plan, by
            self.trace.append((round(time.monotonic() - BEGAN, 2), plan.value))

    @property
    def proved(self) -> bool:
        """Whether nothing can be better."""
        return self.plan is not None and self.plan.value <= self.bound

    def construct(self) -> None:
        """Constructions, shared out to the processes."""
        share = min(MOST_CONSTRUCTION_S, CONSTRUCTION_SHARE * self.limit_s)
        end = time.monotonic() + share
        climb_end = min(self.end - LAST_S, end + CLIMB_SHARE * self.limit_s)
        jobs = [
            self.pool.apply_async(_construct, (part, self.seed + part, end, climb_end))
            for part in range(self.workers)
        ]
        while time.monotonic() < self.end - LAST_S:
            try:
                plan, by, family = self.news.get(timeout=0.05)
                self.offer(plan, by)
                self.built = self.plan
                self.firsts.setdefault(family, plan)
            except queue.Empty:
                if all(job.ready() for job in jobs):
                    break
            if self.proved:
                return
        for job in jobs:
            if job.ready():
                job.get()  # what went wrong there

    def whole(self) -> None:
        """The model of everything, where CP-SAT can still make something of it."""
        from ortools.sat.python import cp_model
        from schedule_model import ScheduleModel

        instance = self.instance
        pairs = sum(
            len(instance.operators[value.producer].modes) * len(instance.operators[reader].modes)
            for value in instance.made
            for reader in value.readers
        )
        left = self.end - time.monotonic() - LAST_S
        if pairs > MOST_PAIRS or self.proved or left < 1:
            return
        travels = sum(len(value.readers) * instance.slowest(value) for value in instance.made)
        longest = sum(max(mode.length for mode in o.modes) for o in instance.operators)
        most = 2 * longest + travels if self.plan is None else self.plan.value
        model = ScheduleModel(instance, [o.modes for o in instance.operators], most)
        if self.plan is not None:
            model.hint(self.plan)
        search = self

        class Told(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
            def on_solution_callback(self) -> None:
                search.offer(model._plan(self), "CP-SAT")

        limit = max(FULL_SHARE * left, min(left, LEAST_FULL_S))
        answer = model.solve(limit, self.workers, self.seed, Told())
        self.offer(answer.plan, "CP-SAT")
        if not model.exact:
            return
        if answer.status == "INFEASIBLE" and self.plan is not None:
            raise AssertionError("the model has lost a plan")
        if answer.status == "OPTIMAL" and answer.plan is not None:
            self.bound = max(self.bound, answer.plan.value)
        elif answer.status in ("FEASIBLE", "UNKNOWN"):
            self.bound = max(self.bound, int(answer.bound))

    def racers(self) -> list[Racer]:
        """The best plan of all, the best construction, and a plain one, if they are near.

        What nobody has improved yet often leads further than the best, which stands still.
        """
        assert self.plan is not None
        plain = [plan for family, plan in self.firsts.items() if family.endswith(ONCE)]
        plans = {
            plan.value: plan
            for plan in (min(plain, key=_length, default=None), self.built)
            if plan is not None and plan.value <= NEAR * self.plan.value
        }
        return [Racer(plan) for plan in (plans | {self.plan.value: self.plan}).values()]

    def neighbourhoods(self) -> None:
        """One small model after the other in each process, until the end."""
        if self.plan is None or self.proved:
            return
        rng, most = random.Random(self.seed), len(self.instance.operators)
        racers = self.racers()
        running: list[Any] = []
        while not self.proved:
            while len(running) < self.workers and time.monotonic() < self.end - LAST_S:
                racer = awake(racers)
                if max(racer.worth.values()) < 0:
                    racer.worth = dict.fromkeys(KINDS, 0.0)
                kind = rng.choices(KINDS, [LEAST_WORTH + racer.worth[kind] for kind in KINDS])[0]
                task = (
                    racer.plan, kind, racer.sizes[kind], rng.randrange(2**31), self.end,
                    rng.random() < 0.8,
                )  # fmt: skip
                job = self.pool.apply_async(_improve, (task,))
                running.append((job, racer, racer.plan.value))
            if not running or time.monotonic() > self.end - 0.2:
                return
            ready = [entry for entry in running if entry[0].ready()]
            if not ready:
                time.sleep(0.005)
            for entry in ready:
                running.remove(entry)
                answer = entry[0].get()
                self.solved += 1
                entry[1].learn(answer, entry[2], most)
                self.offer(answer[1], f"neighbourhood, {answer[2]}")

    def run(self) -> None:
        """All of it."""
        try:
            self.construct()
            self.whole()
            self.neighbourhoods()
        finally:
            self.pool.terminate()


def _length(plan: Plan) -> int:
    return plan.value


def awake(racers: list[Racer]) -> Racer:
    """The best plan that does not rest."""
    if all(racer.vain >= STILL for racer in racers):
        for racer in racers:
            racer.vain = 0
    return min((r for r in racers if r.vain < STILL), key=lambda racer: racer.plan.value)


def main() -> None:
    """Read the command line, search, write the plan and the answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds from the start")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="plan file to write")
    given = parser.parse_args()
    told: dict[str, Any] = {"unsupported": None, "value": None, "bound": None, "trace": []}
    try:
        search = Search(given.file, given.limit, given.workers, given.seed)
    except UnsupportedError as error:
        print(json.dumps({**told, "unsupported": str(error)}))
        return
    search.run()
    unit = search.instance.unit
    told["bound"] = search.bound if unit == 1 else None  # lengths are rounded up in other units
    told["trace"] = [(seconds, value * unit) for seconds, value in search.trace]
    told |= {"proved": search.proved and unit == 1, "by": search.by, "solved": search.solved}
    if search.plan is not None:
        plan = search.instance.plan_file(search.plan)
        told["value"] = plan["value"]
        if given.out is not None:
            given.out.write_text(json.dumps(plan))
    told["seconds"] = round(time.monotonic() - BEGAN, 2)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
