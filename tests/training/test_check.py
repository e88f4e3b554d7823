"""A plan that breaks each rule, and files of plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from milp_plan.core import InputError
from milp_plan.core.budget import Budget
from milp_plan.kinds.training import Recompute, Schedule, model, training_cluster
from milp_plan.kinds.training.check import verify
from milp_plan.kinds.training.formats import PLANS
from milp_plan.kinds.training.problem import TrainingPlan, TrainingProblem
from milp_plan.kinds.training.search import search
from milp_plan.kinds.training.space import no_reason

from .roofline import Roofline

PROBLEM = TrainingProblem(model("llama3-8b"), training_cluster("8xH100"), 4096, 16)
COSTS = Roofline(PROBLEM)


def best() -> TrainingPlan:
    fixed = {"pipeline": 2, "schedule": Schedule.ONE_F_ONE_B}
    candidate = search(PROBLEM, COSTS, fixed, Budget(None)).best[0]
    made_for = PROBLEM.name, PROBLEM.fingerprint
    return TrainingPlan(*made_for, candidate.configuration, candidate.step_ns, "search")


def rules(problem: TrainingProblem, plan: TrainingPlan) -> set[str]:
    verdict = verify(problem, plan, Roofline(problem), no_reason)
    return {violation.rule for violation in verdict.violations}


def test_the_searchs_plan_keeps_every_rule_and_has_the_value_it_claims() -> None:
    plan = best()
    verdict = verify(PROBLEM, plan, COSTS, no_reason)
    assert verdict.ok
    assert verdict.value == plan.value
    assert verdict.components["peak_memory stage 1"] > 0


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"data": 3}, "degrees"),
        ({"micro_batches": 3}, "degrees"),
        (
            {
                "virtual": 2,
                "schedule": Schedule.DUALPIPE_V,
                "micro_batch": 4,
                "micro_batches": 2,
                "recompute": Recompute.FULL,
            },
            "schedule",
        ),
    ],
)
def test_a_configuration_that_cannot_run_breaks_one_rule(change: dict, rule: str) -> None:
    plan = best()
    damaged = replace(plan, configuration=replace(plan.configuration, **change), value=None)
    assert rules(PROBLEM, damaged) == {rule}


def test_too_little_memory_is_told_per_stage() -> None:
    small = replace(PROBLEM, cluster=PROBLEM.cluster.with_memory(10**10))
    plan = replace(best(), problem=small.name, fingerprint=small.fingerprint)
    assert rules(small, plan) == {"memory"}


def test_another_value_or_problem_is_told() -> None:
    plan = best()
    assert rules(PROBLEM, replace(plan, value=(plan.value or 0) - 1)) == {"claim"}
    assert rules(PROBLEM, replace(plan, problem="another")) == {"identity"}
    assert rules(PROBLEM, replace(plan, fingerprint="0" * 64, value=None)) == {"identity"}


def test_plans_come_back_from_their_files(tmp_path: Path) -> None:
    plan = best()
    path = tmp_path / "plan.json"
    path.write_bytes(PLANS.text(plan))
    assert PLANS.read(path) == plan


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"tensor": ', '"tensor": -', "tensor"),
        ('"1f1b"', '"2f2b"', "schedule"),
        ('"zero"', '"nought"', "nought"),
        ('"milp-plan-training-plan"', '"x"', "format"),
    ],
)
def test_defects_of_files_are_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(PLANS.text(best()).decode().replace(old, new))
    with pytest.raises(InputError, match=words):
        PLANS.read(path)


def test_fixed_fields_are_read_with_their_short_names() -> None:
    texts = ("tp=8", "zero=0", "schedule=zb-v", "recompute=full", "layers=4,5,3")
    assert dict(map(PLANS.fixed_field, texts)) == {
        "tensor": 8,
        "zero": 0,
        "schedule": Schedule.ZB_V,
        "recompute": Recompute.FULL,
        "layers": (4, 5, 3),
    }
    assert PLANS.fixed_field("sequence-parallel=false") == ("sequence_parallel", False)
    assert PLANS.fixed_field("recomputed_by_chunk=3,1,0") == (
        "recomputed_by_chunk",
        (3, 1, 0),
    )
    assert PLANS.fixed_field("recomputed_by_chunk=") == ("recomputed_by_chunk", ())


def test_the_name_that_megatron_has_for_recomputed_attention_is_read() -> None:
    assert PLANS.fixed_field("recompute=selective") == ("recompute", Recompute.ATTENTION)


def test_a_plan_for_another_problem_says_what_to_do() -> None:
    for change in ({"problem": "another"}, {"fingerprint": "0" * 64}):
        (broken,) = verify(
            PROBLEM, replace(best(), value=None, **change), COSTS, no_reason
        ).violations
        assert "plan" in broken.message.split(";")[-1]


@pytest.mark.parametrize(
    "text", ["tensor", "tensor=0", "tensor=x", "width=3", "schedule=x", "layers=a"]
)
def test_other_fixed_fields_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="fix"):
        PLANS.fixed_field(text)
