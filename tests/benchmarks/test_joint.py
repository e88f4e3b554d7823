import json

import pytest

from milp_plan.core.sharding import sharding_problem

CASES = """
title = "Small"
about = "A sample."
time_limit = 1

[[cases]]
section = "A chain"
architecture = "gpt-tiny"
cluster = "2xA100"
meshes = ["2"]
instance = "chain"
"""


@pytest.mark.slow
def test_page_and_numbers(script, tmp_path):
    joint = script("joint")
    (tmp_path / "cases.toml").write_text(CASES)
    asked = ["--folder", str(tmp_path)]
    assert joint.main(asked) == 0
    (row,) = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert row["joint"]["check"] == "ok"
    assert {answer["check"] for answer in row["first"].values()} == {"ok"}
    best = min(answer["value"] for answer in row["first"].values())
    assert row["joint"]["bound"] <= row["joint"]["value"] <= best
    assert set(row["first"]) == {"whole mesh", "any mesh", "ties open"}
    # one layer after the other: the sharding's cost is the time of its schedule
    assert row["first"]["whole mesh"]["total"] == row["first"]["whole mesh"]["value"]
    text = (tmp_path / "table.md").read_text()
    assert "1 cases: together better in" in text
    assert "## The plans of `chain`" in text
    assert joint.main([*asked, "--resume"]) == 0
    assert joint.main([*asked, "--render"]) == 0
    assert (tmp_path / "table.md").read_text() == text


def test_a_plan_that_fails_or_is_worse_is_told(script):
    joint = script("joint")

    def row(first, together, check="ok"):
        answers = {"any mesh": {"value": first, "check": "ok"}}
        return {"first": answers, "joint": {"value": together, "check": check}}

    assert not joint.wrong(row(10, 9))
    assert joint.wrong(row(10, 11))
    assert joint.wrong(row(10, 9, "fails"))
    assert joint.gain(row(10, 9)) == 0.1


def test_page_of_stored_rows(script):
    joint = script("joint")
    answer = {"value": 9000, "bound": 9000, "proved": True, "check": "ok", "total": 8000}
    answer |= {"runs": [["a", "2 x:n > 2:x", ["A100.0", "A100.1"], 0, 9000]], "seconds": 1.0}
    together = {**answer, "value": 8000, "bound": 7000, "proved": False, "gap": 0.125}
    case = {"section": "s", "architecture": "net", "cluster": "2xA100", "meshes": ["2"]}
    row = {"case": {**case, "instance": "i"}, "name": "i", "operators": 1, "options": 3}
    row |= {"first": dict.fromkeys(joint.WAYS, answer), "joint": together}
    recipe = {"title": "T", "about": "A.", "time_limit": 5}
    text = joint.page(recipe, {"rows": [row], "versions": {"numpy": "2"}})
    assert "1 cases: together better in 1, equal in 0. In 1 of them" in text
    assert "| net | 2xA100 | 2 | inference, batch 1 | 1 | 3 | 8.0000 µs | 9.0000 µs |" in text
    assert "**8.0000 µs** | 7.0000 µs | 12.50% | 11.11% | ok | 1.00 |" in text
    assert "| a | 2 x:n > 2:x | 0 1 | 0.0000 µs | 2 x:n > 2:x | 0 1 | 0.0000 µs |" in text


def test_options_of_some_cheapest_sharding(script):
    """0 + 0 and 1 - 1 are as cheap; the third strategy is in none."""
    problem = sharding_problem(
        "ties", [[0, 1, 3], [2, 2]], edges={(0, 1): [[0, 5], [-1, 9], [0, 0]]}
    )
    least = [script("joint")._least(problem, row) for row in range(5)]
    assert least == [2, 2, 5, 2, 5]
