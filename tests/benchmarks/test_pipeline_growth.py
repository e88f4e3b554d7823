import pytest

from .conftest import rows_of


def cases(*counts, limit_s):
    common = {"placement": "line", "devices": 2, "limit_s": limit_s}
    return [{**common, "micro_batches": count} for count in counts]


@pytest.mark.untraced
def test_page_and_numbers(page):
    code, text, folder = page("pipeline-growth", "pipeline_growth", cases(6, 12, limit_s=4))
    assert code == 0
    rows = rows_of(folder)
    assert [row["micro_batches"] for row in rows] == [6, 12]
    for row in rows:
        assert row["bound"] <= row["value"]
        assert row["expert"] is None or row["value"] <= row["expert"]
        assert row["first_s"] <= row["plan_s"]
    assert str(rows[1]["value"]) in text
    assert (folder / "growth.png").stat().st_size > 1000


def test_what_cannot_be_planned_is_reported(script, page, monkeypatch):
    monkeypatch.setitem(script("pipeline_growth").FAMILIES, "line", 0.0)
    _, text, folder = page("pipeline-growth", "pipeline_growth", cases(6, limit_s=2))
    (row,) = rows_of(folder)
    assert row["value"] is None
    assert script("pipeline_growth").complaints([row]) == ["line 2x6: no plan"]
    assert "| line | 2 | 6 | 0 | 36 | — |" in text


def test_page_of_stored_rows(page_again):
    assert page_again("pipeline-growth")
