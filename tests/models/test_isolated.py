"""A formulation in a process of its own is the one in its file."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import milp_plan as mp
from milp_plan.cli.templates import source
from milp_plan.core import FormulationFailureError
from milp_plan.models.isolated import Isolated, isolate
from milp_plan.models.protocol import Card, Guide
from milp_plan.models.registry import load
from tests.cli.cases import INSTANCES

FILE = """
from milp_plan.api import Card, Objective, ScheduleFormulation
from milp_plan.models.protocol import Guide


class Other(ScheduleFormulation):
    card = Card(
        name="other",
        title="all that is not the default",
        source="a test",
        objectives=[Objective.SPAN, Objective.MAKESPAN],
        exact=True,
        neighbourhoods=True,
        memory_saving=True,
        surrogate=True,
        relaxes=True,
    )

    def decode(self, problem, options, guide, values):
        return None

    {refined}


FORMULATION = Other()
"""

REFINED = """
    def refined(self, problem, options, guide, plan):
        return Guide(guide.cutoff, lazy=plan) if plan else None
"""


def written(folder: Path, refined: str = "") -> Path:
    path = folder / "other.py"
    path.write_text(FILE.format(refined=refined.strip()), encoding="utf-8")
    return path


def in_its_process(path: Path) -> Isolated:
    formulation, error = isolate(path.stem, path)
    assert error is None
    return formulation


def test_the_card_survives_isolation_field_by_field(tmp_path: Path) -> None:
    path = written(tmp_path)
    here = load(path).formulation
    assert here is not None
    card = in_its_process(path).card
    for entry in fields(Card):
        reported = getattr(card, entry.name)
        assert reported == type(reported)(getattr(here.card, entry.name)), entry.name
        assert entry.default is MISSING or reported != entry.default, f"{entry.name}: says nothing"


def test_isolation_asks_for_refined_rows(tmp_path: Path) -> None:
    problem = mp.read(INSTANCES / "two-sends-one-port.json")
    formulation = in_its_process(written(tmp_path, REFINED))
    options = formulation.Options()
    assert formulation.refined(problem, options, Guide(7), "broken") == Guide(7, lazy="broken")
    assert formulation.refined(problem, options, Guide(7), None) is None


def test_refined_rows_may_be_missing_or_wrong(tmp_path: Path) -> None:
    problem = mp.read(INSTANCES / "two-sends-one-port.json")
    without = in_its_process(written(tmp_path))
    assert without.refined(problem, without.Options(), Guide(7), "broken") is None
    wrong = in_its_process(written(tmp_path, "refined = lambda self, *given: 3"))
    with pytest.raises(FormulationFailureError, match="returned a int, expected a Guide"):
        wrong.refined(problem, wrong.Options(), Guide(7), "broken")


@pytest.mark.parametrize("name", ["shared-channel-contention", "two-sends-one-port"])
def test_the_template_by_path_is_not_disputed(tmp_path: Path, name: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(source("mine"), encoding="utf-8")
    problem = mp.read(INSTANCES / f"{name}.json")
    outcome = mp.solve(problem, formulation=str(path), only=True, time_limit=60)
    assert outcome.disputed_reason == ""
    assert outcome.planner == "mine"
    assert outcome.bound is None


def test_an_isolated_solution_may_stand_for_no_plan(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    text = source("mine").replace(
        "FORMULATION =",
        "class None_(Mine):\n    def decode(self, *given):\n        return None\n\n\nFORMULATION =",
    )
    path.write_text(text.replace("= Mine()", "= None_()"), encoding="utf-8")
    problem = mp.read(INSTANCES / "two-sends-one-port.json")
    outcome = mp.solve(problem, formulation=str(path), only=True, time_limit=60)
    assert outcome.plan is None
    assert outcome.defects == ()
