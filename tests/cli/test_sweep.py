"""``sweep`` on the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import jsonschema
import pytest

from milp_plan.cli.exits import Exit
from milp_plan.cli.outputs import Content, content_of
from milp_plan.io.schemas import schemas

from .cases import call, instance_file

ANSWER = jsonschema.Draft202012Validator(json.loads(schemas()["answer.schema.json"]))
WORDS = ("--time-limit", "100", "--quiet", "--store-folder", "kept")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_table_and_a_picture(here: Path) -> None:
    file = instance_file(here)
    axes = ("--memory", "1/4,1:1.5:0.5", "--devices", "2", "--bandwidth", "1,2")
    reported = call("sweep", file, *axes, *WORDS, "-o", "t.csv", "--plot", "p.svg")
    assert reported.exit_code == Exit.INFEASIBLE  # as of several files: a quarter is not enough
    assert "no plan exists" in reported.stdout
    assert reported.stdout.count("proved optimal") == 4
    rows = list(csv.DictReader((here / "t.csv").read_text().splitlines()))
    assert [row["memory"] for row in rows] == ["1/4", "1", "3/2"] * 2
    assert [row["bandwidth"] for row in rows] == ["1"] * 3 + ["2"] * 3
    assert rows[1]["value"] == "9000"
    assert (here / rows[1]["plan_file"]).is_file()
    assert content_of(here / "p.svg") is Content.PICTURE
    again = call("sweep", file, *axes, *WORDS, "--json", "-o", "t.md")
    answer = json.loads(again.stdout)
    ANSWER.validate(answer)
    assert all(point["again"] for point in answer["points"])
    assert [str(point["value"] or "") for point in answer["points"]] == [r["value"] for r in rows]
    assert (here / "t.md").read_text().startswith("# two-devices")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), Exit.USAGE),
        (("--memory", "much"), Exit.USAGE),
        (("--memory", "1:0.5:0.1"), Exit.USAGE),
        (("--memory", "0:1:1e-9"), Exit.USAGE),
        (("--memory", "1:2"), Exit.USAGE),
        (("--devices", "1.5"), Exit.USAGE),
        (("--memory", "1", "-o", "t.txt"), Exit.USAGE),
        (("--memory", "1", "--contiguous"), Exit.BAD_INPUT),
    ],
)
def test_what_is_refused(words: tuple[str, ...], code: Exit, here: Path) -> None:
    reported = call("sweep", instance_file(here), *words, *WORDS)
    assert reported.exit_code == code
    assert reported.stderr


def test_a_file_that_cannot_be_read(here: Path) -> None:
    reported = call("sweep", here / "none.json", "--memory", "1", "--json", *WORDS)
    assert reported.exit_code == Exit.BAD_INPUT
    answer = json.loads(reported.stdout)
    ANSWER.validate(answer)
    assert "none.json" in answer["errors"][0]
