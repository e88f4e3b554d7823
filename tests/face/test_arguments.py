"""Every public function refuses what it cannot use, by the name of the argument, with a remedy."""

from __future__ import annotations

import inspect
import rlcompleter
from pathlib import Path
from typing import Any

import pytest

import milp_plan as mp
from milp_plan.core import BackendUnavailableError, FormulationError, UnsupportedProblemError

from .kinds import PROBLEMS

networkx = pytest.importorskip("networkx")

PROBLEM, OTHER = PROBLEMS["schedule"], PROBLEMS["jobs"]
NAMED = {
    ("solve", "formulation"): FormulationError,
    ("build_model", "formulation"): FormulationError,
    ("build_model", "problem"): FormulationError,
    ("solve_model", "formulation"): FormulationError,
    ("solve_model", "problem"): UnsupportedProblemError,
    ("solve", "solver"): BackendUnavailableError,
    ("solve", "dask"): BackendUnavailableError,
    ("sweep", "memory"): UnsupportedProblemError,
    ("sweep", "bandwidth"): UnsupportedProblemError,
}
"""Texts and numbers that may mean something, and do not here: errors of their own, with words."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Plans and outcomes of two kinds, a file of each, and paths that are not there."""
    folder = tmp_path_factory.mktemp("made")
    outcome = mp.solve(PROBLEM, time_limit=20, display=False)
    mp.write(outcome.plan, folder / "plan.json")
    mp.write(PROBLEM, folder / "problem.json")
    other = mp.solve(OTHER, time_limit=20, display=False)
    return {"folder": folder, "outcome": outcome, "plan": outcome.plan, "other": other.plan}


def good(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Arguments of every public function that it takes. A new function needs its entry."""
    folder, plan = made["folder"], made["plan"]
    return {
        "read": {"path": folder / "problem.json", "memory_scale": "4/5", "objective": "span"},
        "read_plan": {"path": folder / "plan.json", "problem": PROBLEM, "instance": ""},
        "generate": {
            "architecture": "gpt-tiny",
            "cluster": "2xA100",
            "sharding": None,
            "mode": "inference",
            "batch": 1,
            "micro_batches": 1,
            "granularity": "fine",
            "blocks": 1,
            "options": (),
            "meshes": (),
            "zero_levels": (),
            "optimizer": "adam",
            "memory_scale": 1,
            "communication": None,
            "link": None,
            "objective": "makespan",
            "name": None,
        },
        "solve": {
            **{"problem": PROBLEM, "time_limit": 5, "display": False, "start": None},
            **{"on_incumbent": None, "on_progress": None, "hints": (), "seed": 0, "threads": 1},
            **{"gap": 0.0, "node_limit": None, "rounds": None, "target": None, "dask": None},
            **{"formulation": "auto", "options": None, "solver": "highs", "only": False},
            "two_stage": None,
        },
        "build_model": {"problem": PROBLEM, "formulation": "operator_schedule", "options": None},
        "solve_model": {
            **{"problem": PROBLEM, "formulation": "operator_schedule", "options": None},
            **{"model": mp.build_model(PROBLEM, "operator_schedule"), "time_limit": 5},
            **{"start": None, "seed": 0, "threads": 1},
        },
        "check": {"problem": PROBLEM, "plan": plan},
        "bound": {"problem": PROBLEM, "time_limit": 5, "display": False},
        "draw": {"problem": PROBLEM, "plan": plan, "path": folder / "plan.svg"},
        "to_frame": {"problem": PROBLEM, "plan": plan},
        "write": {"item": PROBLEM, "path": folder / "out.json", "format_name": None},
        "explain": {
            **{"problem": PROBLEM, "plan": plan, "what_if": (), "time_limit": 2},
            "display": False,
        },
        "diff": {"before": made["outcome"], "after": plan, "problem": PROBLEM, "variant": None},
        "sweep": {
            **{"problem": PROBLEM, "memory": (), "devices": [1], "bandwidth": (), "store": None},
            **{"time_limit": 5, "display": False, "seed": 0, "threads": None, "gap": 0.0},
        },
        "to_networkx": {"problem": PROBLEM},
        "from_networkx": {"graph": mp.to_networkx(PROBLEM), "cluster": None, "name": None},
    }


def test_every_public_function_has_arguments_here(made: dict[str, Any]) -> None:
    functions = {
        name
        for name in mp.__all__
        if name in ("check", "draw") or inspect.isfunction(getattr(mp, name))
    }
    known = good(made)
    assert set(known) == functions
    for name, given in known.items():
        verb = getattr(mp, name)
        if not inspect.isfunction(verb):  # a room that can be called
            continue
        kinds = inspect.signature(verb).parameters.values()
        named = {entry.name for entry in kinds if entry.kind is not entry.VAR_KEYWORD}
        assert named <= set(given), name


def wrong(made: dict[str, Any]) -> list[Any]:
    """Things that are hardly ever right."""
    folder = made["folder"]
    plain = [None, "x", "", 3, -1, 2.5, float("nan"), float("inf"), True, 10**30]
    odd = [[], {}, [None], {1: 2}, b"x", object(), "\ud800"]
    ours = [PROBLEM, OTHER, made["plan"], made["other"], made["outcome"]]
    return [*plain, *odd, *ours, folder / "none" / "x.json", folder]


@pytest.mark.parametrize("name", sorted(set(mp.__all__) & {*dir(mp)} - {"__version__"}))
def test_wrong_arguments_are_named(
    name: str, made: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``mp.check(problem, "x")`` ended in an ``AttributeError`` from inside."""
    given = good(made).get(name)
    if given is None:  # a class, or a word
        return
    monkeypatch.chdir(tmp_path)
    verb = getattr(mp, name)
    verb(**given)
    refused, others = [], []
    for argument in given:
        for odd in wrong(made):
            try:
                verb(**{**given, argument: odd})
            except mp.InputError as error:
                refused += error.findings
            except mp.MilpPlanError as error:
                others.append((argument, error))
    assert all(isinstance(error, NAMED[name, argument]) for argument, error in others)
    assert all(finding.remedy and finding.expected for finding in refused)
    assert len(refused) > len(given)


@pytest.mark.parametrize("odd", [None, "x", 3, object(), [], True])
@pytest.mark.parametrize("kind", sorted(PROBLEMS))
def test_a_plan_of_every_kind_is_one(kind: str, odd: Any) -> None:
    problem = PROBLEMS[kind]
    for verb in (mp.check, mp.to_frame, mp.draw):
        with pytest.raises(mp.InputError, match=f"plan: found .*expected a plan of a {kind} prob"):
            verb(problem, odd)


def test_a_model_with_a_wrong_cluster_says_so() -> None:
    for odd in (3, "", [], object(), PROBLEM):
        with pytest.raises(mp.InputError, match="Model, cluster: found"):
            mp.Model("m", cluster=odd)
    with pytest.raises(mp.InputError, match="lone surrogate"):
        mp.Model("m\ud800")


def test_unused_arguments_are_named_as_python_writes_them() -> None:
    with pytest.raises(mp.InputError, match="solve, rounds: found 4, expected no such option"):
        mp.solve(OTHER, rounds=4, display=False)
    with pytest.raises(mp.InputError, match="solve, only: found True"):
        mp.solve(PROBLEMS["hybrid"], only=True, display=False)


def test_the_public_names_are_listed_and_completed() -> None:
    assert dir(mp) == sorted(mp.__all__)
    assert {"solve", "read", "Model", "check"} <= set(dir(mp))
    completer = rlcompleter.Completer({"mp": mp})
    found = {completer.complete("mp.s", state) for state in range(5)}
    assert {"mp.solve(", "mp.sweep("} <= found
    assert all(getattr(mp, name) is not None for name in dir(mp))
