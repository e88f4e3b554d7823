"""Paper tables as Markdown."""

from __future__ import annotations

from typing import Any

from milp_plan.report import paper_table

ROW: dict[str, Any] = {
    "section": "First",
    "stages": 4,
    "micro_batches": 8,
    "placement": "line",
    "chunks": None,
    "times": [1, 1, 1, 0.5],
    "freed_at_backward": 0,
    "memory": 3,
    "objective": "makespan",
    "work": 24,
    "experts": {"1f1b": 30, "zb_h1": None},
    "best_expert": ["1f1b", 30],
    "best_peer": ["peer", 29],
    "peers": [["peer", 29, "a paper"]],
    "value": 28,
    "bound": 27.5,
    "proved": False,
    "verdict": "ok",
    "peak_memory": 3,
    "seconds": 1.25,
    "seconds_to_best": None,
}
LOST = ROW | {"section": "Second", "value": None, "bound": None, "peers": [], "best_peer": None}


def table() -> str:
    standings = [("better", "better"), ("worse", "alone")]
    return paper_table("Title", "About.", [ROW, LOST], standings, command="make it", figure="a.png")


def test_every_case_has_a_line_with_all_figures() -> None:
    first = next(line for line in table().splitlines() if line.startswith("| line"))
    cells = [cell.strip() for cell in first.strip("|").split("|")]
    assert cells == [
        *("line", "4 × 8", "1, 1, 1, 0.5", "3", "makespan", "24", "30", "—", "30 (1f1b)"),
        *("29 (peer)", "**28**", "27.5", "4", "3", "better", "better", "1.2", "—"),
    ]


def test_unknown_is_a_dash_and_no_peer_is_no_column() -> None:
    text = table()
    second = text[text.index("## Second") :]
    assert "best peer" not in second
    assert "**—**" in second


def test_the_head_counts_and_says_how_to_make_it_again() -> None:
    text = table()
    assert text.startswith("# Title\n")
    assert "make it" in text
    assert "![Title](a.png)" in text
    assert "2 cases: 2 plans pass the check, 0 are proved optimal." in text
    assert "Against the best expert: 1 better, 0 equal, 1 worse" in text
    assert "above our bound (1 cases), ours is better in 1" in text
    assert "- peer: a paper" in text
