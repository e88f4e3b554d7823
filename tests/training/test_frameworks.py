"""Planning for a framework: what it runs alone, with what that costs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.core import InputError
from milp_plan.core.budget import Budget
from milp_plan.io.files import read_document
from milp_plan.kinds.training import Configuration, Recompute
from milp_plan.kinds.training.api import check, training_problem
from milp_plan.kinds.training.costing import PlanCosts
from milp_plan.kinds.training.exports import FORMATS, export, refusals
from milp_plan.kinds.training.problem_file import read, to_json
from milp_plan.kinds.training.report import TrainingAnswer
from milp_plan.kinds.training.search import Search, search
from milp_plan.kinds.training.space import Space
from tests.cli.cases import call

from .roofline import Roofline
from .test_search import every, problem


@pytest.mark.parametrize("framework", FORMATS)
def test_the_best_of_what_runs_and_of_what_does_not_are_those_of_trying_everything(
    framework: str,
) -> None:
    of = problem(50 * 10**9)
    costs, refused = Roofline(of), refusals(replace(of, framework=framework))
    found = search(of, costs, {}, Budget(None), refused)
    steps = every(of, costs, refused)
    runs = [step for c, step in steps.items() if not refused(c)]
    others = [step for c, step in steps.items() if refused(c)]
    assert found.best[0].step_ns == min(runs)
    assert found.bound_ns == min(runs)
    assert not refused(found.best[0].configuration)
    if min(others) < min(runs):
        assert found.unrestricted is not None
        assert found.unrestricted.step_ns == min(others)
        assert found.reasons == refused(found.unrestricted.configuration)
    else:
        assert found.unrestricted is None
    assert all(not refused(miss.configuration) for miss in found.misses)


def test_some_framework_is_slower_than_what_another_runs() -> None:
    of = problem(50 * 10**9)
    found = [
        search(of, Roofline(of), {}, Budget(None), refusals(replace(of, framework=name)))
        for name in FORMATS
    ]
    assert any(each.unrestricted for each in found)


@pytest.mark.parametrize(
    ("model", "framework"),
    [("llama3-8b", name) for name in FORMATS]
    + [("mixtral-8x7b", name) for name in ("megatron", "deepspeed", "fsdp2")],
)
def test_a_plan_for_a_framework_is_written_for_it(model: str, framework: str) -> None:
    sizes = {"global_batch": 16, "sequence": 4096}
    of = training_problem(model, "8xB200", framework=framework, **sizes)
    found = search(of, PlanCosts(of), {}, Budget(None), refusals(of))
    plan = found.best[0].configuration
    assert export(of, plan, framework)
    assert check(of, plan).ok


def test_what_is_rejected_for_its_memory_is_what_the_framework_runs() -> None:
    """A way that cannot fit was listed, although nanotron does not run it."""
    sizes = {"global_batch": 4, "sequence": 4096, "memory_bytes": 4 * 10**9}
    fixed = {"pipeline": 2}
    of = training_problem("llama3-8b", "1x2xH100", framework="nanotron", fixed=fixed, **sizes)
    found = search(of, PlanCosts(of), fixed, Budget(None), refusals(of))
    assert found.misses
    assert not any(refusals(of)(miss.configuration) for miss in found.misses)


class UntilFound(Budget):
    """Ends when the framework's own space is searched."""

    search: Search

    def __init__(self) -> None:
        super().__init__(None)

    @property
    def over(self) -> bool:
        return self.search.found.finished


def test_what_a_framework_cannot_run_is_not_said_to_be_slower_before_it_is_searched() -> None:
    sizes = {"global_batch": 32, "sequence": 4096}
    of = training_problem("llama3-8b", "8xH100", framework="nanotron", **sizes)
    costs, budget = PlanCosts(of), UntilFound()
    budget.search = Search(of, costs, Space(of, {}, refusals(of)), budget)
    found = budget.search.run()
    assert found.finished
    assert found.unrestricted is None
    best = found.best[0].configuration
    answer = TrainingAnswer(of, found, costs.step(best), costs.overlapped(best), costs.memory(best))
    assert answer.proved
    assert "none of these is known to be faster" in str(answer)
    other = search(of, PlanCosts(of), {}, Budget(None), refusals(of))
    assert other.unrestricted is not None


def test_a_way_to_save_memory_that_a_framework_cannot_run_does_not_hide_the_others() -> None:
    fixed = {"tensor": 2, "context": 2, "data": 2, "zero": 3}
    sizes = {"global_batch": 64, "sequence": 8192, "memory_bytes": 34 * 10**9}
    of = training_problem(
        "llama3-8b", "8xH100", framework="torchtitan", fixed=fixed, host=True, **sizes
    )
    found = search(of, PlanCosts(of), fixed, Budget(None), refusals(of))
    assert found.unrestricted is not None
    assert found.unrestricted.configuration.recompute is Recompute.OFFLOAD
    assert found.best[0].configuration.recompute is Recompute.FULL


@pytest.mark.parametrize("framework", ["torchtitan", "nanotron"])
def test_a_framework_that_cannot_build_the_model_says_so(framework: str) -> None:
    asked = ("train", "mixtral-8x7b", "8xB200", "--global-batch", "16", "--framework", framework)
    refused = call(*asked)
    assert refused.exit_code == Exit.INFEASIBLE
    assert f"{framework} runs no configuration" in refused.stdout
    assert "shape" in refused.stdout


def test_a_plan_that_the_framework_of_its_problem_cannot_run_is_not_valid() -> None:
    of = training_problem("llama3-8b", "8xB200", global_batch=16, framework="nanotron")
    plan = Configuration(data=8, micro_batches=2, zero=3)
    broken = check(of, plan).violations
    assert [each.rule for each in broken] == ["framework"]
    assert "stage 3" in broken[0].message
    assert check(replace(of, framework=""), plan).ok


def test_a_job_for_a_framework_is_written_and_read(tmp_path: Path) -> None:
    of = training_problem("llama3-8b", "8xB200", global_batch=16, framework="nanotron")
    file = tmp_path / "job.json"
    file.write_bytes(to_json(of))
    assert read(read_document(file, "a job")) == of
    assert of.fingerprint != replace(of, framework="").fingerprint


def test_a_framework_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InputError, match="one of megatron"):
        training_problem("llama3-8b", "8xB200", global_batch=16, framework="jax")


def test_the_command_plans_for_what_it_exports(tmp_path: Path) -> None:
    size = ("--global-batch", "32", "--sequence", "4096", "--fix", "pp=1", "--fix", "cp=1")
    asked = ("train", "llama3-8b", "8xH100", *size, "--json")
    file = tmp_path / "run.yaml"
    free = json.loads(call(*asked).stdout)
    assert (free["framework"], free["refused"], free["unrestricted"]) == (None, 0, None)
    data = json.loads(call(*asked, "--export", "nanotron", "-o", file).stdout)
    assert data["framework"] == "nanotron"
    assert data["unrestricted"]["step_ns"] == free["value"] < data["value"]
    assert data["unrestricted_refused"]
    assert "zero_stage: 1" in file.read_text()
    alone = json.loads(call(*asked, "--framework", "nanotron").stdout)
    assert alone["value"] == data["value"]
    apart = call(*asked, "--framework", "any", "--export", "nanotron", "-o", file)
    assert apart.exit_code == Exit.BAD_INPUT
    assert json.loads(apart.stdout)["value"] == free["value"]
