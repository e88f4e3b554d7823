"""Sharding files on the command line."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from milp_plan.cli.main import main
from milp_plan.core import Units
from milp_plan.core.amounts import time_text
from milp_plan.core.sharding import ShardingProblem, sharding_problem
from milp_plan.io.files import write_document
from milp_plan.kinds.sharding.check import verify_sharding
from milp_plan.kinds.sharding.iopddl import read_iopddl, read_solution, to_json
from milp_plan.run import kind_of


@pytest.fixture
def file(tmp_path: Path) -> Path:
    problem = sharding_problem(
        "tiny",
        [[9, 1], [9, 1]],
        usages=[[0, 5], [0, 5]],
        edges={(0, 1): [[0, 3], [3, None]]},
        limit=5,
    )
    path = tmp_path / "tiny.json.gz"
    write_document(path, to_json(problem))
    return path


def run(*words: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(word) for word in words])
    return result.exit_code, result.output


@pytest.mark.untraced
def test_solve_by_the_formulation(file: Path, tmp_path: Path) -> None:
    records, start = ("--record-folder", tmp_path / "records"), tmp_path / "start.json"
    start.write_text("[0, 1]")
    words = ("solve", file, "--formulation", "sharding", "--option", "fewer_rows=false", "--quiet")
    code, stated = run(*words, *records, "--json", "--start", start, "--node-limit", "100")
    reported = json.loads(stated)
    assert (code, reported["value"], reported["proved"], reported["formulation"]) == (
        0,
        13,
        True,
        "sharding",
    )
    start.write_text("[1, 1]")
    code, stated = run(*words, *records, "--start", start)
    assert code == 0
    assert "not used" in stated
    assert "10 B are in use" in stated
    code, stated = run("solve", file, "--formulation", "max_load", *records)
    assert code == 3
    assert "max_load does not apply" in stated


def test_export_writes_the_model(file: Path, tmp_path: Path) -> None:
    output, plan = tmp_path / "model.lp", tmp_path / "plan.json"
    code, stated = run("export", file, "--format", "lp", "--output", output)
    assert code == 0
    assert "7 columns, 7 rows" in stated
    assert "choose(1)" in output.read_text()
    plan.write_text("[0, 1]")
    words = ("export", file, "--format", "mps", "--output", output)
    assert run(*words, "--plan", plan, "--option", "fewer_rows=false")[0] == 0
    assert "z(0,0,1)" in output.read_text()
    plan.write_text("[1, 1]")
    code, stated = run(*words, "--plan", plan)
    assert code == 3
    assert "its value is no cutoff" in stated
    assert run(*words, "--target", "3")[0] == 2
    code, stated = run(*words, "--formulation", "max_load")
    assert code == 3
    assert "max_load does not apply" in stated


def test_the_formulation_is_listed_and_refuses_other_problems(tmp_path: Path) -> None:
    code, stated = run("list", "formulations", "--json")
    rows = {row["name"]: row for row in json.loads(stated)["formulations"]}
    assert code == 0
    assert rows["sharding"]["objectives"] == ["total_cost"]
    other = Path(__file__).parents[2] / "instances" / "gpt-tiny-training-2xA100.json"
    code, stated = run("solve", other, "--formulation", "sharding", "--record-folder", tmp_path)
    assert code == 3
    assert "sharding does not apply" in stated


def test_bad_files_and_options(file: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_text('{"problem": {"nodes"')
    assert run("solve", cut, "--record-folder", tmp_path)[0] == 3
    code, stated = run("solve", file, "--rounds", "3", "--record-folder", tmp_path)
    assert code == 2
    assert "--rounds: found 3, expected no such option here" in stated
    assert "no search in rounds of neighbourhoods for a sharding problem; leave it out" in stated


@pytest.mark.untraced
def test_names_go_all_the_way(tmp_path: Path) -> None:
    """From the generator through the plan, explanation, picture and export, and back."""
    file, plan, table = (tmp_path / name for name in ("s.json", "plan.json", "plan.csv"))
    made = ("generate", "gpt-tiny", "4xA100", "--sharding", "2x2", "--batch", "16", "-o", file)
    assert run(*made)[0] == 0
    records = ("--record-folder", tmp_path / "records", "--quiet", "--time-limit", "100")
    code, stated = run("solve", file, *records, "--plan-output", plan)
    assert code == 0
    problem = read_iopddl(file)
    reported = json.loads(plan.read_text())
    assert [name for name, _ in reported["strategies"]] == list(problem.operators)
    labels = [problem.label(k, pick) for k, pick in enumerate(reported["solution"])]
    assert [label for _, label in reported["strategies"]] == labels
    assert "head" in problem.operators
    assert "x:b y:b -> 0:xy" in labels
    assert "x:b y:b -> 0:xy" in stated  # the table of strategies
    assert run("check", file, plan)[0] == 0
    code, stated = run("explain", file, plan)
    assert code == 0
    text = time_text(Units(), verify_sharding(problem, read_solution(plan, problem)).value)
    assert f"valid: total_cost {text}" in stated
    assert any(f"{name}: {label}" in stated for name, label in reported["strategies"])
    assert "by module" in stated
    assert run("plot", file, plan, "-o", tmp_path / "plan.svg")[0] == 0
    texts = [text.get_text() for axes in _figure(problem, plan).axes for text in axes.texts]
    assert any("-> 0:xy" in text for text in texts)
    assert run("export", file, "--format", "strategies", "--plan", plan, "-o", table)[0] == 0
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [[row["operator"], row["name"]] for row in rows] == reported["strategies"]
    assert sum(int(row["cost"]) for row in rows) > 0
    assert run("solve", file, *records, "--start", plan)[0] == 0
    moved = ("--move", f"head={problem.label(problem.operators.index('head'), 0)}")
    code, stated = run("explain", file, plan, *moved, "--quiet", "--json", "--time-limit", "100")
    assert json.loads(stated)["what_if"][0]["change"] >= 0
    reported["strategies"][0][1] = "another"
    plan.write_text(json.dumps(reported))
    code, stated = run("check", file, plan)
    assert code == 3
    assert "strategies[0]" in stated
    assert labels[0] in stated


def _figure(problem: ShardingProblem, plan: Path) -> Any:
    return kind_of(problem).draw(problem, read_solution(plan, problem))


def test_names_without_labels_stay(tmp_path: Path) -> None:
    """Operators keep their names in a file where strategies have none."""
    problem = replace(sharding_problem("two", [[1], [2]]), operators=("first", "second"))
    path = tmp_path / "two.json"
    path.write_bytes(to_json(problem))
    assert read_iopddl(path).operators == ("first", "second")
    plan = tmp_path / "plan.json"
    plan.write_text('{"solution": [0, 0], "strategies": [["first", "a"], ["second", "b"]]}')
    code, stated = run("check", path, plan)
    assert code == 3
    assert "has no names" in stated
