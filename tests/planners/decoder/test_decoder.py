"""Schedules of the compiled decoder, held against the checker."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from milp_plan.check import verify
from milp_plan.core import (
    FULL,
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    Objective,
    Operator,
    Option,
    Placement,
    PlanningProblem,
    Value,
)
from milp_plan.kinds.schedule.planners.decoder import Decoder
from milp_plan.kinds.schedule.planners.decoder.ahead import look_ahead
from milp_plan.kinds.schedule.planners.indexed import indexed
from tests.support.problems import random_problem

pytestmark = pytest.mark.untraced


def magnified(problem: PlanningProblem, ticks: int) -> PlanningProblem:
    """Every duration this many times as long."""
    operators = tuple(
        replace(
            operator,
            options=tuple(
                replace(o, duration_ticks={k: v * ticks for k, v in o.duration_ticks.items()})
                for o in operator.options
            ),
        )
        for operator in problem.graph.operators
    )
    return replace(problem, graph=replace(problem.graph, operators=operators))


def random_placement(problem: PlanningProblem, rng: Random) -> dict[str, Placement]:
    view = indexed(problem)
    found = {}
    for unit, sites in enumerate(view.unit_sites):
        site = rng.choice(sites)
        for operator in view.units[unit]:
            spots = [spot for spot in view.spots[operator] if spot.site == site]
            found[view.names[operator]] = rng.choice(spots).placement
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_schedule_is_worth_what_the_checker_says(seed: int) -> None:
    rng = Random(seed)
    problem = random_problem(seed, objective=Objective.MAKESPAN)
    problem = magnified(problem, rng.choice((1, 7, 10**9)))
    decoder = Decoder(problem)
    seen = 0
    for _ in range(30):
        site, option = decoder.place(random_placement(problem, rng))
        rank = np.array([rng.randint(0, 9) for _ in range(decoder.size)])
        patient, soft, holding = (rng.random() < 0.5 for _ in range(3))
        how = {"patient": patient, "soft": soft, "holding": holding}
        value = decoder.decode(site, option, rank, **how)
        if value is None:
            continue
        seen += 1
        verdict = verify(problem, decoder.plan())
        rules = {violation.rule for violation in verdict.violations}
        if decoder.excess > 0:
            assert soft
            assert rules <= {"memory"}
        else:
            assert verdict.ok, verdict.violations[0]
            assert verdict.value == decoder.ticks(value)
        # What ends at the cutoff is not before it.
        assert decoder.decode(site, option, rank, cutoff=value, **how) is None
        assert decoder.decode(site, option, rank, cutoff=value + 1, **how) == value
    assert seen or decoder.limited, "only memory or missing channels leave nothing"


@pytest.mark.parametrize("model", [CommunicationModel.CHANNEL, CommunicationModel.ENDPOINT])
def test_a_long_transfer_holds_for_a_more_urgent_one(model: CommunicationModel) -> None:
    """Two chains from one device to the other: the bulky value is made first, the urgent one next.

    On the wire at once, the bulky value keeps the other one waiting for 100 ticks, and the long
    reader behind it; held for the 5 ticks until the urgent value is there, it does not.
    """
    names = ("bulky", "urgent", "short", "long")
    ticks = dict(zip(names, (5, 5, 1, 200), strict=True))
    problem = PlanningProblem(
        "hold",
        graph=ComputationGraph(
            operators=tuple(Operator(n, (Option("o", {"X": ticks[n]}),)) for n in names),
            values=(
                Value("b", "bulky", ("short",), {FULL: 100}),
                Value("u", "urgent", ("long",), {FULL: 10}),
            ),
        ),
        cluster=Cluster(
            device_classes=(DeviceClass("X", None),),
            devices=(Device("a", "X", None), Device("b", "X", None)),
            channels=(Channel("a", "b", 0, 10**9),),
            communication=model,
        ),
    )
    decoder = Decoder(problem)
    place = {n: Placement("o", ("b" if n in ("short", "long") else "a",)) for n in names}
    site, option = decoder.place(place)
    values = {}
    for order in (("bulky", "urgent", "long", "short"), ("bulky", "urgent", "short", "long")):
        rank = decoder.ranks({n: -float(order.index(n)) for n in names})
        for holding in (False, True):
            values[order[2], holding] = decoder.decode(site, option, rank, holding=holding)
            assert verify(problem, decoder.plan()).ok
    # Made after 10 ticks, sent in 10, read in 200; behind the bulky value 95 ticks later.
    assert values == {
        ("long", False): 315,
        ("long", True): 221,
        ("short", False): 315,
        ("short", True): 315,
    }


def ahead(problem: PlanningProblem, place: dict[str, str]) -> tuple[int, int | None]:
    """Least makespan seen before a schedule is made, and the makespan, of operators on devices."""
    decoder = Decoder(problem)
    site, option = decoder.place({n: Placement("o", (device,)) for n, device in place.items()})
    value = decoder.decode(site, option, np.zeros(decoder.size, dtype=np.int64))
    return look_ahead(decoder.memory.a, decoder.memory.t), value


@pytest.mark.parametrize("model", list(CommunicationModel))
def test_transfers_and_loads_are_seen_ahead(model: CommunicationModel) -> None:
    """Sends of 100 ticks: a chain over two devices, two sends on one wire, work of one device."""
    operators = tuple(Operator(n, (Option("o", {"X": 10}),)) for n in "abcd")
    problem = PlanningProblem(
        "ahead",
        graph=ComputationGraph(
            operators=operators,
            values=(Value("v", "a", ("c",), {FULL: 100}), Value("w", "b", ("d",), {FULL: 100})),
        ),
        cluster=Cluster(
            device_classes=(DeviceClass("X", None),),
            devices=tuple(Device(name, "X", None) for name in "xyz"),
            channels=(Channel("x", "y", 0, 10**9), Channel("z", "y", 0, 10**9)),
            communication=model,
        ),
    )
    assert ahead(problem, dict.fromkeys("abcd", "x")) == (40, 40)
    # One send after the other where the wire is held: 200 ticks, then a reader, not yet what came
    # before them. Where it is not, the second maker ends after 20, sends, and is read.
    one, together = ahead(problem, {"a": "x", "b": "x", "c": "y", "d": "y"})
    held = model is not CommunicationModel.DELAY
    assert (one, together) == ((210, 220) if held else (130, 130))
    assert ahead(problem, {"a": "x", "b": "z", "c": "y", "d": "z"}) == (120, 120)
