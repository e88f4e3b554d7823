from tests.io.samples import store
from tests.io.test_piper import sample

from .conftest import rows_of

COMMON = {"file": "small.json", "devices": 2, "micro_batches": 6, "bandwidth": "2B"}
CASES = [
    COMMON
    | {"section": "first", "memory": "1GiB", "piper": {"value": 0.5, "seconds": 9.0}}
    | {"uniform": {"value": "infeasible", "seconds": 9.0}, "time_limit": 5},
    COMMON
    | {"section": "second", "memory": "1B", "without": "data", "time_limit": 5}
    | {"piper": {"value": "infeasible", "seconds": 9.0}},
]


def test_page_and_numbers(page, tmp_path, monkeypatch):
    monkeypatch.setenv("MILP_PLAN_BENCHMARKS", str(tmp_path))
    (tmp_path / "piper").mkdir()
    store(tmp_path / "piper", sample(), "small.json")
    code, text, folder = page("paper/piper", "piper", CASES)
    first, second = rows_of(folder)
    assert code == (7 if first["value"] > 0.5 else 0)
    assert first["proved"]
    assert first["value"] <= first["even"]
    assert second["value"] == "infeasible"
    assert f"{first['value']:.9g}" in text
    assert "| 1B | 2 | data | **infeasible** | proved | infeasible |" in text
    assert text.count("## ") == 2


def test_equal_stages_are_counted(script):
    stages = script("piper")._stages
    assert stages([[2, 1, 1], [2, 1, 1], [3, 2, 1]]) == "2x1x1 (2 times), 3x2x1"
    assert stages([[n, 1, 1] for n in range(8)]).endswith("5x1x1, ... 8 in all")


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


def test_page_of_stored_rows(page_again):
    assert "48 configurations, 48 of them proved" in page_again("paper/piper")
