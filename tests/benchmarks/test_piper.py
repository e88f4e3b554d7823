import json

import pytest

from tests.io.samples import store
from tests.io.test_piper import sample

CASES = """
title = "Small"
about = "A sample."
published = "made up"
bandwidth = "2B"
time_limit = 5

[[cases]]
section = "first"
file = "small.json"
memory = "1GiB"
devices = 2
micro_batches = 6
piper = { value = 0.5, seconds = 9.0 }
uniform = { value = "infeasible", seconds = 9.0 }

[[cases]]
section = "second"
file = "small.json"
memory = "1B"
devices = 2
micro_batches = 6
without = "data"
piper = { value = "infeasible", seconds = 9.0 }
"""


def test_page_and_numbers(script, tmp_path):
    piper = script("piper")
    store(tmp_path, sample(), "small.json")
    (tmp_path / "cases.toml").write_text(CASES)
    asked = ["--folder", str(tmp_path), "--files", str(tmp_path)]
    code = piper.main(asked)
    first, second = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert code == (1 if first["against"] == "worse" else 0)
    assert first["proved"]
    assert first["value"] <= first["uniform"]
    assert (second["value"], second["against"]) == ("infeasible", "equal")
    page = (tmp_path / "table.md").read_text()
    assert f"{first['value']:.9g}" in page
    assert page.count("## ") == 2
    (tmp_path / "table.md").unlink()
    assert piper.main([*asked, "--render"]) == code
    assert (tmp_path / "table.md").read_text() == page


def test_standing(script):
    standing = script("piper").standing
    for ours, theirs, word in (
        (1.0, 1.0 + 1e-9, "equal"),
        (0.9, 1.0, "better"),
        (1.1, 1.0, "worse"),
        (1.0, "infeasible", "better"),
        ("infeasible", "infeasible", "equal"),
        ("infeasible", 1.0, "worse"),
        (None, 1.0, "worse"),
        (None, "infeasible", "worse"),
    ):
        assert standing(ours, {"value": theirs}) == word
    assert standing(1.0, None) == "alone"


def test_missing_files_are_said(script, monkeypatch):
    monkeypatch.delenv("MILP_PLAN_BENCHMARKS", raising=False)
    with pytest.raises(SystemExit):
        script("piper").parse([])
