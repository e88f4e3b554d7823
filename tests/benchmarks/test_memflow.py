def line(**changes):
    return {
        "part": 0.9,
        "kept_ticks": None,
        "again_ticks": 104,
        "kept_ok": True,
        "again_ok": True,
    } | changes


def test_what_contradicts_the_page_is_told(script):
    study = script("memflow")

    def said(**changes):
        return study.complaints([{"model": "m", "blind_ticks": 100, "limits": [line(**changes)]}])

    assert said() == []
    assert "more than 5% above" in said(again_ticks=106)[0]
    assert "more than 1% above" in said(part=1.0, again_ticks=102)[0]
    assert "nothing found" in said(again_ticks=None)[0]
    assert "the checker disagrees" in said(again_ok=False)[0]
    assert said(part=0.6, again_ticks=None) == []
