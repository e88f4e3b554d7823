from milp_plan.report.suite_table import suite_markdown

DONE = {"status": "done", "verdict": "ok", "gap_asked": 1e-4, "published": [], "error": ""}
LEFT = {"standing": "alone", "best_published": None, "bound_float": 9.0}


def test_a_proof_within_a_gap_is_no_proof_of_the_optimum():
    rows = [
        {**DONE, **LEFT, "instance": name, "proved": proved, "stop": stop}
        for name, proved, stop in (
            ("a", True, "proved"),
            ("b", False, "proved"),
            ("c", False, "time_limit"),
        )
    ]
    text = suite_markdown(
        "Title", "About.", rows, columns=("instance", "proved"), headings={}, group="none",
        digits=8, notes=(), command="make it", provenance="",
    )  # fmt: skip
    found = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    assert found[2:] == [["a", "proved"], ["b", "within 0.01 %"], ["c", "—"]]
    assert "3 plans pass the check, 1 are proved optimal, 1 more optimal within the gap" in text
