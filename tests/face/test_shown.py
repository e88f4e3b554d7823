"""Problems, plans and outcomes of every kind: shown, in tables and pictures, pickled."""

from __future__ import annotations

import pickle
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas
import pytest
from rich.console import Console

import milp_plan
from milp_plan.core import MissingFacetError
from milp_plan.core.shown import problem_of
from milp_plan.run import kind_of
from tests.run.cases import instance

from .kinds import PROBLEMS

mp: Any = milp_plan


@cache
def solved(kind: str) -> tuple[Any, list[Any]]:
    """Outcome of the small problem of a kind, and the incumbents on the way."""
    heard: list[Any] = []
    outcome = mp.solve(PROBLEMS[kind], time_limit="20s", on_incumbent=heard.append)
    assert outcome.plan is not None
    return outcome, heard


class Reader(HTMLParser):
    """Collects the text, and complains of tags that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"


def read_html(item: Any) -> str:
    reader = Reader()
    reader.feed(item._repr_mimebundle_()["text/html"])
    assert reader.open == []
    return reader.text


@pytest.mark.parametrize("kind", PROBLEMS)
def test_each_shows_itself_with_its_name_and_figures(kind: str) -> None:
    problem, (outcome, _) = PROBLEMS[kind], solved(kind)
    measure = kind_of(problem).measure(problem)
    figure = measure.text(outcome.value)
    for item, words in (
        (problem, (problem.name, kind, measure.objective)),
        (outcome.plan, (problem.name, figure, outcome.planner)),
        (outcome, (problem.name, measure.objective, figure, "check", "gap")),
    ):
        console = Console(width=200)
        with console.capture() as captured:
            console.print(item)
        for shown in (str(item), read_html(item), captured.get()):
            assert all(word in shown for word in words)
            assert len(shown) < 5000
    assert repr(outcome).startswith(f"<Outcome {problem.name}: {measure.objective} {figure}")


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_plan_is_a_table_with_and_without_its_problem(kind: str) -> None:
    problem, (outcome, _) = PROBLEMS[kind], solved(kind)
    frame = outcome.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) >= 1
    known, _count = next(iter(kind_of(problem).summary(problem).items()))
    pandas.testing.assert_frame_equal(frame, mp.to_frame(problem, outcome.plan))
    pandas.testing.assert_frame_equal(frame, outcome.plan.to_frame())
    stranger = pickle.loads(pickle.dumps(outcome.plan))
    object.__delattr__(stranger, "_problem")
    alone = stranger.to_frame()
    assert len(alone) == len(frame)
    assert set(alone.columns) <= set(frame.columns)
    assert known


def test_the_figures_of_the_tables_are_those_of_the_plans() -> None:
    frames = {kind: solved(kind)[0].to_frame() for kind in PROBLEMS}
    values = {kind: solved(kind)[0].value for kind in PROBLEMS}
    assert frames["schedule"]["stop_ticks"].max() == values["schedule"] == 110
    assert list(frames["schedule"]["duration_ticks"]) == [55, 55]
    assert frames["sharding"]["cost"].sum() + 3 == values["sharding"] == 13
    assert frames["packing"]["end"].max() == values["packing"] == 10
    assert frames["resharding"]["stop_ticks"].max() == values["resharding"] == 1500
    assert frames["jobs"]["stop"].max() == values["jobs"]
    once = sum(entry.cost for entry in PROBLEMS["rematerialisation"].computations)
    assert frames["rematerialisation"]["stop"].max() - once == values["rematerialisation"]
    assert sorted(frames["hybrid"]["layer"]) == sorted(x.name for x in PROBLEMS["hybrid"].layers)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_plans_draw_themselves(kind: str) -> None:
    pytest.importorskip("matplotlib", reason="pictures: pip install 'milp_plan[plot]'")
    assert solved(kind)[0].plan.draw().axes


def test_a_picture_is_written_and_shown_in_a_notebook(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures: pip install 'milp_plan[plot]'")
    outcome, _ = solved("schedule")
    figure = outcome.draw(tmp_path / "outcome.png")
    assert (tmp_path / "outcome.png").stat().st_size > 1000
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("kind", PROBLEMS)
def test_incumbents_are_reported_one_better_than_the_other(kind: str) -> None:
    outcome, heard = solved(kind)
    values = [entry.value for entry in heard]
    assert values == sorted(set(values), reverse=True)
    assert values[-1] == outcome.value
    for entry in heard:
        verdict = mp.check(PROBLEMS[kind], entry.plan)
        assert verdict.ok
        assert verdict.value == entry.value == entry.plan.value
        assert entry.planner


def test_a_callback_can_end_the_run_and_its_errors_are_not_swallowed() -> None:
    def enough(_: Any) -> None:
        raise KeyboardInterrupt

    problem = instance("gpt-mini-inference-4xV100")
    outcome = mp.solve(problem, time_limit=20, on_incumbent=enough)
    assert outcome.stop == "interrupted"
    assert outcome.plan is not None

    def broken(_: Any) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        mp.solve(PROBLEMS["schedule"], time_limit=20, on_incumbent=broken)


def test_all_of_them_are_pickled_and_do_their_work_in_another_process(tmp_path: Path) -> None:
    for kind, problem in PROBLEMS.items():
        outcome, _ = solved(kind)
        again = pickle.loads(pickle.dumps(outcome))
        assert str(again) == str(outcome)
        assert again.plan == outcome.plan
        assert again.problem.fingerprint == problem.fingerprint
        reported = (problem, outcome.plan, outcome, str(outcome), outcome.to_frame().to_json())
        (tmp_path / kind).write_bytes(pickle.dumps(reported))
    model = mp.Model("kept")
    model.add_device()
    operator = model.add_operator("a", 1)
    (tmp_path / "model").write_bytes(pickle.dumps((model, operator)))
    code = """
import pickle, sys
from pathlib import Path
for path in sorted(Path(sys.argv[1]).iterdir()):
    parts = pickle.loads(path.read_bytes())
    if path.name == "model":
        model, operator = parts
        model.add_operator("b", 1, inputs=[model.add_value(operator)])
        assert len(model.build().graph.operators) == 2
        continue
    problem, plan, outcome, text, frame = parts
    assert str(outcome) == text, path
    assert plan.to_frame().to_json() == frame, path
    import milp_plan
    assert milp_plan.check(problem, plan).value == outcome.value, path
    assert str(problem).startswith(problem.name), path
print("done")
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr


def test_a_plan_without_its_problem_says_what_to_do() -> None:
    plan = milp_plan.Plan("far", ())
    assert problem_of(plan) is None
    assert str(plan) == "plan of far"
    with pytest.raises(MissingFacetError, match=r"use plan\.draw\(problem=\.\.\.\)"):
        plan.draw()


def test_an_outcome_without_a_plan_says_so() -> None:
    model = mp.Model("tight", time_unit="ns")
    model.add_device(memory=10)
    model.add_operator("a", 1, workspace=20)
    outcome = mp.solve(model, time_limit=20)
    assert (outcome.plan, outcome.value_in_unit, outcome.gap) == (None, None, None)
    assert "no plan exists" in str(outcome)
    for ask in (outcome.to_frame, outcome.draw):
        with pytest.raises(MissingFacetError, match="tight: no plan exists"):
            ask()


def test_long_plans_are_cut_and_names_are_escaped() -> None:
    model = mp.Model("<b>", time_unit="ns")
    model.add_device()
    for number in range(40):
        model.add_operator(f"<i>{number}", 1)
    plan = mp.solve(model, time_limit=20).plan
    assert "and 28 more; see to_frame()" in str(plan)
    assert "<b>" in read_html(plan)
    assert "<i>" not in plan._repr_html_()


def test_figures_are_in_ticks_and_in_units() -> None:
    outcome, _ = solved("hybrid")
    assert outcome.unit == "s"
    assert outcome.value_in_unit == outcome.value / outcome.problem.units.time_scale
    assert outcome.bound_in_unit == outcome.value_in_unit


def test_arguments_are_refused_in_words() -> None:
    problem = PROBLEMS["schedule"]
    for name, wrong in (
        ("time_limit", "soon"),
        ("seed", -1),
        ("seed", 2**31),
        ("threads", 0),
        ("gap", "small"),
    ):
        with pytest.raises(milp_plan.InputError, match=f"solve, {name}: found"):
            mp.solve(problem, **{name: wrong})
    with pytest.raises(milp_plan.InputError, match=r"'micro_batch'.*did you mean 'micro_batches'"):
        mp.generate("gpt-tiny", "2xA100", micro_batch=2)
    with pytest.raises(milp_plan.InputError, match="'meshes', expected options of a sharding prob"):
        mp.generate("gpt-tiny", "2xA100", sharding="2", meshes=["2"])
    with pytest.raises(
        milp_plan.InputError, match=r"zero_levels: found \(2,\), expected none with"
    ):
        mp.generate("gpt-tiny", "2xA100", zero_levels=[2])


def test_verdicts_say_what_breaks() -> None:
    outcome, _ = solved("schedule")
    assert str(mp.check(PROBLEMS["schedule"], outcome.plan)) == "valid, makespan 110"
    broken = mp.check(PROBLEMS["schedule"], milp_plan.Plan("gang-beats-single", ()))
    assert str(broken).startswith("not valid, ")
    assert "m1" in read_html(broken)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_outcomes_are_explained(kind: str) -> None:
    outcome, _ = solved(kind)
    reported = mp.explain(outcome, display=False)
    assert reported.plan is outcome.plan
    assert reported.verdict.ok
    assert reported.why is not None
    assert outcome.problem.name in str(reported)
    assert len(reported.lines) >= 1
    assert all(line.strip() in read_html(reported) for line in reported.lines if "<" not in line)


def test_questions_are_answered_by_planning_again() -> None:
    problem = PROBLEMS["schedule"]
    reported = mp.explain(problem, what_if="move:m1=d0", time_limit="20s")
    assert [effect.result.value for effect in reported.effects] == [165]
    with pytest.raises(milp_plan.InputError, match="moonlight"):
        mp.explain(problem, what_if=["moonlight"])


def test_conflicts_are_reported_for_a_problem_without_a_plan() -> None:
    model = mp.Model("tight", time_unit="ns")
    model.add_device(memory=10)
    model.add_operator("a", 1, workspace=20)
    reported = mp.explain(model, time_limit=20)
    assert reported.plan is None
    assert "'a' needs" in reported.infeasibility.because
    assert reported.infeasibility.relaxations
    assert "no plan exists" in str(reported)
    assert repr(reported).startswith("<Explanation of tight: ")
