"""``table`` with a study: cases measured by a script in processes, the page, what is refused."""

import json
import sys

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.core import MilpPlanError
from milp_plan.io.suite_file import SuiteLimits
from milp_plan.report.pages import Cells, amount, amount_scale, members, seconds
from milp_plan.study.job import do, job_of
from milp_plan.study.measured import file_digest, load, rows_of, tasks_of
from milp_plan.study.store import Store
from tests.cli.cases import call

STUDY = """
title = "Squares"
about = "Of {count} numbers."
script = "squares.py"
common = { power = 2 }
labels = ["section"]
cases = [{ number = 7, section = "seven" }]
published_file = "published.csv"
published_by = ["number"]

[[grids]]
number = [2, 3]
section = ["small"]

[[tables]]
group = "section"
text = "Section {section}."
columns = [
    ["number", "{number}"],
    ["square", "**{square:,}**"],
    ["published", "{published[value]}"],
    ["nobody knows", "{unknown:.2f}"],
    ["half", "{half:share}"],
]

[[tables]]
heading = "Sums of {count}"
rows = "sums"
columns = [["sum", "{sum}"]]
after = "Ends with {count}."
"""
SCRIPT = """
import helper
from milp_plan.draw.canvas import new_figure

def measure(case):
    return {"square": case["number"] ** case["power"] * helper.ONE, "unknown": None}

def present(rows):
    for row in rows:
        row["half"] = 0.5
    return {"count": len(rows), "sums": [{"sum": sum(row["square"] for row in rows)}]}

def complaints(rows):
    return [f"{row['number']} is odd" for row in rows if row["number"] == WRONG]

def figures(rows):
    return {"empty.png": new_figure(1.0, 1.0)}

WRONG = 0
"""
PUBLISHED = "# a note\nnumber,value\n2,4\n3,\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "helper", raising=False)  # of another test's folder
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "squares.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("ONE = 1\n")
    (tmp_path / "published.csv").write_text(PUBLISHED)
    return tmp_path


def changed(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_cases_are_measured_once_and_shown(folder):
    store = folder / "store"
    result = call("table", folder, "--store", store, "--jobs", 2)
    assert result.exit_code == Exit.DONE, result.stderr
    page = (folder / "table.md").read_text()
    assert f"milp-plan table {folder.as_posix()}" in page
    assert "Of 3 numbers." in page
    assert "## seven\n\nSection seven.\n" in page
    assert "| 7 | **49** | — | — | 50.00% |" in page
    assert "| 2 | **4** | 4 | — | 50.00% |" in page
    assert "| 3 | **9** | — | — | 50.00% |" in page
    assert "## Sums of 3\n\n| sum |\n| :--- |\n| 62 |\n\nEnds with 3." in page
    assert (folder / "empty.png").read_bytes().startswith(b"\x89PNG")
    rows = json.loads((folder / "table.json").read_text())["rows"]
    assert rows[0] == {"power": 2, "number": 7, "square": 49, "unknown": None}

    changed(folder / "study.toml", '"seven"', '"the seventh"')  # a label is not measured
    stamps = {path: path.stat().st_mtime_ns for path in store.glob("*.json")}
    assert len(stamps) == 3
    assert call("table", folder, "--store", store).exit_code == Exit.DONE
    assert {path: path.stat().st_mtime_ns for path in store.glob("*.json")} == stamps
    page = (folder / "table.md").read_text()
    assert "## the seventh" in page
    assert call("table", folder, "--render").exit_code == Exit.DONE
    assert (folder / "table.md").read_text() == page


def test_what_contradicts_the_page_is_reported(folder):
    changed(folder / "squares.py", "WRONG = 0", "WRONG = 3")
    result = call("table", folder, "--store", folder / "store")
    assert result.exit_code == Exit.NOT_VALID
    assert "contradiction: 3 is odd" in result.stderr


def test_a_case_that_fails_is_reported_and_the_others_are_kept(folder):
    changed(folder / "squares.py", "    return {", "    {7: 1}[case['number']]\n    return {")
    result = call("table", folder, "--store", folder / "store")
    assert result.exit_code == Exit.SOLVER_FAILURE
    assert f"{folder.name} 2: failed: KeyError: 2" in result.stderr
    assert not (folder / "table.md").exists()
    rows = [json.loads(path.read_text()) for path in (folder / "store").glob("*.json")]
    assert sorted(row["status"] for row in rows) == ["done", "failed", "failed"]


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("study.toml", "squares.py", "cubes.py", "script: found 'cubes.py'"),
        ("study.toml", "[[grids]]\nnumber = [2, 3]", "[[grids]]\nnumber = 2", "grids[0].number"),
        ("study.toml", 'title = "Squares"', "", "title"),
        ("study.toml", '["number"]', '["numero"]', "none named 'numero'"),
        ("squares.py", "import helper", "import nothing_of_this_name", "does not load"),
    ],
)
def test_studies_that_are_refused(file, old, new, said, folder):
    changed(folder / file, old, new)
    result = call("table", folder, "--store", folder / "store")
    assert result.exit_code == Exit.BAD_INPUT
    assert said in result.stderr


def test_a_study_without_cases_is_refused(folder):
    text = STUDY.partition("cases =")[0] + '[[tables]]\ncolumns = [["a", "{a}"]]\n'
    (folder / "study.toml").write_text(text)
    result = call("table", folder)
    assert result.exit_code == Exit.BAD_INPUT
    assert "cases: found nothing" in result.stderr


def test_results_of_other_cases_are_not_rendered(folder):
    assert "no such file" in call("table", folder, "--render").stderr
    rows = [{"power": 2, "number": number, "square": 1, "unknown": 1} for number in (7, 3, 2)]
    (folder / "table.json").write_text(json.dumps({"versions": {"a": "1"}, "rows": rows}))
    result = call("table", folder, "--render")
    assert result.exit_code == Exit.BAD_INPUT
    assert "result 2 of another case" in result.stderr
    (folder / "table.json").write_text(json.dumps({"versions": {"a": "1"}, "rows": rows[:1]}))
    assert "1 results for 3 cases" in call("table", folder, "--render").stderr
    (folder / "table.json").write_text("[]")
    assert "other content" in call("table", folder, "--render").stderr


def test_a_column_that_no_row_has_is_an_error(folder):
    changed(folder / "study.toml", "{square:,}", "{sqare:,}")
    with pytest.raises(ValueError, match="no row has sqare"):
        call("table", folder, "--store", folder / "store")


def test_the_key_of_a_case_counts_its_script_and_what_it_imports(folder):
    script = str(folder / "squares.py")

    def keys(case):
        load.cache_clear()
        sys.modules.pop("helper", None)
        return [task.key for task in tasks_of("a", script, [case], SuiteLimits())]

    before = keys({"number": 1})
    assert keys({"number": 1}) == before
    assert keys({"number": 2}) != before
    (folder / "helper.py").write_text("ONE = 2\n")
    assert keys({"number": 1}) != before


def test_a_script_that_changed_meanwhile_fails(folder):
    script = str(folder / "squares.py")
    (task,) = tasks_of("a", script, [{"number": 3, "power": 2}], SuiteLimits())
    assert do(job_of(task))["outcome"] == {"square": 9, "unknown": None}
    (folder / "squares.py").write_text(SCRIPT + "#")
    answer = do(job_of(task))
    assert answer["status"] == "failed"
    assert "changed meanwhile" in answer["error"]


def test_an_interrupted_case_is_not_done(folder, tmp_path):
    script = folder / "stops.py"
    script.write_text('def measure(case):\n    return {"stop": "interrupted", "plan": "p"}\n')
    (task,) = tasks_of("a", str(script), [{}], SuiteLimits())
    answer = do(job_of(task))
    assert (answer["status"], answer["plan"]) == ("interrupted", "p")
    store = Store(tmp_path / "store")
    assert rows_of([task], store) == ([], ["a 1: not run"])
    store.save(task.key, answer, b"p")
    assert rows_of([task], store) == ([], ["a 1: interrupted: stopped by Ctrl-C"])


def test_modules_of_this_package_are_measured_by_name():
    assert file_digest("milp_plan.study.paper") is None
    with pytest.raises(MilpPlanError, match="does not load"):
        load("/nowhere/at_all.py")


def test_cells():
    def write(text, **row):
        return Cells().vformat(text, (), row)

    assert write("{a:seconds} {b:seconds}", a=12.34, b="> 600") == "12.3 > 600"
    assert write("{a:share} {b:yes} {c:yes} {d:µs}", a=0.5, b=1, c=0, d=1500) == (
        "50.00% yes NO 1.5000 µs"
    )
    assert write("{a[x]} {b[y][z]:,}", a={"x": 1}, b=None) == "1 —"
    assert members([("", "{a[x]} {b:,} c")]) == {"a", "b"}


def test_amounts():
    row = {"value": 1_234_567, "unit": "ns", "ticks_per_unit": 1}
    assert amount(1_234_567, amount_scale(row)) == "1.2346 ms"
    row = {"value": 3 * 2**20, "unit": "bytes", "ticks_per_unit": 1}
    assert amount(3 * 2**20, amount_scale(row)) == "3.0000 MiB"
    row = {"value": 12345 * 10**22, "unit": "ms", "ticks_per_unit": 10**23}
    assert amount(12345 * 10**22, amount_scale(row)) == "1,234.5 ms"
    assert amount(None, (1, "ns")) == "—"
    assert seconds(12.34) == "12.3"


def test_part_of_a_study(folder):
    store = folder / "store"
    asked = ("--only", "number=[37]", "--first", 1)
    result = call("table", folder, "--store", store, *asked)
    assert result.exit_code == Exit.DONE, result.stderr
    rows = json.loads((folder / "table.json").read_text())["rows"]
    assert [row["number"] for row in rows] == [7]
    page = (folder / "table.md").read_text()
    assert f"milp-plan table {folder.as_posix()} --only 'number=[37]' --first 1" in page
    assert "Of 1 numbers." in page
    assert call("table", folder, "--render", *asked).exit_code == Exit.DONE
    assert (folder / "table.md").read_text() == page
    assert call("table", folder, "--render").exit_code == Exit.BAD_INPUT

    result = call("table", folder, "--store", store)
    assert result.exit_code == Exit.DONE, result.stderr
    assert len(json.loads((folder / "table.json").read_text())["rows"]) == 3


@pytest.mark.parametrize("pattern", ["number", "colour=7", "number=8", "label=*eight*"])
def test_no_such_part_of_a_study(folder, pattern):
    result = call("table", folder, "--store", folder / "store", "--only", pattern)
    assert result.exit_code == Exit.BAD_INPUT
    assert "--only" in result.stderr
    assert not (folder / "store").exists()


def test_only_a_study_has_parts(tmp_path):
    (tmp_path / "recipe.toml").write_text("")
    result = call("table", tmp_path, "--first", 2)
    assert result.exit_code == Exit.BAD_INPUT
    assert "study.toml" in result.stderr


MISSING = """
from pathlib import Path

def measure(case):
    if not Path(case["file"]).is_file():
        return {"stop": "absent", "reason": f"no file {case['file']}", "size": None}
    return {"size": Path(case["file"]).stat().st_size, "reason": None}
"""


def test_a_case_whose_file_is_missing_is_on_the_page_and_tried_again(tmp_path):
    (tmp_path / "sizes.py").write_text(MISSING)
    file = tmp_path / "five"
    tables = '[[tables]]\ncolumns = [["size", "{size}"], ["missing", "{reason}"]]'
    cases = f'cases = [{{ file = "{file}" }}]'
    study = f'title = "Sizes"\nabout = ""\nscript = "sizes.py"\n{cases}\n{tables}\n'
    (tmp_path / "study.toml").write_text(study)
    asked = ("table", tmp_path, "--store", tmp_path / "store", "--quiet")
    assert call(*asked).exit_code == Exit.DONE
    assert f"| — | no file {file} |" in (tmp_path / "table.md").read_text()
    file.write_text("12345")
    assert call(*asked).exit_code == Exit.DONE
    assert "| 5 | — |" in (tmp_path / "table.md").read_text()


def test_modules_that_are_imported_by_those_next_to_a_script_count(folder, monkeypatch):
    monkeypatch.delitem(sys.modules, "deep", raising=False)
    (folder / "helper.py").write_text("import deep\nONE = 1\n")
    (folder / "deep.py").write_text("TWO = 2\n")
    script = str(folder / "squares.py")
    load.cache_clear()
    before = file_digest(script)
    (folder / "deep.py").write_text("TWO = 3\n")
    assert file_digest(script) != before
