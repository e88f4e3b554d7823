"""Constructions before list schedules: a run that gets no further has one of their plans."""

import subprocess
import sys
from itertools import takewhile

import pytest

from milp_plan.backends import Stop
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.kind import KIND
from milp_plan.kinds.schedule.planners.learning import ClauseLearning
from milp_plan.kinds.schedule.planners.lists import single_device
from milp_plan.kinds.schedule.planners.search import parallel
from milp_plan.kinds.schedule.strategies.schedule import ScheduleStrategy
from milp_plan.run.ledger import Ledger
from milp_plan.run.settings import Settings
from milp_plan.zoo import generate

pytestmark = pytest.mark.untraced


def training():
    return generate("gpt-tiny", "2xA100", mode="training", batch=8, micro_batches=2)


def ahead_of_lists(problem, settings, monkeypatch, *, kept=True):
    """A way that has taken steps before list schedules, no bounds; and their names."""
    monkeypatch.setattr("milp_plan.run.loop_parts.kept", lambda _loop: kept)
    monkeypatch.setattr(ClauseLearning, "suits", staticmethod(lambda _problem: False))
    ledger = Ledger(KIND, problem, settings, Budget(600.0, settings.node_limit))
    way = ScheduleStrategy(ledger)
    steps = list(takewhile(lambda step: step.name != "baselines", way.steps()))
    taken = []
    for step in steps:
        if step.name not in {"bounds", "enumeration", "background search"} and step.is_useful():
            step.run()
            taken.append(step)
    return way, [step.name for step in taken]


def test_a_run_has_the_best_construction_before_list_schedules(monkeypatch):
    problem = training()
    way, names = ahead_of_lists(problem, Settings(time_limit_s=600.0), monkeypatch)
    assert "constructions" in names
    ledger = way.ledger
    assert ledger.planner == "construction"
    assert ledger.value < single_device(problem).stop_ticks
    assert ledger.value == way.annealing.starts[0].value * way.annealing.decoder.compiled.unit


def test_a_few_constructions_come_before_anything_else(monkeypatch):
    monkeypatch.setattr("milp_plan.run.loop_parts.kept", lambda _loop: True)
    way = ScheduleStrategy(Ledger(KIND, training(), Settings(time_limit_s=600.0), Budget(600.0)))
    reported = []
    monkeypatch.setattr(
        parallel, "REPORT_INTERVAL_FACTOR", 0
    )  # else telling of the first one silences the others
    monkeypatch.setattr(way.ledger, "_on_incumbent", lambda found: reported.append(found.value))
    first = next(step for step in way.steps() if step.is_useful())
    assert first.name == "first constructions"
    first.run()
    assert reported == sorted(reported, reverse=True)
    assert len(reported) > 1, "each that is better is told"
    left = [step.name for step in way.steps() if step.is_useful()]
    assert not {"first plan", "obstacle"} & set(left), (
        "a plan is no worse than one, and proves more"
    )


def test_what_was_constructed_is_no_start_twice(monkeypatch):
    way, _ = ahead_of_lists(training(), Settings(time_limit_s=600.0), monkeypatch)
    starts = len(way.annealing.starts)
    way.ledger.stop = Stop.TIME_LIMIT
    monkeypatch.setattr(type(way.annealing), "run", lambda *_: None)
    way.anneal()
    assert len(way.annealing.starts) == starts


def test_they_come_later_where_a_run_must_be_repeatable(monkeypatch):
    settings = Settings(time_limit_s=600.0, node_limit=9)
    way, names = ahead_of_lists(training(), settings, monkeypatch, kept=True)
    assert not {"first constructions", "constructions"} & set(names)
    assert way.ledger.planner != "construction"


def test_without_compiled_loops_they_run_as_python_behind_a_first_plan(monkeypatch):
    way, names = ahead_of_lists(training(), Settings(time_limit_s=600.0), monkeypatch)
    slow, later = ahead_of_lists(training(), Settings(time_limit_s=600.0), monkeypatch, kept=False)
    assert later.index("first plan") < later.index("constructions")
    assert "first plan" not in names
    assert slow.ledger.planner == "construction"
    assert slow.annealing.starts[0].value == way.annealing.starts[0].value, "Python finds the same"


def test_what_python_constructs_loads_no_loop():
    code = """
import sys
from milp_plan.core.budget import Budget
from milp_plan.core.compiled import interpreted
from milp_plan.kinds.schedule.planners.search.parallel import ParallelAnnealing
from milp_plan.zoo import generate
crew = ParallelAnnealing(generate("gpt-tiny", "2xA100", mode="training", batch=8, micro_batches=2))
with interpreted():
    crew.construct(Budget(600.0), most=20)
assert crew.starts
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("formulation", ["auto", "operator_schedule"])
def test_few_operators_need_no_construction_first(formulation, monkeypatch):
    problem = generate("gpt-tiny", "2xV100", mode="inference", batch=1)
    settings = Settings(time_limit_s=600.0, formulation=formulation)
    _, names = ahead_of_lists(problem, settings, monkeypatch)
    assert "first plan" in names
    assert "first constructions" not in names
