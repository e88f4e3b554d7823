"""Numbers that a formulation hands over and that are none cost a sentence, and no plan."""

from __future__ import annotations

from functools import cache
from runpy import run_path

import pytest

from milp_plan.cli.templates import source
from milp_plan.core import FormulationFailureError
from milp_plan.models import validated
from milp_plan.models.protocol import Guide
from tests.cli.cases import call, instance_file

from .bad_ends import STEPS
from .cases import quick
from .test_dispute import pair

FILE = """
import math
from dataclasses import replace

import numpy as np

from milp_plan.api import Scale
from milp_plan.lp.from_pyomo import compile_pyomo
from milp_plan.models.registry import get

INNER = get("operator_schedule").formulation


class Odd:
    card = replace(INNER.card, name="odd")
    handles = INNER.handles
    Options = INNER.Options


for step in {steps!r}:
    def asked(self, *given, step=step):
        result = getattr(INNER, step)(*given)
        if step == {step!r}:
            result = changed(result)
        return result

    setattr(Odd, step, asked)


def changed(it):
    {code}
    return it


FORMULATION = Odd()
"""

COMPILED = "it = compile_pyomo(it); "
ODD = [
    ("scale", "it = Scale(0.0)", "scale handed over a unit of 0.0, expected a number above 0"),
    ("scale", "it = Scale(math.nan)", "scale handed over a unit of nan, expected"),
    ("scale", "it = Scale(math.inf)", "scale handed over a unit of inf, expected"),
    ("scale", "it = Scale(-1.0)", "scale handed over a unit of -1.0, expected"),
    ("scale", "it = Scale(10**40)", "scale handed over a unit of 1000000"),
    ("scale", "it = Scale(1.0, grain=0)", "scale handed over a grain of 0, expected an int"),
    ("scale", "it = Scale(1.0, grain=0.5)", "scale handed over a grain of 0.5, expected an int"),
    ("scale", "it = Scale(1.0, slack=math.nan)", "scale handed over a slack of nan, expected"),
    ("scale", "it = Scale(1.0, slack=-2.0)", "scale handed over a slack of -2.0, expected"),
    (
        "build",
        COMPILED + "it.cost[0] = math.nan",
        "build handed over a cost of nan in column ",
    ),
    (
        "build",
        COMPILED + "it.matrix.data[0] = math.inf",
        "build handed over a coefficient of inf in a row of ",
    ),
    (
        "build",
        COMPILED + "it.row_upper[0] = math.nan",
        "build handed over an upper side of nan in a row of ",
    ),
    (
        "build",
        COMPILED + "it.column_upper[0] = -math.inf",
        "build handed over an upper bound of -inf in column ",
    ),
    ("build", COMPILED + "it = replace(it, offset=math.inf)", "build handed over a constant cost"),
    (
        "build",
        COMPILED + "it = replace(it, column_lower=it.column_lower[1:])",
        "entries of column_lower, expected",
    ),
    (
        "decode",
        "it = replace(it, runs=tuple(replace(r, start_ticks=math.nan) for r in it.runs))",
        "decode handed over nan of type float in plan.runs[0].start_ticks, expected whole numbers",
    ),
    (
        "decode",
        "it = replace(it, runs=tuple(replace(r, stop_ticks=r.stop_ticks + 0.0) for r in it.runs))",
        "of type float in plan.runs[0].stop_ticks, expected whole numbers",
    ),
    (
        "encode",
        "it = {f: dict.fromkeys(row, math.nan) for f, row in it.items()}",
        "encode handed over a start with nan in column ",
    ),
]


@cache
def solved_pair():
    """Return a problem and a plan of it."""
    problem = pair()
    return problem, quick(problem).plan


def odd(folder, step, code):
    """Write a formulation of which one step hands over something odd; return its path."""
    path = folder / "odd.py"
    path.write_text(FILE.format(steps=STEPS[1:], step=step, code=code))
    return path


@pytest.mark.parametrize(("step", "code", "words"), ODD)
def test_what_is_no_number_is_explained_in_a_sentence(tmp_path, step, code, words):
    """The one place where every formulation is asked, ours and others'."""
    found = run_path(str(odd(tmp_path, step, code)))["FORMULATION"]
    problem, plan = solved_pair()
    options, guide = found.Options(), Guide()

    def every_step():
        source = validated.built(found, problem, options, guide)
        model = validated.compiled(found, source)
        validated.scale_of(found, problem, options, guide)
        vector, _ = validated.start_of(found, problem, options, source, model, plan)
        validated.plan_of(found, problem, options, guide, model.name_values(vector))

    with pytest.raises(FormulationFailureError) as caught:
        every_step()
    assert str(caught.value).startswith("formulation 'odd': ")
    assert words in str(caught.value)


@pytest.mark.untraced
@pytest.mark.parametrize(("code", "only"), [("0.0", False), ("math.nan", True)])
def test_plans_stay_and_the_sentence_is_reported(tmp_path, code, only):
    """The run ended in a traceback, and every plan was lost."""
    more = ["--time-limit", "60", "--rounds", "0", "--record-folder", tmp_path / "runs"]
    path = odd(tmp_path, "scale", f"it = Scale({code})")
    alone = ["--only"] if only else []
    result = call("solve", instance_file(tmp_path, pair()), "--formulation", path, *more, *alone)
    assert result.exit_code == (6 if only else 0)
    assert "Traceback" not in result.stderr
    if only:
        assert "scale handed over a unit of" in result.stderr
    else:
        assert "makespan 10 ns" in result.stdout


@pytest.mark.untraced
def test_an_unbounded_model_names_the_column_that_falls(tmp_path):
    """It said that the solver failed, as if the model were fine."""
    path, goal = tmp_path / "mine.py", "m.goal = pyo.Objective(expr=m.makespan"
    text = source("mine").replace(goal, f"m.free = pyo.Var()\n        {goal} - 2 * m.free")
    path.write_text(text, encoding="utf-8")
    more = ["--formulation", path, "--only", "--record-folder", tmp_path / "runs"]
    result = call("solve", instance_file(tmp_path, pair()), *more)
    assert result.exit_code == 6
    said = "nbounded: the objective falls with column free[None], which has no upper bound)"
    assert said in result.stderr
