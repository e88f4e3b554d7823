import pytest


def row(workers, limit, schedules, value):
    return {
        "name": "step",
        "workers": workers,
        "limit": limit,
        "schedules": schedules,
        "processor_s": 10.0 * workers,
        "value": value,
        "lost": 0,
    }


def test_two_workers_are_compared_with_one_in_the_same_time(script):
    study = script("workers")
    rows = [row(1, 60, 900, 1900), row(1, 30, 400, 2000), row(2, 30, 600, 1950)]
    reported = study.present(rows)
    assert reported == {"times": 1.5, "rate": 0.75}
    assert [entry["better"] for entry in rows] == pytest.approx([0.05, 0.0, 0.025])
    assert study.complaints(rows) == []
    assert study.complaints([{**rows[0], "lost": 1}]) == ["step: 1 workers lost"]
