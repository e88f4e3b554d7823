def line(**changes):
    return {
        "part": 0.9,
        "kept_ticks": None,
        "again_ticks": 104,
        "kept_ok": True,
        "again_ok": True,
    } | changes


def test_what_contradicts_the_page_is_reported(script):
    study = script("memflow")

    def said(**changes):
        return study.complaints([{"model": "m", "blind_ticks": 100, "limits": [line(**changes)]}])

    assert said() == []
    assert "more than 1% above" in said(part=1.0, again_ticks=102)[0]
    assert "slower than with all kept" in said(kept_ticks=100, again_ticks=102)[0]
    assert "nothing found" in said(again_ticks=None)[0]
    assert "the checker disagrees" in said(again_ok=False)[0]
    assert said(part=0.6, again_ticks=None) == []


def test_page_of_stored_rows(page_again):
    assert page_again("paper/memflow")
