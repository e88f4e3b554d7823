"""Placement files: what is written is read, what is wrong is said."""

import json
import random

import pytest
from msgspec.structs import replace as change

from milp_plan.capture.placements import (
    entries,
    placements_from_json,
    placements_to_json,
    processes,
    read_placements,
    require_placements_of,
    whole_placements,
    write_placements,
)
from milp_plan.core import InputError
from milp_plan.io.placement_wire import Axis

from .graphs import shipped
from .test_record import damaged

CAPTURE = shipped("gpt2-tiny")


def random_placement(rng, axes):
    return "".join(rng.choice(["R", "P", "S(0)", f"S({rng.randrange(100)})"]) for _ in range(axes))


def whole(axes=1, **members):
    """Everything whole on every process, for the shipped graph."""
    made = whole_placements(CAPTURE, 2)
    made = change(
        made,
        mesh=[Axis(f"axis{place}", 2) for place in range(axes)],
        inputs=dict.fromkeys(made.inputs, "R" * axes),
        gradients=dict.fromkeys(made.gradients, "R" * axes),
    )
    return change(made, **members)


def random_placements(rng):
    axes = rng.randint(1, 3)
    return whole(
        axes,
        mesh=[Axis(f"axis{place}", rng.randint(1, 10**9)) for place in range(axes)],
        pins={f"node_{place}": random_placement(rng, axes) for place in range(rng.randrange(9))},
        reads={"mm": {"view": random_placement(rng, axes)}},
        collectives={"all_reduce": rng.randrange(10**9)},
    )


def test_what_is_written_is_read(tmp_path):
    for seed in range(20):
        placements = random_placements(random.Random(seed))
        assert placements_from_json(placements_to_json(placements)) == placements
        write_placements(placements, tmp_path / "p.json")
        assert read_placements(tmp_path / "p.json") == placements


def test_entries_spell_the_placement_and_sizes_multiply():
    rng = random.Random(3)
    for axes in range(1, 4):
        placement = random_placement(rng, axes)
        assert len(entries(placement)) == axes
        assert "".join(entries(placement)) == placement
    assert processes(whole(3)) == 8


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("pins", "mm"), "RR", "pins['mm']: found 'RR', 2 entries"),
        (("reads", "mm", "t"), "RP", "reads['mm']['t']"),
        (("inputs", "wte.weight"), "X", "wte.weight"),
        (("collectives", "broadcast"), 1, "broadcast"),
        (("collectives", "all_reduce"), -1, "all_reduce"),
        (("mesh",), [], "mesh"),
        (("mesh",), [{"name": "a", "size": 2}] * 2, "the name 2 times"),
        (("version",), 2, "install a newer milp_plan"),
        (("format",), "milp-plan-plan", "milp-plan-torch-placements"),
    ],
)
def test_each_defect_is_named(path, value, said):
    content = json.loads(placements_to_json(whole(pins={"mm": "R"}, reads={"mm": {"t": "R"}})))
    node = content
    for key in path[:-1]:
        node = node.setdefault(key, {})
    node[path[-1]] = value
    with pytest.raises(InputError) as caught:
        placements_from_json(json.dumps(content).encode(), "p.json")
    assert said in str(caught.value)
    assert "p.json" in str(caught.value)


def test_damaged_files_give_findings_or_placements_and_nothing_else():
    refused = []
    for seed in range(100):
        rng = random.Random(seed)
        content = json.loads(placements_to_json(random_placements(rng)))
        damaged(rng, content)
        try:
            placements_from_json(json.dumps(content).encode(), "p.json")
        except InputError as error:
            refused.append(error)
    assert len(refused) > 30
    assert {finding.file for error in refused for finding in error.findings} == {"p.json"}


def test_placements_must_be_of_the_model_and_the_release():
    require_placements_of(whole(), CAPTURE)
    require_placements_of(whole(torch=f"{CAPTURE.torch}+cpu"), CAPTURE)
    some = dict(whole().inputs)
    del some["wpe.weight"]
    known = whole()
    for placements, said in (
        (whole(torch="2.12.1"), "install"),
        (whole(graph="0" * 64), "make the file again from this model"),
        (whole(inputs=some), "inputs['wpe.weight']: found nothing"),
        (whole(inputs={**known.inputs, "wte.weight": "P"}), "whole or cut"),
        (whole(gradients={}), "gradients['wte.weight']: found nothing"),
        (whole(gradients={**known.gradients, "other": "R"}), "gradients['other']: found no such"),
    ):
        with pytest.raises(InputError) as caught:
            require_placements_of(placements, CAPTURE, "p.json")
        assert said in str(caught.value)
        assert "p.json" in str(caught.value)


def test_another_release_is_the_only_reported_defect():
    with pytest.raises(InputError) as caught:
        require_placements_of(whole(torch="1.0", graph="x", gradients={}), CAPTURE)
    assert len(caught.value.findings) == 1


def test_a_forward_pass_has_no_placements():
    with pytest.raises(InputError, match="--mode training"):
        whole_placements(change(CAPTURE, mode="inference"), 2)
