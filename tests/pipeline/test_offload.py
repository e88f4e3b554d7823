"""Problems with offload lanes: what the laws make of them, and canonical plans."""

from __future__ import annotations

import dataclasses
from random import Random

import pytest

from formulations.pipeline_offload.lanes import canonical, interchangeable
from milp_plan.check import verify
from milp_plan.core import CommunicationModel, PlanningProblem
from milp_plan.kinds.pipeline.holds import Held, OffloadShop, read_offload
from milp_plan.kinds.pipeline.offload import Lanes, chain_problem, offload_problem
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.precedence import Precedence, longest_paths
from milp_plan.kinds.pipeline.residence import residence_bound
from milp_plan.kinds.pipeline.template import Stage, Template, pipeline_problem, uniform


def shop_of(problem: PlanningProblem) -> OffloadShop:
    found = read_offload(problem)
    assert not isinstance(found, str), found
    return found


def one_stage(
    batches: int, *, memory: int | None = None, lanes: tuple[int, int] = (2, 3)
) -> OffloadShop:
    template = Template((Stage(2, 2, 2, weight_bytes=5),), batches)
    problem = offload_problem("one", template, ((0,),), Lanes(2, 3), memory_bytes=memory)
    return shop_of(problem)


def in_turn(shop: OffloadShop, names: list[str], gap: int = 0) -> dict[str, int]:
    starts, now = {}, 0
    for name in names:
        starts[name] = now
        now += shop.steps[name].ticks + gap
    return starts


LIFO = ["F0@0", "F0@1", "B0@1", "W0@1", "B0@0", "W0@0"]


def test_what_stays_counts_once_and_what_travels_is_away_between_its_journeys() -> None:
    shop = one_stage(2)
    starts = in_turn(shop, LIFO)
    stays = verify(shop.problem, shop.plan(starts, {}))
    assert stays.ok, stays.violations
    assert stays.value == 12
    assert stays.components["peak_memory d0"] == 10
    shop = one_stage(2, memory=5)
    starts = {"F0@0": 0, "F0@1": 4, "B0@1": 6, "W0@1": 8, "B0@0": 13, "W0@0": 15}
    trips = {"s0@0": (2, 10)}  # out [2, 4), back [10, 13)
    away = verify(shop.problem, shop.plan(starts, trips))
    assert away.ok, away.violations
    assert away.components["peak_memory d0"] == 5
    assert away.components["peak_memory host-d0"] == 5
    for change in ({"F0@1": 3}, {"W0@1": 9}):  # not gone yet; still there when the other is back
        late = verify(shop.problem, shop.plan(starts | change, trips))
        assert [v.rule for v in late.violations] == ["memory"]


def test_each_lane_carries_one_journey_at_a_time() -> None:
    shop = one_stage(2)
    starts = in_turn(shop, LIFO, gap=10)
    assert verify(shop.problem, shop.plan(starts, {"s0@0": (16, 24), "s0@1": (14, 20)})).ok
    meets = verify(shop.problem, shop.plan(starts, {"s0@0": (15, 24), "s0@1": (14, 20)}))
    assert [v.rule for v in meets.violations] == ["exclusion"]


def test_two_values_of_a_stage_travel_together_one_after_the_other() -> None:
    template = Template((Stage(2, 2, 2, backward_bytes=3, weight_bytes=5),), 1)
    shop = shop_of(offload_problem("both", template, ((0,),), Lanes(1, 1)))
    (hold,) = shop.holds
    assert [(h.value, h.readers, h.last) for h in hold.held] == [
        ("a0@0", ("B0@0",), "B0@0"),
        ("s0@0", ("B0@0", "W0@0"), "W0@0"),
    ]
    starts = {"F0@0": 0, "B0@0": 6, "W0@0": 8}
    verdict = verify(shop.problem, shop.plan(starts, {"a0@0": (2, 4), "s0@0": (3, 5)}))
    assert verdict.ok, verdict.violations


def test_bandwidth_gives_each_journey_its_own_time() -> None:
    template = Template((Stage(2, 2, 2, backward_bytes=3, weight_bytes=5),), 1)
    shop = shop_of(offload_problem("slow", template, ((0,),), Lanes(1, 2, bytes_per_s=10**9)))
    assert [(h.out_ns, h.back_ns) for h in shop.held.values()] == [(4, 5), (6, 7)]


def test_the_input_of_a_chain_may_be_dropped_in_no_time() -> None:
    problem = chain_problem("chain", 3, (1, 2), Lanes(4, 4), memory_bytes=3)
    shop = shop_of(problem)
    assert (shop.held["a0@0"].out_ns, shop.held["a0@0"].back_ns) == (0, 4)
    names = ["F1@0", "F2@0", "F3@0", "B3@0", "B2@0", "B1@0"]
    starts = in_turn(shop, names)
    verdict = verify(problem, shop.plan(starts, {}))
    assert [v.rule for v in verdict.violations] == ["memory"]  # four activations
    starts["B1@0"] = 9
    verdict = verify(problem, shop.plan(starts, {"a0@0": (1, 5)}))
    assert verdict.ok, verdict.violations
    assert verdict.value == 11


def test_identical_micro_batches_are_found() -> None:
    template, _ = uniform(2, 3)
    shop = shop_of(offload_problem("alike", template, place("line", 2), Lanes(1, 1)))
    assert shop.alike == ((0, 1, 2),)
    template, _ = uniform(2, 4)
    both = shop_of(offload_problem("ways", template, place("dualpipe", 2), Lanes(1, 1)))
    assert both.alike == ((0, 1), (2, 3))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"memory": {"host-d0": 5}}, "is no host"),
        ({"communication": CommunicationModel.DELAY}, "do not hold their channels"),
    ],
)
def test_what_is_no_offload_problem_is_said_in_words(
    change: dict[str, object], reason: str
) -> None:
    template, _ = uniform(2, 2)
    problem = offload_problem("case", template, place("line", 2), Lanes(1, 1))
    cluster = problem.cluster
    if "memory" in change:
        cluster = cluster.with_memory(change["memory"])  # type: ignore[arg-type]
    else:
        cluster = dataclasses.replace(cluster, **change)  # type: ignore[arg-type]
    found = read_offload(dataclasses.replace(problem, cluster=cluster))
    assert isinstance(found, str)
    assert reason in found


def test_more_forms_are_refused() -> None:
    template, _ = uniform(2, 2, transfer=5)
    long = offload_problem("long", template, place("line", 2), Lanes(1, 1))
    assert "may get in each other's way" in str(read_offload(long))
    free = pipeline_problem(
        "free", dataclasses.replace(template, transfers=CommunicationModel.CHANNEL), None, devices=3
    )
    assert "placements, not one device" in str(read_offload(free))
    instant = offload_problem("instant", uniform(2, 2)[0], place("line", 2), Lanes(1, 0))
    assert "travels in no time" in str(read_offload(instant))


# -- canonical plans -------------------------------------------------------------------------------


def random_case(seed: int) -> tuple[OffloadShop, dict[str, int], dict[str, tuple[int, int]]]:
    """Steps in random order with random gaps, and random journeys that keep every law."""
    rng = Random(seed)
    if rng.random() < 0.3:
        chain = chain_problem("c", 4, (2, 2), Lanes(2, 3), memory_bytes=None)
        shop = shop_of(chain)
    else:
        shop = one_stage(rng.choice([3, 4]))
    left, names = dict(shop.steps), []
    while left:
        ready = [n for n in left if not any(b == n and a in left for a, b, _ in shop.arcs)]
        names.append(rng.choice(ready))
        del left[names[-1]]
    starts, now = {}, 0
    for name in names:
        starts[name] = now = now + rng.choice([0, 1, 4])
        now += shop.steps[name].ticks
    trips: dict[str, tuple[int, int]] = {}
    for value in rng.sample(sorted(shop.held), len(shop.held)):
        for _ in range(20):
            held = shop.held[value]
            ready = starts[held.producer] + shop.steps[held.producer].ticks
            due = min(starts[r] for r in held.readers)
            out, back = rng.randint(ready, due), rng.randint(ready, due)
            if _free(shop, trips, held, out, back) and back + held.back_ns <= due:
                trips[value] = (out, back)
                break
    return shop, starts, trips


def _free(
    shop: OffloadShop, trips: dict[str, tuple[int, int]], held: Held, out: int, back: int
) -> bool:
    if back < out + held.out_ns:
        return False
    for other, (o, b) in trips.items():
        it = shop.held[other]
        if out < o + it.out_ns and o < out + held.out_ns:
            return False
        if back < b + it.back_ns and b < back + held.back_ns:
            return False
    return True


def test_canonical_plans_are_valid_and_no_worse() -> None:
    changed = dropped = 0
    for seed in range(300):
        shop, starts, trips = random_case(seed)
        plan = shop.plan(starts, trips)
        before = verify(shop.problem, plan)
        assert before.ok, before.violations
        again = canonical(shop, plan)
        after = verify(shop.problem, again)
        assert after.ok, after.violations
        assert after.value == before.value
        assert after.components["peak_memory d0"] <= before.components["peak_memory d0"]
        found = shop.trips_of(again)
        begin = {run.operator: run.start_ns or 0 for run in again.runs}
        names = sorted(found)
        for a in names:
            for b in names:
                one, two = shop.held[a], shop.held[b]
                if a != b and interchangeable(shop, one, two):
                    made = begin[one.producer] < begin[two.producer]
                    assert made == (found[a][0] < found[b][0])
                    read = min(begin[r] for r in one.readers) < min(begin[r] for r in two.readers)
                    assert read == (found[a][1] < found[b][1])
        changed += found != trips
        dropped += len(found) < len(trips)
        firsts = [n for n in begin if n.startswith("F0@")]
        assert firsts == sorted(firsts, key=begin.__getitem__)
    assert changed > 50
    assert dropped > 5


# -- precedence ------------------------------------------------------------------------------------


def test_heads_and_tails_count_what_a_device_must_do() -> None:
    template, _ = uniform(2, 3, (2, 3, 1))
    shop = shop_of(offload_problem("heads", template, place("line", 2), Lanes(1, 1)))
    order = Precedence(shop, [("F0@0", "F0@1"), ("F0@1", "F0@2")])
    assert (order.heads["F0@2"], order.heads["F1@2"], order.heads["B1@2"]) == (4, 6, 8)
    assert order.surely("F0@0", "W0@2")
    assert not order.surely("F1@0", "F1@1")
    assert order.load_bound() == 2 + 15 + 4  # F and B of stage 1, then B and W of stage 0
    assert order.work_bound() == 18
    with pytest.raises(ValueError, match="contradicts"):
        Precedence(shop, [("B0@0", "F0@0")])


def test_circles_are_named() -> None:
    assert longest_paths("abc", [("a", "b", 2), ("b", "c", 3)]) == {"a": 0, "b": 2, "c": 5}
    with pytest.raises(ValueError, match="circle at b"):
        longest_paths("abc", [("b", "c", 0), ("c", "b", 0)])


def test_residence_bounds_a_step_from_its_memory() -> None:
    """Stages 1 and 2 of four; an activation that travels lies there for F, lanes, B and W."""
    template, activation = uniform(4, 8, (2, 2, 2))
    found = {}
    for lane in (1, 2, 4):
        problem = offload_problem(
            "bound", template, place("line", 4), Lanes(lane, lane), memory_bytes=activation
        )
        shop = shop_of(problem)
        found[lane] = residence_bound(shop, Precedence(shop, []))
    assert found == {1: 4 + 8 * 8 + 4, 2: 4 + 8 * 10 + 4, 4: 2 + 8 * 14 + 2}
    assert residence_bound(shop, Precedence(shop, []), travel=False) == 8 * 18
    free = dataclasses.replace(problem, cluster=problem.cluster.with_memory(dict.fromkeys(
        problem.cluster.device_names
    )))  # fmt: skip
    assert residence_bound(shop_of(free), Precedence(shop, [])) == 0
