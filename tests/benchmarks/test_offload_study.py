from fractions import Fraction


def test_journeys_by_rule_make_list_schedules_fit(script):
    """Free round trips save a quarter of the time; slower lanes save nothing."""
    study = script("offload_study")
    found = {lane: study.rule(study.problem_of(2, Fraction(lane))) for lane in ("1/2", "1")}
    assert found == {"1/2": 60, "1": 41}  # half units, and whole ones


def test_what_contradicts_the_page_is_reported(script):
    study = script("offload_study")
    row = {"cap": 1, "lane": 0.5, "stay": 40.0, "travel": 30.0, "bound": 28.0, "valid": True}

    def said(**changes):
        return study.complaints([{"of": "pipelines", "pipelines": [row | changes]}])

    assert said() == []
    assert study.idle_cut(row) == 1 - 6 / 16
    assert "fails the check" in said(valid=False)[0]
    assert "worse than with all staying" in said(travel=41.0)[0]
    assert "bound 31 above 30" in said(bound=31.0)[0]


def test_page_of_stored_rows(page_again):
    assert page_again("offload")
