"""The shipped instances: spread, memory that binds, and files that equal their recipes."""

from functools import cache
from pathlib import Path

import pytest

from milp_plan.check import verify
from milp_plan.core import CommunicationModel, PlanningProblem
from milp_plan.kinds.schedule.formats import read
from milp_plan.zoo import ARCHITECTURES, MESHED, SHIPPED, TRAPS, architecture

from .serial import in_stages, on_one_device, serial_plan

FOLDER = Path(__file__).resolve().parents[2] / "instances"
BY_NAME = {recipe.name: recipe for recipe in SHIPPED}


@cache
def built(name: str) -> PlanningProblem:
    return BY_NAME[name].build()


def branches(name: str) -> bool:
    """Whether anything can run side by side; chains are problems of how to cut them."""
    return any(len(layer.inputs) > 1 for layer in architecture(name).layers)


@pytest.mark.untraced
def test_spread():
    sizes = sorted(len(built(name).graph.operators) for name in BY_NAME)
    assert len(sizes) >= 20
    assert (sizes[0], sizes[-1]) == (11, 1850)
    assert sum(size <= 20 for size in sizes) >= 5
    assert sum(recipe.binds for recipe in SHIPPED) >= 5
    devices = {len(built(name).cluster.devices) for name in BY_NAME}
    assert devices == {2, 4, 8, 16}
    assert {built(name).cluster.communication for name in BY_NAME} == set(CommunicationModel)
    families = {ARCHITECTURES[recipe.architecture].family for recipe in SHIPPED}
    one_of = {entry.family: name for name, entry in reversed(ARCHITECTURES.items())}
    assert families == {family for family, name in one_of.items() if branches(name)}
    assert {recipe.mode for recipe in SHIPPED} == {"training", "inference"}
    assert sum(bool(recipe.options) for recipe in SHIPPED) >= 3
    assert any("+" in recipe.cluster for recipe in SHIPPED)


@pytest.mark.parametrize("name", list(BY_NAME))
def test_memory(name):
    """Cut into stages every instance fits; on one device exactly those fit that do not bind."""
    problem = built(name)
    assert verify(problem, serial_plan(problem, in_stages(problem))).ok
    alone = verify(problem, serial_plan(problem, on_one_device(problem)))
    rules = {violation.rule for violation in alone.violations}
    assert rules == ({"memory"} if BY_NAME[name].binds else set())


def file_of(name: str) -> Path:
    (path,) = (path for path in FOLDER.glob(f"{name}.json*"))
    return path


@pytest.mark.untraced
@pytest.mark.parametrize("name", list(BY_NAME))
def test_files_equal_their_recipes(name):
    """Otherwise run: python benchmarks/ship_instances.py."""
    problem, shipped = built(name), read(file_of(name))
    assert shipped.fingerprint == problem.fingerprint
    assert shipped.provenance == problem.provenance


@pytest.mark.parametrize("recipe", MESHED, ids=lambda recipe: recipe.name)
def test_meshed_files_equal_their_recipes(recipe):
    problem, shipped = recipe.build(), read(file_of(recipe.name))
    assert shipped.fingerprint == problem.fingerprint
    assert shipped.provenance == problem.provenance


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_trap_files_equal_their_recipes(trap):
    assert read(file_of(trap.name)).fingerprint == trap.problem.fingerprint


def test_nothing_else_is_shipped():
    stems = {path.name.split(".json")[0] for path in FOLDER.glob("*.json*")}
    made = {*(recipe.name for recipe in MESHED), *(trap.name for trap in TRAPS)}
    assert stems == {*BY_NAME, *made}
