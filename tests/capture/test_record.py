"""Captured-graph files: what is read is what was written, and every defect is named."""

import json
import random
from pathlib import Path

import msgspec
import pytest

from milp_plan.capture.record import (
    capture_from_json,
    capture_to_json,
    fingerprint,
    read_capture,
    write_capture,
)
from milp_plan.core import InputError

from .graphs import NAMES, random_capture, shipped


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read_again(name, tmp_path):
    capture = shipped(name)
    write_capture(capture, tmp_path / "a.json.gz")
    assert read_capture(tmp_path / "a.json.gz") == capture
    assert capture_to_json(capture_from_json(capture_to_json(capture))) == capture_to_json(capture)


def test_random_graphs_are_read_again():
    for seed in range(30):
        capture = random_capture(random.Random(seed), 12)
        assert capture_from_json(capture_to_json(capture)) == capture


def test_the_fingerprint_counts_shapes_and_modules_and_no_names():
    capture = shipped("gpt2-tiny")
    first, *rest = capture.kernels
    change = msgspec.structs.replace
    renamed = change(capture, kernels=(change(first, name="other"), *rest))
    moved = change(capture, kernels=(change(first, module="other"), *rest))
    result = change(first.results[0], shape=(1,))
    shaped = change(capture, kernels=(change(first, results=(result,)), *rest))
    assert fingerprint(renamed) == fingerprint(capture)
    assert len({fingerprint(graph) for graph in (capture, moved, shaped)}) == 3


def document(name: str = "gpt2-tiny") -> dict:
    return json.loads(capture_to_json(shipped(name)))


def broken(change) -> str:
    content = document()
    change(content)
    with pytest.raises(InputError) as error:
        capture_from_json(json.dumps(content).encode(), "g.json")
    return str(error.value)


def test_each_defect_is_one_finding_that_says_where():
    def late(content):
        content["kernels"].reverse()

    def unknown_type(content):
        content["storages"][3]["dtype"] = "float12"

    def twice(content):
        content["kernels"][1]["name"] = content["kernels"][0]["name"]

    def far(content):
        content["results"][0]["storage"] = 10**6

    def newer(content):
        content["version"] = 2

    def nothing(content):
        content["kernels"] = []
        content["results"] = []

    assert "put the kernel behind its producer" in broken(late)
    assert "storages[3].dtype: found 'float12'" in broken(unknown_type)
    assert "the name 2 times" in broken(twice)
    assert "results[0]: found 1000000" in broken(far)
    assert "install a newer milp_plan" in broken(newer)
    assert "kernels: found none" in broken(nothing)


def damaged(rng: random.Random, node):
    """Damage one place of a document."""
    junk = [None, -1, 3.5, "x", [], {}, 10**30, True]
    while isinstance(node, dict | list) and node:
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        inner = node[key]
        if not isinstance(inner, dict | list) or rng.random() < 0.2:
            if rng.random() < 0.3:
                del node[key]
            else:
                node[key] = rng.choice(junk)
            return
        node = inner


def test_damaged_files_give_findings_or_a_graph_and_nothing_else():
    refused = []
    for seed in range(20):
        content = document()
        damaged(random.Random(seed), content)
        try:
            capture_from_json(json.dumps(content).encode(), "g.json")
        except InputError as error:
            refused.append(error)
    assert len(refused) > 6
    assert {finding.file for error in refused for finding in error.findings} == {"g.json"}


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = Path(tmp_path / "a.json")
    path.write_text('{"format": "milp-plan-instance", "version": 1}')
    with pytest.raises(InputError, match="milp-plan-capture"):
        read_capture(path)
