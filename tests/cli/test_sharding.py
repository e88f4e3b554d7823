"""Sharding files on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from milp_plan.cli.main import main
from milp_plan.core.sharding import sharding_problem
from milp_plan.io.iopddl import write_iopddl


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
    write_iopddl(problem, path)
    return path


def run(*words: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(word) for word in words])
    return result.exit_code, result.output


@pytest.mark.untraced
def test_solve_proves_and_writes_what_check_accepts(file: Path, tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    records = tmp_path / "records"
    code, said = run(
        "solve", file, "--solution", answer, "--record-folder", records, "--json", "--quiet"
    )
    told = json.loads(said)
    assert (code, told["value"], told["bound"], told["proved"]) == (0, 13, 13, True)
    assert sorted(json.loads(answer.read_text())) == [0, 1]
    assert json.loads(Path(told["record_file"]).read_text())["operators"] == 2
    code, said = run("check", file, answer, "--json")
    assert (code, json.loads(said)["value"]) == (0, 13)


def test_check_says_what_is_broken(file: Path, tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    answer.write_text("[1, 1]")
    code, said = run("check", file, answer)
    assert code == 7
    assert "not allowed together" in said
    assert "10 B are in use" in said


def test_infeasible_is_proved(tmp_path: Path) -> None:
    path = tmp_path / "never.json"
    write_iopddl(sharding_problem("never", [[1]], usages=[[8]], limit=7), path)
    code, said = run("solve", path, "--record-folder", tmp_path, "--quiet")
    assert code == 4
    assert "8 B" in said
    assert run("bound", path)[0] == 4


@pytest.mark.untraced
def test_solve_by_the_formulation(file: Path, tmp_path: Path) -> None:
    records, start = ("--record-folder", tmp_path / "records"), tmp_path / "start.json"
    start.write_text("[0, 1]")
    words = ("solve", file, "--formulation", "sharding", "--option", "fewer_rows=false", "--quiet")
    code, said = run(*words, *records, "--json", "--start", start, "--node-limit", "100")
    told = json.loads(said)
    assert (code, told["value"], told["proved"], told["formulation"]) == (0, 13, True, "sharding")
    start.write_text("[1, 1]")
    code, said = run(*words, *records, "--start", start)
    assert code == 3
    assert "10 B are in use" in said
    assert run("solve", file, "--start", start, *records)[0] == 3
    code, said = run("solve", file, "--formulation", "max_load", *records)
    assert code == 3
    assert "max_load does not apply" in said


def test_export_writes_the_model(file: Path, tmp_path: Path) -> None:
    output, plan = tmp_path / "model.lp", tmp_path / "plan.json"
    code, said = run("export", file, "--format", "lp", "--output", output)
    assert code == 0
    assert "7 columns, 7 rows" in said
    assert "choose(1)" in output.read_text()
    plan.write_text("[0, 1]")
    words = ("export", file, "--format", "mps", "--output", output)
    assert run(*words, "--plan", plan, "--option", "fewer_rows=false")[0] == 0
    assert "z(0,0,1)" in output.read_text()
    plan.write_text("[1, 1]")
    code, said = run(*words, "--plan", plan)
    assert code == 3
    assert "its value is no cutoff" in said
    assert run(*words, "--target", "3")[0] == 2
    code, said = run(*words, "--formulation", "max_load")
    assert code == 3
    assert "max_load does not apply" in said


def test_the_formulation_is_listed_and_refuses_other_problems(tmp_path: Path) -> None:
    code, said = run("list", "formulations", "--json")
    rows = {row["name"]: row for row in json.loads(said)["formulations"]}
    assert code == 0
    assert rows["sharding"]["objectives"] == ["total_cost"]
    other = Path(__file__).parents[2] / "instances" / "gpt-tiny-training-2xA100.json"
    code, said = run("solve", other, "--formulation", "sharding", "--record-folder", tmp_path)
    assert code == 3
    assert "sharding does not apply" in said


@pytest.mark.untraced
def test_bound_and_info(file: Path) -> None:
    code, said = run("bound", file, "--time-limit", "20", "--json", "--quiet")
    assert (code, json.loads(said)["bound"]) == (0, 13)
    code, said = run("info", file, "--json")
    assert (code, json.loads(said)["about"]["pairs_not_allowed"]) == (0, 1)


def test_bad_files_and_options(file: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_text('{"problem": {"nodes"')
    assert run("solve", cut, "--record-folder", tmp_path)[0] == 3
    code, said = run("solve", file, "--rounds", "3", "--record-folder", tmp_path)
    assert code == 3
    assert "rounds: without meaning for a sharding problem" in said
