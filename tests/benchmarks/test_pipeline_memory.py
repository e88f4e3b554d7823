"""The study of a pipeline with little memory: what it says of rows that contradict it."""

from benchmarks.pipeline_memory import WAYS, complaints, measure, present

CASE = {"stages": 2, "micro_batches": 2, "times": [1, 1, 1], "send": 0, "limit_s": 8, "seed": 0}


def test_more_ways_take_no_more_time():
    row = CASE | {"lane": 1, "memory": 1}
    row |= measure(row)
    assert not complaints([row])
    assert present([row])["cells"] == len(WAYS)
    assert row["both"] < row["none"]


def test_what_contradicts_the_page_is_reported():
    row = {"lane": 1, "memory": 1}
    for name, value in (("none", 10), ("recompute", 11), ("offload", 9), ("both", 10)):
        row |= {name: value, f"{name}_peak": 2, f"{name}_bound": 10}
    stated = complaints([row])
    assert len(stated) == 2 + len(WAYS) + 1
    assert complaints([row | {"both": None}]) == [
        "lane 1, memory 1: no plan with one of the methods"
    ]
