"""Every setting does something in a run, or is refused with the reason."""

from __future__ import annotations

import ast
import importlib
import inspect
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from milp_plan.backends import Stop
from milp_plan.core import InputError, Objective, UnusedOptionError
from milp_plan.kinds.rematerialisation.least_memory import LeastMemoryStrategy
from milp_plan.kinds.rematerialisation.problem import (
    Computation,
    RematerialisationObjective,
    RematerialisationProblem,
)
from milp_plan.models.registry import discover
from milp_plan.run import Settings, solve
from milp_plan.run.kinds import kind_of, kinds
from milp_plan.run.model import FormulationSolver, make_options
from milp_plan.run.settings import EVERY_RUN, UNUSED_REASONS
from milp_plan.run.solving import choose, refuse_unused
from tests.face.kinds import PROBLEMS

from .cases import instance, trap

GIVEN: dict[str, Any] = {
    "time_limit_s": 20.0,
    "node_limit": 50,
    "rounds": 3,
    "gap": 0.5,
    "seed": 7,
    "threads": 3,
    "target": 2,
    "formulation": "operator_schedule",
    "options": {"memory": False},
    "start": object(),
    "hints": (object(),),
    "solver": "cbc",
    "dask": "tcp://127.0.0.1:9",
    "only": True,
    "two_stage": True,
}
"""What nobody has unless it is asked for. A new setting without an entry fails the tests."""

READERS = (
    "ledger",
    "record",
    "solving",
    "strategy",
    "settings",
    "kind",
    "outcome",
    "cluster",
    "round",
)
"""Modules that serve every way alike: what they read says nothing of a way."""

WAYS = [way for kind in kinds() for way in kind.strategies()]


def test_every_setting_is_kept_by_every_run_or_has_a_reason():
    names = {entry.name for entry in fields(Settings)}
    assert names == set(GIVEN)
    assert names == EVERY_RUN | set(UNUSED_REASONS)
    assert not EVERY_RUN & set(UNUSED_REASONS)


@pytest.mark.parametrize("only", [False, True], ids=["whole", "only"])
@pytest.mark.parametrize("name", sorted(set(GIVEN) - {"time_limit_s"}))
@pytest.mark.parametrize("kind", sorted(PROBLEMS))
def test_a_setting_is_used_or_refused_by_name(kind: str, name: str, only: bool):
    problem = PROBLEMS[kind]
    if only and name == "two_stage":
        pytest.skip("the two exclude each other, whatever the problem")
    settings = replace(Settings(only=only), **{name: GIVEN[name]})
    ours = kind_of(problem)
    named = name in ("formulation", "options")  # whose formulation is looked for as well
    if named and name not in ours.ignores:
        settings = replace(settings, formulation=_formulation_of(ours, problem), options={})
    try:
        refuse_unused(ours, problem, settings)
    except UnusedOptionError as error:
        found = {finding.where: finding for finding in error.findings}
        assert set(found) <= {name, "only"}
        assert all(one.remedy and one.file == problem.name for one in found.values())
        assert all(UNUSED_REASONS[where] in str(one) or only for where, one in found.items())
        return
    used = choose(ours, problem, settings).strategy.uses | EVERY_RUN | {"solver"}
    assert name in used


def _formulation_of(kind: Any, problem: Any) -> str:
    """A formulation that may be named for a problem, as users would find it."""
    for found in discover().values():
        if isinstance(problem, found.formulation.handles):
            solver = FormulationSolver(found, make_options(found, {}))
            if solver.unsupported(problem) is None:
                return found.name
    raise AssertionError(kind.name)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_way_declares_what_its_modules_read(way: type):
    """Nothing that it reads is refused, nothing that it declares is read by nobody."""
    read = settings_read(importlib.import_module(way.__module__))
    refusable = set(UNUSED_REASONS)
    served = {"seed", "threads", "formulation", "options", "only", "start", "solver"}
    assert read & refusable <= way.uses | served
    assert way.uses <= read | served | {"dask"}


def test_the_readers_see_what_they_should():
    stash = importlib.import_module("milp_plan.kinds.pipeline.strategies.stash")
    assert {"seed", "rounds"} <= settings_read(stash)
    assert "target" not in settings_read(stash)


@cache
def settings_read(module: Any) -> frozenset[str]:
    """Settings that a module of the run reads, or one below it that it imports."""
    return frozenset(_read(module, set()))


def _read(module: Any, seen: set[str]) -> set[str]:
    seen.add(module.__name__)
    tree = ast.parse(Path(inspect.getfile(module)).read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_settings(node.value):
            found.add(node.attr)
        if isinstance(node, ast.ImportFrom):
            solving = (node.module or "").endswith("solving")
            if solving and any(entry.name == "choose" for entry in node.names):  # of a part
                found |= {"rounds"}
            for name in _homes(module, node):
                if name not in seen and name.rpartition(".")[2] not in READERS:
                    found |= _read(importlib.import_module(name), seen)
    return found


def _is_settings(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name == "settings"


def _homes(module: Any, node: ast.ImportFrom) -> list[str]:
    """Modules of the run that an import names; other ways are not part of this one."""
    package = module.__name__ if hasattr(module, "__path__") else module.__package__
    base = package.split(".")[: len(package.split(".")) - max(0, node.level - 1)]
    home = ".".join([*base, *([node.module] if node.module else [])]) if node.level else node.module
    own_kind = ".".join(module.__name__.split(".")[:3])
    if home is None or not home.startswith(("milp_plan.run.", own_kind)):
        return []
    owners = {other.__module__ for other in WAYS}
    return [] if home in owners or home == "milp_plan.run.kinds" else [home]


# -- what they do ---------------------------------------------------------------------------------


def test_a_size_for_stage_one_counts_with_the_model_alone():
    """It was dropped in silence: the model of the whole was solved."""
    problem = instance("gpt-tiny-inference-2xV100")
    settings = Settings(time_limit_s=60, only=True, target=5, formulation="operator_schedule")
    record = solve(problem, settings).record
    assert record["coarse_operators"] <= 9 < record["operators"]
    assert record["model"]["columns"] < 1000
    assert not record["baselines"]


def test_rounds_are_refused_with_the_model_alone():
    problem = trap("gang-beats-single").problem
    settings = Settings(only=True, rounds=5)
    with pytest.raises(UnusedOptionError, match="rounds: found 5, expected no such option"):
        solve(problem, settings)
    assert solve(problem, replace(settings, rounds=0, time_limit_s=20)).proved  # none, as asked


def test_what_depends_on_the_objective_is_refused_with_it():
    plain = instance("gpt-tiny-inference-2xV100")
    loads = replace(plain, objective=Objective.BOTTLENECK)
    for name, value in (("target", 3), ("rounds", 3)):
        for problem in (plain, loads):
            why = choose(kind_of(problem), problem, Settings(**{name: value})).unused(
                problem, Settings(**{name: value})
            )
            assert (name in why) == (name == "target" and not problem.needs_schedule) or (
                name == "rounds" and problem is loads
            )


def test_a_variant_leaves_out_what_its_problem_does_not_use():
    problem = PROBLEMS["jobs"]
    settings = Settings(time_limit_s=5, rounds=4, target=9)
    with pytest.raises(UnusedOptionError) as caught:
        solve(problem, settings)
    assert [finding.where for finding in caught.value.findings] == ["rounds", "target"]
    assert solve(problem, settings, derived=True).stop is Stop.PROVED


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gap", float("nan")),
        ("gap", -0.1),
        ("time_limit_s", float("nan")),
        ("time_limit_s", -1),
        ("time_limit_s", "60"),
        ("seed", None),
        ("seed", -1),
        ("threads", 0),
        ("node_limit", 2**31),
        ("rounds", 1.5),
        ("target", 0),
    ],
)
def test_numbers_without_meaning_are_refused(name: str, value: Any):
    with pytest.raises(InputError, match=f"^{name}: found"):
        Settings(**{name: value})


def test_a_limit_beyond_every_clock_is_none():
    """It ended in a traceback: clocks of systems do not count so far."""
    problem = trap("gang-beats-single").problem
    for seconds in (1e12, 1e308, float("inf")):
        assert solve(problem, Settings(time_limit_s=seconds)).proved


def test_a_formulation_that_least_memory_never_asks_is_refused():
    """One of a user's own that minimises peak memory: it was dropped without ``only``."""
    problem = RematerialisationProblem(
        "two",
        (Computation("a", 1, 4), Computation("b", 1, 4, ("a",))),
        100,
        objective=RematerialisationObjective.PEAK_MEMORY,
    )
    found = discover()["remat_backbone"]
    solver, settings = (
        FormulationSolver(found, make_options(found, {})),
        Settings(formulation=found.name),
    )
    why = LeastMemoryStrategy.unused(problem, settings, solver)
    assert "budgets are tried without the formulation's model" in why["formulation"]
    assert {"options", "solver"} <= set(why)
    assert "formulation" not in LeastMemoryStrategy.unused(
        problem, replace(settings, only=True), solver
    )
