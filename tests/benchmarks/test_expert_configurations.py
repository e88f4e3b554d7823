"""The study of published configurations: what it counts, on rows that are written out here."""

import pytest


def line(**members):
    return {
        "model": "m",
        "devices": "8xA100",
        "size": "2,048 x 64",
        "measured": 10.0,
        "predicted": 9.0,
        "ours": 9.0,
        "excess": -1,
        "rank": 1,
        "count": 10,
        "gap": 0.0,
        **members,
    }


@pytest.fixture
def study(script):
    return script("expert_configurations")


def test_an_aim_is_met_near_ours_or_where_another_published_one_is_faster(study):
    rows = [
        {"set": "a", "rows": [line(), line(size="other", ours=8.0)]},
        {"set": "b", "rows": [line(ours=8.0), line(measured=8.0, predicted=8.2, ours=8.0)]},
    ]
    found = study.present(rows)
    assert [each["met"] for each in found["lines"]] == [True, False, True, True]
    assert (found["met"], found["runs"], found["share"]) == (3, 4, "75%")
    assert found["lines"][1]["ratio"] == pytest.approx(9 / 8 - 1)
    assert found["lines"][2]["slower"] == pytest.approx(0.25)
    assert found["sets"][0]["error"] == pytest.approx(0.1)


def test_a_search_without_a_proof_does_not_meet_it(study):
    found = study.present([{"set": "a", "rows": [line(ours=12.0, gap=0.5)]}])
    assert found["met"] == 0


def test_a_run_without_a_prediction_does_not_meet_it(study):
    row = {"set": "a", "rows": [{"model": "m", "devices": "d", "size": "s", "measured": 1.0}]}
    found = study.present([row])
    assert (found["met"], found["lines"][0]["ratio"], found["sets"][0]["error"]) == (0, None, None)


def test_experts_that_beat_a_proof_are_a_complaint(study):
    assert not study.complaints([{"rows": [line()]}])
    assert study.complaints([{"rows": [line(predicted=8.0)]}])
    assert not study.complaints([{"rows": [line(predicted=8.0, excess=1)]}])
    assert not study.complaints([{"rows": [line(predicted=8.0, gap=0.1)]}])
