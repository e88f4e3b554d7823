import pytest

from milp_plan.core.sharding import sharding_problem

from .conftest import rows_of

CASE = {"section": "A chain", "architecture": "gpt-tiny", "cluster": "2xA100", "meshes": ["2"]}


@pytest.mark.slow
def test_page_and_numbers(page):
    case = CASE | {"instance": "chain", "time_limit": 1}
    code, text, folder = page("paper/joint", "joint", [case])
    assert code == 0
    (row,) = rows_of(folder)
    assert row["joint"]["check"] == "ok"
    assert {answer["check"] for answer in row["first"].values()} == {"ok"}
    best = min(answer["value"] for answer in row["first"].values())
    assert row["joint"]["bound"] <= row["joint"]["value"] <= best
    assert set(row["first"]) == {"whole mesh", "any mesh", "ties open"}
    # one layer after the other: the sharding's cost is the time of its schedule
    assert row["first"]["whole mesh"]["total"] == row["first"]["whole mesh"]["value"]
    assert "1 cases: together better in" in text
    assert "## The plans of `chain`" in text


def test_a_plan_that_fails_or_is_worse_is_reported(script):
    joint = script("joint")

    def row(first, together, check="ok"):
        answers = {"any mesh": {"value": first, "check": "ok"}}
        return {"first": answers, "joint": {"value": together, "check": check}}

    assert not joint.wrong(row(10, 9))
    assert joint.wrong(row(10, 11))
    assert joint.wrong(row(10, 9, "fails"))
    assert joint.gain(row(10, 9)) == 0.1


def test_page_of_stored_rows(page_again):
    text = page_again("paper/joint")
    assert "10 cases: together better in 8, equal in 2." in text
    assert "| moe-tiny | 2xH100 | 2 | inference, batch 1 |" in text
    assert "## The plans of `moe-tiny-meshed-2xH100`" in text


def test_options_of_some_cheapest_sharding(script):
    """0 + 0 and 1 - 1 are as cheap; the third strategy is in none."""
    problem = sharding_problem(
        "ties", [[0, 1, 3], [2, 2]], edges={(0, 1): [[0, 5], [-1, 9], [0, 0]]}
    )
    least = [script("joint")._least(problem, row) for row in range(5)]
    assert least == [2, 2, 5, 2, 5]
