"""Each formulation, asked alone by its name, says nothing that enumeration refutes.

No false proof, no false infeasibility, no plan that the checker refuses, no dispute: whatever the
magnitudes. Where a formulation proves nothing, it says why.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from milp_plan.backends import Stop
from milp_plan.models.registry import get, shipped_folders
from milp_plan.run import Settings, solve
from milp_plan.run.kinds import kind_of
from tests.support.brute import brute_force
from tests.support.named import Case, case, names

SECONDS = 5.0
"""Of each question: what is not proved by then says nothing, rightly."""


class Said(NamedTuple):
    """What became of a run: in a word, what is wrong with it, and why nothing was proved."""

    what: str
    faults: list[str]
    note: str


def asked(name: str, given: Case) -> Said:
    """Ask a formulation alone; hold what it says against enumeration."""
    problem, best = given
    outcome = solve(problem, Settings(SECONDS, formulation=name, only=True, threads=1))
    faults = list(outcome.defects)
    if outcome.disputed:
        faults.append(f"disputed: {outcome.disputed_reason}")
    if outcome.infeasible_reason is not None and best is not None:
        faults.append(f"no plan, it says: there is one of {best}")
    if outcome.bound is not None and best is not None and outcome.bound > best:
        faults.append(f"bound {outcome.bound}, optimum {best}")
    if outcome.plan is not None:
        verdict = kind_of(problem).verify(problem, outcome.plan)
        if not verdict.ok or best is None or verdict.value is None or verdict.value < best:
            faults.append(f"plan of {verdict.value}: {verdict.violations[:1]}, optimum {best}")
    if outcome.infeasible_reason is not None:
        return Said("no plan", faults, "")
    if outcome.proved:
        return Said("proved", faults, "")
    if outcome.stop in (Stop.FINISHED, Stop.ERROR) and not outcome.unproved_reason:
        faults.append("nothing is proved, and it does not say why")
    word = "bound" if outcome.bound is not None else "unproved"
    return Said(word, faults, outcome.unproved_reason)


NAMES = names()
CHUNK, QUICK = 25, {"operator_schedule": 8, "packing_order": 8}
"""Seeds of a slow test; of the default run, where they are more than two."""

MANY = {"operator_schedule": 3000, "packing_order": 3000}
"""Seeds of all slow tests of a formulation, where they are more than 500."""


ELSEWHERE = {"training_stages"}
"""Formulations whose problems no run takes: their own tests ask them beside enumeration."""


def chunks() -> list[tuple[str, range]]:
    """Return formulations and seeds: one small chunk of each, then all others."""
    first = [(name, range(QUICK.get(name, 2))) for name in NAMES]
    others = [
        (name, range(start, start + CHUNK))
        for name in NAMES
        for start in range(0, MANY.get(name, 500), CHUNK)
    ]
    return first + others


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        pytest.param(*entry, marks=pytest.mark.slow) if place >= len(NAMES) else entry
        for place, entry in enumerate(chunks())
    ],
    ids=lambda part: part if isinstance(part, str) else f"{part.start}-{part.stop}",
)
def test_a_formulation_alone_says_nothing_that_enumeration_refutes(name: str, seeds: range) -> None:
    stated = {seed: asked(name, case(name, seed)) for seed in seeds}
    wrong = {seed: answer.faults for seed, answer in stated.items() if answer.faults}
    assert not wrong, f"{name}: {wrong}"
    settled = sum(answer.what in ("proved", "no plan") for answer in stated.values())
    found = get(name).formulation
    assert found is not None
    if found.card.exact and len(seeds) >= CHUNK:
        assert settled >= len(seeds) // 4, f"{name} proves hardly anything"


def test_every_formulation_has_cases() -> None:
    shipped = {path.parent.name for f in shipped_folders() for path in f.glob("*/__init__.py")}
    assert set(NAMES) | ELSEWHERE == shipped


@pytest.mark.parametrize("name", ["pipeline_order", "pipeline_period"])
def test_weights_larger_than_a_device_leave_no_plan_though_no_task_takes_memory(name: str) -> None:
    problem, _ = case("pipeline_order", 414)  # weights of 20 bytes; no task takes any
    operators = []
    for op in problem.graph.operators:
        short = dict.fromkeys(op.options[0].duration_ticks, 2)  # few slots
        operators.append(replace(op, options=(replace(op.options[0], duration_ticks=short),)))
    problem = replace(problem, graph=replace(problem.graph, operators=tuple(operators)))
    form = get(name).formulation
    assert form is not None
    for room in (0, 19, 20, 10**10):
        here = replace(problem, cluster=problem.cluster.with_memory({"d0": room, "d1": 0}))
        found = brute_force(here)
        assert (found is None) == (room < 20)
        stated = asked(name, Case(here, found and found[0]))
        assert not stated.faults
        if form.card.exact and not form.restricts(form.Options()):
            assert stated.what == ("no plan" if found is None else "proved")
