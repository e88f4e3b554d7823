import json

CASES = """
title = "Small"
about = "A sample."
time_limit = 10

[[cases]]
section = "A chain"
architecture = "gpt-tiny"
cluster = "2xA100"
meshes = ["2"]
instance = "chain"
"""


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
