"""Numbers that are no integers of Python are refused by every kind of problem, in words."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from milp_plan.core import InputError, PlanningProblem
from tests.face.kinds import PROBLEMS

from . import builders


def spots(item: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to every integer and fraction inside a problem."""
    if type(item) in (int, Fraction):
        return [path]
    if is_dataclass(item):
        return [s for f in fields(item) for s in spots(getattr(item, f.name), (*path, f.name))]
    if isinstance(item, dict):
        return [s for key in item for s in spots(item[key], (*path, key))]
    if isinstance(item, tuple):
        return [s for place, entry in enumerate(item) for s in spots(entry, (*path, place))]
    return []


def put(item: Any, path: tuple[Any, ...], change: Any) -> Any:
    """Return an item in which the number at a path is changed."""
    if not path:
        return change(item)
    head, *rest = path
    if is_dataclass(item):
        return replace(item, **{head: put(getattr(item, head), tuple(rest), change)})  # type: ignore[type-var]
    if isinstance(item, dict):
        return item | {head: put(item[head], tuple(rest), change)}
    return (*item[:head], put(item[head], tuple(rest), change), *item[head + 1 :])


def placement() -> PlanningProblem:
    """A placement problem with a number in every field."""
    option = replace(builders.operator("a").options[0], workspace_bytes=3)
    x = builders.value(
        "x", "a", "b", transfer_bytes={"full": 3}, reshard_ticks={("full", "full"): 2}, messages=2
    )
    a = builders.operator("a", option, micro_batch=0)
    return PlanningProblem("p", builders.graph([a, builders.operator("b")], x), builders.cluster())


EVERY = {**PROBLEMS, "schedule": placement()}


@pytest.mark.parametrize("change", [np.int64, float, str], ids=lambda change: change.__name__)
@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind != "sharding"])
def test_each_number_of_each_kind_is_refused_by_its_place(kind: str, change: Any) -> None:
    problem = EVERY[kind]
    skipped = {"units"}
    places = [path for path in spots(problem) if path[0] not in skipped]
    places = [path for path in places if not (kind == "hybrid" and path[-1] == "degree")]
    assert len(places) >= 4
    for path in places:
        with pytest.raises(InputError, match=r"of type .*, expected an int") as caught:
            put(problem, path, change)
        assert "milp_plan.Model" in str(caught.value)
        named = [entry for entry in path if isinstance(entry, str)][-1]
        assert any(named in finding.where for finding in caught.value.findings)


def test_arrays_of_a_sharding_problem_are_of_integers() -> None:
    problem = PROBLEMS["sharding"]
    table = replace(problem.strategies, cost=problem.strategies.cost.astype(float))
    with pytest.raises(InputError, match=r"strategies\.cost: found an array of float64, expected"):
        replace(problem, strategies=table)
    with pytest.raises(InputError, match="intervals: found list, expected an array of int64"):
        replace(problem, intervals=[[0, 1], [0, 1]])
    with pytest.raises(InputError, match=r"problem, limit: found .* of type numpy\.int64"):
        replace(problem, limit=np.int64(5))
