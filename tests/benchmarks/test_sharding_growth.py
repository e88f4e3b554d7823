import pytest

from milp_plan.cli.exits import Exit

from .conftest import rows_of


def cases(*counts):
    common = {"architecture": "gpt-tiny", "cluster": "2xA100", "mesh": "2", "blocks": 2}
    limits = {"samples": 2, "gap": 1e-2, "limit_s": 60}
    return [{**common, **limits, "micro_batches": count} for count in counts]


@pytest.mark.untraced
def test_page_and_numbers(page):
    code, text, folder = page("sharding-growth", "sharding_growth", cases(2, 3))
    assert code in (Exit.DONE, Exit.NOT_VALID)  # seconds of tiny problems say nothing of growth
    rows = rows_of(folder)
    assert [row["micro_batches"] for row in rows] == [2, 3]
    first, second = (row["operators"] for row in rows)
    each = second - first
    assert 0 < first - 2 * each < each  # some layers have weights, which are kept once
    for row in rows:
        assert 0 < row["bound"] <= row["value"] <= 1.01 * row["bound"]
    assert f"{rows[1]['value'] / 1e6:.3f}" in text
    assert (folder / "growth.png").stat().st_size > 1000


def test_what_is_missing_or_too_much_is_reported(script):
    study = script("sharding_growth")
    row = {"operators": 10, "value": 100, "bound": 100, "gap": 0.1, "plan_s": 1.0, "peak_gb": 1.0}
    assert study.complaints([row]) == []
    assert study.complaints([{**row, "value": None}]) == ["10 operators: no plan, or no bound"]
    assert study.complaints([{**row, "value": 120}]) == ["10 operators: value 120, bound 100"]
    assert study.complaints([{**row, "peak_gb": 13.0}]) == ["10 operators: 1 s, 13.0 GB"]
    slow = {**row, "operators": 20, "plan_s": 4.0}
    assert study.complaints([row, slow]) == ["seconds grow with the power 2.00"]


def test_page_of_stored_rows(page_again):
    assert page_again("sharding-growth")
