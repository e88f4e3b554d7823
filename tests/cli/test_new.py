"""``new formulation``: what it writes works at once."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from milp_plan.api import Guide
from milp_plan.backends import Limits
from milp_plan.check import verify
from milp_plan.cli.exits import Exit
from milp_plan.core import MemoryLaw, Objective, Plan, PlanningProblem
from milp_plan.io import read
from milp_plan.lp.from_pyomo import compile_pyomo
from milp_plan.models import registry
from tests.report.plans import chain, plan_of_two_devices, two_devices
from tests.support.rematerialisation import ask_scipy

from .cases import INSTANCES, REPOSITORY, call


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    """A fresh formulation."""
    result = call("new", "formulation", "my_idea", "--folder", tmp_path)
    assert result.exit_code == Exit.DONE
    written = [Path(line) for line in result.stdout.splitlines()]
    assert written == [
        tmp_path / "my_idea.py",
        tmp_path / "my_idea.md",
        tmp_path / "tests" / "test_my_idea.py",
    ]
    assert all(path.is_file() for path in written)
    return written[0]


def load(path: Path) -> Any:
    """The loaded formulation."""
    found = registry.load(path)
    assert found.error is None
    assert found.formulation is not None
    return found.formulation


def solved(path: Path, problem: PlanningProblem) -> tuple[Plan, float]:
    """Plan and model of a problem, solved by scipy."""
    formulation = load(path)
    options = formulation.Options()
    assert formulation.unsupported(problem, options) is None
    source = formulation.build(problem, options, Guide())
    model = compile_pyomo(source)
    report = ask_scipy(model, Limits())
    assert report.solution is not None
    values = model.name_values(report.solution)
    plan = formulation.decode(problem, options, Guide(), values)
    encoded = formulation.encode(problem, options, source, plan)
    assert model.violation(model.vector(encoded))[0] < 1e-6
    value = float(model.cost @ model.vector(encoded))
    assert value == pytest.approx(report.objective)
    return plan, value * formulation.scale(problem, options, Guide()).unit


def test_it_plans_the_instance_of_the_readme(stub: Path) -> None:
    name = re.search(r"milp-plan solve (instances/\S+)", (REPOSITORY / "README.md").read_text())
    assert name is not None
    problem = read(REPOSITORY / name[1])
    plan, value = solved(stub, problem)
    verdict = verify(problem, plan)
    assert verdict.ok
    assert verdict.value == value
    assert len({run.devices for run in plan.runs}) == 2


@pytest.mark.parametrize(
    "name", ["memory-forces-delay", "heterogeneous-greedy-trap", "two-tower-tiny-inference-2xH100"]
)
def test_its_plan_is_valid_and_worth_what_the_model_says(name: str, stub: Path) -> None:
    problem = read(INSTANCES / f"{name}.json")
    formulation = load(stub)
    if formulation.unsupported(problem, formulation.Options()) is not None:
        problem = two_devices(memory_bytes=2**30)
    plan, value = solved(stub, problem)
    verdict = verify(problem, plan)
    assert verdict.ok
    assert verdict.value == value


def test_it_says_what_it_is_not_for(stub: Path) -> None:
    formulation = load(stub)
    problem = two_devices()
    tight = formulation.Options()
    assert "hold everything" in formulation.unsupported(two_devices(memory_bytes=2**10), tight)
    assert formulation.unsupported(problem, formulation.Options(memory=False)) is None
    other = replace(problem, objective=Objective.PEAK_MEMORY)
    assert "peak_memory" in formulation.unsupported(other, tight)
    static = replace(problem, memory_law=MemoryLaw.STATIC)
    assert "static" in formulation.unsupported(static, tight)


def test_it_has_no_start_for_plans_that_wait_or_take_more_memory(stub: Path) -> None:
    formulation = load(stub)
    problem = two_devices()
    options = formulation.Options()
    model = formulation.build(problem, options, Guide())
    plan = plan_of_two_devices()
    assert formulation.encode(problem, options, model, plan) is not None
    late = replace(plan.runs[-1], stop_ns=plan.runs[-1].stop_ns + 1)
    late = replace(plan, runs=(*plan.runs[:-1], late))
    assert formulation.encode(problem, options, model, late) is None
    little = problem.cluster.with_memory(dict.fromkeys(problem.cluster.device_names, 1))
    assert formulation.encode(replace(problem, cluster=little), options, model, plan) is None


def test_its_test_inherits_the_contract(stub: Path) -> None:
    path = stub.parent / "tests" / "test_my_idea.py"
    spec = importlib.util.spec_from_file_location("test_my_idea_of_a_stub", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert Path(module.TestMyIdea.reference).resolve() == stub.resolve()
    module.test_card_has_the_name_of_the_file()


def test_what_it_writes_is_clean(stub: Path) -> None:
    pytest.importorskip("ruff", reason="checks style: make install has ruff")
    config = REPOSITORY / "pyproject.toml"
    files = [stub, stub.parent / "tests" / "test_my_idea.py"]
    for command in (["check", "--ignore=ARG002"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", "--config", config, *files],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def test_a_formulations_folder_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "formulations").mkdir()
    (tmp_path / "tests" / "models").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert call("new", "formulation", "idea").exit_code == Exit.DONE
    assert (tmp_path / "formulations" / "idea.py").is_file()
    assert (tmp_path / "formulations" / "idea.md").is_file()
    test = tmp_path / "tests" / "models" / "test_idea.py"
    assert '"../../formulations/idea.py"' in test.read_text()


def test_this_folder_is_used_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("new", "formulation", "idea").exit_code == Exit.DONE
    assert (tmp_path / "idea.py").is_file()
    assert '"../idea.py"' in (tmp_path / "tests" / "test_idea.py").read_text()


def test_nothing_is_overwritten(stub: Path) -> None:
    before = stub.read_text()
    stub.with_suffix(".md").unlink()
    result = call("new", "formulation", "my_idea", "--folder", stub.parent)
    assert result.exit_code == Exit.USAGE
    assert "exists" in result.stderr
    assert stub.read_text() == before
    assert not stub.with_suffix(".md").exists()


@pytest.mark.parametrize("name", ["My-Idea", "1st", "class", "a b", ""])
def test_names_are_names_of_modules(name: str, tmp_path: Path) -> None:
    result = call("new", "formulation", name, "--folder", tmp_path)
    assert result.exit_code == Exit.USAGE
    assert not list(tmp_path.iterdir())


def test_stub_handles_operators_without_memory_limit(stub: Path) -> None:
    problem, plan = chain(3)
    made, value = solved(stub, problem)
    assert value == plan.stop_ns
    assert verify(problem, made).ok
