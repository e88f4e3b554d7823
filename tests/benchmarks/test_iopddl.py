"""The study of the sharding contest: what is measured, and what the page says."""

import json
from pathlib import Path

import pytest

from milp_plan.core.sharding import sharding_problem
from milp_plan.io.files import write_document
from milp_plan.io.study_file import published_rows, read_study
from milp_plan.kinds.sharding.iopddl import to_json

FOLDER = Path(__file__).resolve().parents[2] / "results" / "paper" / "iopddl"


def test_the_page_compares_with_what_is_published(script):
    contest = script("iopddl")
    study, _ = read_study(FOLDER / "study.toml")
    published = published_rows(study, FOLDER)
    assert [(case["instance"], case["limit_s"]) for case in study.cases] == [
        (name, int(known["limit_s"])) for (name,), known in published.items()
    ]
    known = {"gap_asked": 1e-6, "proved": True, "checked": True}
    rows = [
        {"instance": "B", "cost": 532_843, "gap": 0.0, **known},
        {"instance": "S", "cost": 1_500_000_000, "gap": 0.01, **known, "checked": False},
    ]
    for row in rows:
        row["published"] = published[(row["instance"],)]
    facts = contest.present(rows)
    assert [facts[name] for name in ("winner", "contest", "later", "below")] == [2, 2, 2, 1]
    assert facts["median"] == 0.005
    assert rows[1]["change"] == pytest.approx(1_500_000_000 / 1_521_949_307 - 1)
    assert contest.complaints(rows) == ["S: the solution is no plan"]


def test_the_page_of_stored_rows_is_the_committed_one(tmp_path, page_again):
    assert "| B | 60 | 990,205 | 532,843 |" in page_again("paper/iopddl")


@pytest.mark.slow
def test_the_command_is_measured_and_its_solution_checked(script, tmp_path):
    problem = sharding_problem(
        "tiny",
        [[9, 1], [9, 1]],
        usages=[[0, 5], [0, 5]],
        edges={(0, 1): [[0, 3], [3, None]]},
        limit=5,
    )
    write_document(tmp_path / "tiny.json.gz", to_json(problem))
    found = script("iopddl").run(tmp_path / "tiny.json.gz", 30.0, 1e-6)
    reported = [found[name] for name in ("cost", "bound", "proved", "checked")]
    assert reported == [13, 13, True, True]
    assert found["peak_mib"] > 10
    json.dumps(found)
