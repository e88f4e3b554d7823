import json

import pytest


@pytest.mark.untraced
def test_page_and_numbers(script, tmp_path):
    growth = script("pipeline_growth")
    asked = ["--sizes", "2x6", "2x12", "--time-limit", "4", "--out", str(tmp_path)]
    assert growth.main([*asked, "--placements", "line"]) == 0
    found = json.loads((tmp_path / "pipeline_growth.json").read_text())
    rows = found["rows"]
    assert [row["micro_batches"] for row in rows] == [6, 12]
    for row in rows:
        assert row["bound"] <= row["value"]
        assert row["expert"] is None or row["value"] <= row["expert"]
        assert row["first_s"] <= row["plan_s"]
    page = (tmp_path / "pipeline_growth.md").read_text()
    assert str(rows[1]["value"]) in page
    assert str(tmp_path) not in page
    assert (tmp_path / "pipeline_growth.png").stat().st_size > 1000


def test_what_cannot_be_planned_is_said(script, tmp_path, monkeypatch):
    growth = script("pipeline_growth")
    monkeypatch.setitem(growth.FAMILIES, "line", 0.0)
    asked = ["--sizes", "2x6", "--time-limit", "2", "--out", str(tmp_path)]
    assert growth.main([*asked, "--placements", "line"]) == 1
    assert growth.DASH in (tmp_path / "pipeline_growth.md").read_text()
    with pytest.raises(SystemExit):
        growth.parse(["--placements", "star"])
