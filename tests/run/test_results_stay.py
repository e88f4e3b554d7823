"""What a model returns is there when its plan ends: proofs, peaks, addresses, smaller problems."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from milp_plan.check import replay, verify
from milp_plan.cli.main import main
from milp_plan.core import ComputationGraph, MemoryLaw, Objective, PlanningProblem, Value
from milp_plan.core.budget import now
from milp_plan.kinds.packing.addresses import memories, pack
from milp_plan.kinds.pipeline.reading import shop_of
from milp_plan.kinds.schedule.coarsen.contraction import contract
from milp_plan.kinds.schedule.formats import write
from milp_plan.kinds.schedule.reasons import ScheduleReasons
from milp_plan.run import Settings, solve
from tests.check.cases import cluster, op, problem, value
from tests.support.plans import planted

SETTINGS = Settings(time_limit_s=60.0)


def heads(memory: int | None, kept: bool | None = None) -> PlanningProblem:
    """Return two heads of one input: 20 bytes that stay anyway, and 60 of each head."""
    outputs = [value("y", "a", "", 60, kept=kept), value("z", "b", "", 60, kept=kept)]
    return problem("a b", [value("x", None, "a b", 20), *outputs], cluster("d0", memory=memory))


def test_two_results_need_room_side_by_side() -> None:
    tight = solve(heads(139), SETTINGS)
    assert tight.plan is None
    assert "140 B at the end, with results" in str(tight.infeasible_reason)
    enough = solve(heads(140), SETTINGS)
    assert (enough.value, enough.proved) == (20, True)
    quiet = solve(replace(heads(None), objective=Objective.PEAK_MEMORY), SETTINGS)
    assert (quiet.value, quiet.bound, quiet.proved) == (140, 140, True)


def test_an_unused_value_shares_its_room() -> None:
    assert solve(heads(79, kept=False), SETTINGS).infeasible_reason is not None
    assert solve(heads(80, kept=False), SETTINGS).value == 20


@pytest.mark.parametrize(("kept", "height"), [(None, 140), (True, 140), (False, 80)])
def test_results_have_addresses_of_their_own(kept: bool | None, height: int) -> None:
    of = heads(None, kept)
    plan = solve(of, SETTINGS).plan
    assert plan is not None
    (packed,) = pack(memories(of, plan), SETTINGS, now(), lambda _: nullcontext(lambda _: None))
    assert (packed.height, packed.outcome.proved) == (height, True)


@pytest.mark.parametrize("seed", range(40))
def test_buffers_of_results_last_to_the_end(seed: int) -> None:
    of, plan = planted(seed).problem, planted(seed).plan
    results = {v.name for v in of.graph.values if v.is_kept}
    for memory in memories(of, plan) if of.memory_law is MemoryLaw.INSTANT else ():
        end = max(buffer.upper for buffer in memory.buffers.buffers)
        for buffer in memory.buffers.buffers:
            holding = memory.holdings[buffer.name]
            if holding.name in results and holding.kind == "native":
                assert buffer.upper == end > holding.start_ticks
        load = sum(b.size for b in memory.buffers.buffers if b.upper == end)
        assert load >= replay(of, plan).devices[memory.device].steps[-1][1]


def test_info_counts_results_and_unused_values(tmp_path: Path) -> None:
    of = heads(None)
    values = (*of.graph.values, Value("mask", "a", (), {"full": 3}, kept=False))
    write(replace(of, graph=replace(of.graph, values=values)), tmp_path / "heads.json")
    reported = CliRunner().invoke(main, ["info", str(tmp_path / "heads.json"), "--json"])
    facts = json.loads(reported.stdout)["facts"]
    assert (facts["results"], facts["result_bytes"], facts["neither_read_nor_kept"]) == (2, 120, 1)
    shown = CliRunner().invoke(main, ["info", str(tmp_path / "heads.json")])
    assert "2 kept to the end, 120 B; 1 values neither read nor kept" in shown.stdout


def test_a_cluster_holds_the_results_that_it_makes_inside() -> None:
    """``v`` is read inside alone and stays; ``u``, read alike outside, is no part of its bundle."""
    of = problem(
        "a b c",
        [value("v", "a", "b", 7, kept=True), value("u", "a", "c"), value("w", "a", "c", kept=True)],
    )
    coarse = contract(of, [["a", "b"]], name="test").after.graph
    assert {(v.consumers, v.is_kept, v.bytes["full"]) for v in coarse.values} == {
        ((), True, 7),
        (("c",), False, 8),
        (("c",), True, 8),
    }


def test_smaller_problems_keep_what_the_whole_one_keeps() -> None:
    values = [value("v", "a", "b"), value("w", "b", "", kept=False), value("u", "a", "c")]
    of = problem("a b c", values)
    part = ScheduleReasons().keep(of, ["a", "b"]).graph
    assert {v.name: v.is_kept for v in part.values} == {"v": False, "w": False, "u": False}
    assert {v.name: v.is_kept for v in ComputationGraph.unroll(of.graph, 2).values} == {
        f"{name}@{batch}": False for name in "vwu" for batch in range(2)
    }


def test_a_pipeline_that_leaves_results_is_planned_all_the_same() -> None:
    """Its results pile up, which the readers of pipelines do not count: other planners do."""
    operators = [op(f"F@{batch}", group="F", micro_batch=batch) for batch in range(2)]
    values = [value(f"y@{batch}", f"F@{batch}", "", 8) for batch in range(2)]
    of = problem(operators, values, cluster("d0", memory=15))
    assert shop_of(of) is None
    assert solve(of, SETTINGS).infeasible_reason is not None
    roomy = replace(of, cluster=cluster("d0", memory=16))
    outcome = solve(roomy, SETTINGS)
    assert outcome.plan is not None
    assert verify(roomy, outcome.plan).value == outcome.value == outcome.bound == 20
