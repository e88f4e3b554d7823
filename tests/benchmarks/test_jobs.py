"""The studies of jobs: what they complain about, and their pages from stored rows."""

from .conftest import ROOT, rows_of


def test_page_of_stored_rows(page_again):
    assert page_again("paper/hydra")


def test_nothing_is_missed(script):
    rows = rows_of(ROOT / "results" / "paper" / "saturn")
    assert [row["part"] for row in rows].count("joint") == 4
    assert script("saturn").complaints(rows) == []


def test_hydra_complains(script):
    study = script("hydra")
    assert study.complaints([{"part": "spill", "rho": 0.5, "ratio": 1.7}]) == []
    assert "1.4 times" in study.complaints([{"part": "spill", "rho": 0.5, "ratio": 1.4}])[0]
    assert study.complaints([{"part": "scaling", "devices": 8, "speed_up": 7.9}]) == []
    assert study.complaints([{"part": "scaling", "devices": 8, "speed_up": 7.8}]) != []
    near = {"part": "spill", "rho": 1.0, "ratio": 2.0, "three": 1.007, "there": 2.48}
    assert study.complaints([{**near, "ratio_three": 2.483}]) == []
    assert "there 2.48" in study.complaints([{**near, "ratio_three": 2.4}])[0]
    assert "room for three" in study.complaints([{**near, "three": 1.02, "ratio_three": 2.48}])[0]
    order = {"part": "order", "jobs": 12, "mix": "0.5-2", "lrtf_there": 1.39, "lrtf_error": 0.06}
    assert study.complaints([{**order, "lrtf": 1.37}]) == []
    assert "1.6, there 1.39" in study.complaints([{**order, "lrtf": 1.6}])[0]
    assert study.complaints([{**order, "lrtf": 1.42, "lrtf_error": 0.001}]) != []
    gains = [{"part": "speeds", "gain": gain, "seed": 0} for gain in (0.0, 0.04, 0.2)]
    assert study.complaints(gains) == ["one fast device, two slow ones: median gain 0.040"]
    host = {"part": "host", "gain": 0.0, "seed": 3}
    assert study.complaints([host]) == []
    assert study.complaints([{**host, "gain": -0.01}]) == ["host 3: lists are better"]


def test_saturn_complains(script):
    study = script("saturn")
    row = {"part": "joint", "seed": 3, "value": 9, "greedy": 9, "gap": 0.01, "shorter": 0.4}
    assert study.complaints([row]) == []
    assert "worse than a greedy start" in study.complaints([{**row, "greedy": 8}])[0]
    assert study.complaints([{**row, "peer_value": 9}]) == []
    assert "CP-SAT has 8" in study.complaints([{**row, "peer_value": 8}])[0]
    assert "not proved" in study.complaints([{**row, "gap": 0.02}])[0]
    assert "38% shorter" in study.complaints([{**row, "shorter": 0.38}])[0]
    growth = {"part": "growth", "seed": 1, "jobs": 500, "gap": 0.06, "processor": 1.0}
    assert study.complaints([growth]) == ["growth 1: gap 0.060"]
    few = {**growth, "jobs": 50, "gap": 0.01}
    many = [{**few, "processor": 0.1}, {**growth, "gap": 0.04}]
    assert study.complaints(many) == []
    assert "power 1.30" in study.complaints([{**few, "processor": 0.05}, many[1]])[0]
    arrived = {"part": "arrivals", "seed": 0, "fifo": 1.0, "longest": 1.1, "noisy": 1.05}
    assert study.complaints([arrived]) == []
    assert "another order" in study.complaints([{**arrived, "fifo": 0.99}])[0]
    assert "cost more" in study.complaints([{**arrived, "noisy": 1.2}])[0]
    assert study.complaints([{"part": "again", "seed": 0, "ratio": 1.1}]) != []
