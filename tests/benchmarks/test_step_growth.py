import pytest

from milp_plan.cli.exits import Exit

from .conftest import rows_of


def cases(*counts):
    common = {"architecture": "gpt-tiny", "cluster": "2xA100", "schedules": 8}
    return [{**common, "micro_batches": count} for count in counts]


@pytest.mark.untraced
def test_page_and_numbers(page):
    code, text, folder = page("step-growth", "step_growth", cases(2, 4))
    assert code == Exit.NOT_VALID  # the claim is about large steps; these are far from their bound
    rows = rows_of(folder)
    assert [row["micro_batches"] for row in rows] == [2, 4]
    assert rows[0]["operators"] < rows[1]["operators"]
    for row in rows:
        assert 0 < row["bound"] <= row["value"]
        assert row["all_s"] == pytest.approx(
            sum(row[f"{p}_s"] for p in ("read", "index", "bounds"))
            + sum(row[f"{p}_s"] for p in ("construct", "check", "write"))
        )
    assert f"{rows[1]['value'] / 1e6:.3f}" in text
    assert (folder / "growth.png").stat().st_size > 1000


def test_what_is_missing_or_too_much_is_reported(script):
    study = script("step_growth")
    row = {"operators": 10, "value": 100, "bound": 100, "all_s": 1.0}
    assert study.complaints([row]) == []
    assert study.complaints([{**row, "value": None}]) == ["10 operators: no plan"]
    assert study.complaints([{**row, "value": 120}]) == ["10 operators: 1.200 bounds"]
    fast = {**row, "operators": 20, "all_s": 4.0}
    assert study.complaints([row, fast]) == ["seconds grow with the power 2.00"]


def test_page_of_stored_rows(page_again):
    assert page_again("step-growth")
