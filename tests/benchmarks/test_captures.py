import pytest

from .conftest import rows_of

CASE = {"model": "gpt2-tiny", "cluster": "2xA100", "part": 1.0, "time_limit": 4, "until_gap": 0.05}


def cases(*readings):
    return [CASE | {"reading": reading, "how": how} for reading, how in readings]


@pytest.mark.slow
def test_page_and_numbers(page):
    code, text, folder = page(
        "paper/captures",
        "captures",
        cases(("schedule", "block"), ("sharding", "2"), ("together", "2")),
    )
    assert code == 0
    block, sharding, together = rows_of(folder)
    assert {row["check"] for row in (block, sharding, together)} == {"ok"}
    assert together["value"] <= together["first"]
    assert block["first"] is None
    assert "## Sharding" in text or "sharding" in text


def test_a_case_that_no_plan_can_keep_is_shown_as_proved(page):
    case = CASE | {"reading": "schedule", "how": "block", "model": "gpt2-four"}
    code, text, folder = page(
        "paper/captures", "captures", [case | {"part": 0.6, "time_limit": 600}]
    )
    (row,) = rows_of(folder)
    assert code == 0
    assert (row["check"], row["value"], row["stop"]) == ("none can be", None, "infeasible")
    assert "1 cases, 0 with a valid plan, 1 proved to have none" in text
    assert "| — | — | — | — | none | none can be |" in text


def test_what_is_far_or_worse_is_reported(script):
    captures = script("captures")

    def row(reading, check="ok", gap=0.01, first=None, value=10):
        return {
            **{"name": "x", "reading": reading, "check": check, "gap": gap},
            **{"first": first, "value": value},
        }

    fine = [
        row("schedule"),
        row("schedule", "none can be", None),
        row("together", gap=0.5, first=10),
        row("together", gap=None, first=11),
    ]
    assert captures.complaints(fine) == []
    bad = [
        row("schedule", gap=0.09),
        row("sharding", gap=None),
        row("schedule", "no plan"),
        row("together", first=9),
        row("together", "fails", first=11),
    ]
    assert len(captures.complaints(bad)) == len(bad)


@pytest.mark.parametrize("part", [1.0, 0.6])
@pytest.mark.parametrize(("reading", "how"), [("schedule", "block"), ("together", "2")])
def test_memory_is_the_part_asked_for_of_what_one_device_needs(script, part, reading, how):
    captures = script("captures")
    case = CASE | {"reading": reading, "how": how, "part": part}
    whole = captures.problem_of(case | {"part": 1.0}).cluster.devices[0].memory_bytes
    for device in captures.problem_of(case).cluster.devices:
        assert device.memory_bytes == whole * int(100 * part) // 100
