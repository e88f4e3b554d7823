"""``new formulation``: what it writes works at once."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import milp_plan as mp
from milp_plan.api import Guide
from milp_plan.cli.exits import Exit
from milp_plan.core import Objective
from milp_plan.kinds.schedule.formats import read
from milp_plan.lp.from_pyomo import compile_pyomo
from milp_plan.models import registry
from tests.report.plans import plan_of_two_devices, two_devices

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


def test_it_plans_a_small_model(stub: Path) -> None:
    problem = read(INSTANCES / "two-tower-tiny-inference-2xH100.json")
    outcome = mp.solve(problem, formulation=str(stub), only=True, time_limit=60)
    assert outcome.verdict.ok
    assert outcome.value == 59704
    assert outcome.bound is None


def test_it_says_what_it_is_not_for(stub: Path) -> None:
    formulation = load(stub)
    options = formulation.Options()
    assert formulation.unsupported(two_devices(), options) is None
    assert "memory" in formulation.unsupported(two_devices(memory_bytes=2**10), options)
    other = replace(two_devices(), objective=Objective.PEAK_MEMORY)
    assert "peak_memory" in formulation.unsupported(other, options)


def test_a_plan_becomes_a_start(stub: Path) -> None:
    formulation = load(stub)
    problem, options = two_devices(), formulation.Options()
    source = formulation.build(problem, options, Guide())
    model = compile_pyomo(source)
    values = formulation.encode(problem, options, source, plan_of_two_devices())
    assert model.violation(model.vector(values))[0] < 1e-6


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
