import json

import pytest
from hypothesis import given, settings

from milp_plan.core import FULL, InputError
from milp_plan.io import native
from milp_plan.kinds.schedule.formats import read

from .samples import full_problem, problems, raw, store


def findings_of(document):
    with pytest.raises(InputError) as caught:
        native.from_json(json.dumps(document).encode(), "bad.json")
    assert all(finding.file == "bad.json" for finding in caught.value.findings)
    return {finding.where: finding for finding in caught.value.findings}


def test_every_field_survives():
    problem = full_problem()
    again = native.from_json(native.to_json(problem))
    assert again == problem
    assert again.fingerprint == problem.fingerprint


@pytest.mark.untraced
@given(problems())
@settings(deadline=None)
def test_round_trip(problem):
    text = native.to_json(problem)
    again = native.from_json(text)
    assert again.fingerprint == problem.fingerprint
    assert (again.name, again.provenance) == (problem.name, problem.provenance)
    assert native.to_json(again) == text


def test_defaults_of_a_minimal_file():
    document = {
        "format": "milp-plan-instance",
        "version": 1,
        "name": "tiny",
        "cluster": {
            "device_classes": [{"name": "C", "memory_bytes": 9}],
            "devices": [
                {"name": "d0", "device_class": "C"},
                {"name": "d1", "device_class": "C", "memory_bytes": None},
                {"name": "d2", "device_class": "C", "memory_bytes": 4},
            ],
        },
        "operators": [{"name": "a", "options": [{"name": "o", "duration_ns": {"C": 1}}]}],
        "values": [{"name": "x", "producer": "a", "consumers": [], "bytes": 5}],
    }
    problem = native.from_json(json.dumps(document).encode())
    assert [device.memory_bytes for device in problem.cluster.devices] == [9, None, 4]
    assert problem.graph.value("x").bytes == {FULL: 5}
    assert problem.graph.value("x").transfer_bytes == {}
    assert (problem.objective, problem.memory_law) == ("makespan", "instant")
    assert (problem.units.time, problem.units.time_scale) == ("ns", 1)
    assert problem.graph.operator("a").option("o").gang == 1


def test_layout_keeps_one_entry_per_line():
    lines = native.to_json(full_problem()).decode().splitlines()
    assert any(line.strip().startswith('{"name": "w", "producer": null') for line in lines)


@pytest.mark.parametrize(
    ("damage", "where", "found", "remedy"),
    [
        (
            lambda d: d["operators"][0]["options"][0]["duration_ns"].update(H100=-1),
            "operators[0].options[0].duration_ns.H100",
            "-1",
            "correct it",
        ),
        (
            lambda d: d["operators"][1]["options"][0].pop("duration_ns"),
            "operators[1].options[0].duration_ns",
            "nothing",
            "add the field",
        ),
        (
            lambda d: d["operators"][1].update(kindd="x"),
            "operators[1].kindd",
            "an unknown field",
            "did you mean 'kind'?",
        ),
        (
            lambda d: d.update(zzz=0),
            "zzz",
            "an unknown field",
            "remove the field",
        ),
        (
            lambda d: d.update(objective="makespann"),
            "objective",
            '"makespann"',
            "did you mean 'makespan'?",
        ),
        (
            lambda d: d["cluster"]["channels"][0].update(bandwidth_bytes_per_s=0),
            "cluster.channels[0].bandwidth_bytes_per_s",
            "0",
            "correct it",
        ),
        (lambda d: d["values"][0].update(bytes=2.0), "values[0].bytes", "2.0", "write 2"),
        (
            lambda d: d["values"][0].update(bytes={"full shard": "7"}),
            "values[0].bytes['full shard']",
            '"7"',
            "remove the quotation marks",
        ),
        (lambda d: d["values"][1].update(messages=True), "values[1].messages", "true", "correct"),
        (lambda d: d.update(operators={}), "operators", "{}", "correct it"),
        (lambda d: d["provenance"].update(n="x" * 99, m=1), "provenance.m", "1", "correct it"),
    ],
)
def test_departures_from_the_schema(damage, where, found, remedy):
    document = raw()
    damage(document)
    findings = findings_of(document)
    assert list(findings) == [where]
    assert findings[where].found == found
    assert remedy in findings[where].remedy


def test_all_departures_are_listed_in_path_order():
    document = raw()
    document["cluster"]["devices"][0]["memory_bytes"] = "much"
    document["operators"][0]["options"][1]["gang"] = 0
    document["operators"][1]["options"][0]["duration_ns"]["H100"] = None
    document["values"][1]["bytez"] = document["values"][1].pop("bytes")
    findings = findings_of(document)
    assert list(findings) == [
        "cluster.devices[0].memory_bytes",
        "operators[0].options[1].gang",
        "operators[1].options[0].duration_ns.H100",
        "values[1].bytes",
        "values[1].bytez",
    ]
    assert findings["cluster.devices[0].memory_bytes"].expected == (
        "an integer of at least 0 or null"
    )


def test_long_content_is_quoted_short():
    document = raw()
    document["values"][0]["bytes"] = "x" * 500
    assert len(findings_of(document)["values[0].bytes"].found) < 80


@pytest.mark.parametrize(
    ("damage", "where", "found"),
    [
        (
            lambda d: d["operators"][1].update(name="load"),
            "operators[0], operators[1], operators 'load'",
            "2 times",
        ),
        (
            lambda d: d["cluster"]["devices"][2].update(device_class="A10"),
            "cluster.devices[2], device 'a0'",
            "unknown device class 'A10'",
        ),
        (
            lambda d: d["operators"][1]["options"][0]["duration_ns"].update(H10=1),
            "operators[1], operator 'use' option 'plain' duration_ns",
            "unknown device class 'H10'",
        ),
        (
            lambda d: d["values"][1].update(consumers=["uses"]),
            "values[1], value 'x'",
            "unknown operator 'uses'",
        ),
        (
            lambda d: d["values"].append(
                {"name": "y", "producer": "use", "consumers": ["load"], "bytes": 0}
            ),
            "values",
            "cycle: ",
        ),
        (
            lambda d: d["values"][1]["reshard_ns"].append(
                {"from": "split2", "to": "full", "ns": 1}
            ),
            "values[1].reshard_ns[1]",
            "'split2' to 'full' a second time",
        ),
    ],
)
def test_structural_defects(damage, where, found):
    document = raw()
    damage(document)
    findings = findings_of(document)
    assert where in findings
    assert found in findings[where].found


@pytest.mark.parametrize(
    ("damage", "remedy"),
    [
        (lambda d: d["values"][1].update(consumers=["uze"]), "did you mean 'use'?"),
        (
            lambda d: d["operators"][1]["options"][0]["duration_ns"].update(H10=1),
            "did you mean 'H100'?",
        ),
        (lambda d: d["cluster"]["groups"].append(["h0", "hh1"]), "did you mean 'h1'?"),
    ],
)
def test_mistyped_references_get_a_suggestion(damage, remedy):
    document = raw()
    damage(document)
    assert remedy in [finding.remedy for finding in findings_of(document).values()]


@pytest.mark.parametrize(
    ("change", "where", "found"),
    [
        ({"format": "milp-plan-plan"}, "format", '"milp-plan-plan"'),
        ({"format": 3}, "format", "3"),
        ({"version": 2}, "version", "2"),
        ({"version": "1"}, "version", '"1"'),
    ],
)
def test_header(change, where, found):
    findings = findings_of(raw() | change)
    assert list(findings) == [where]
    assert findings[where].found == found


def test_no_header():
    assert findings_of({})["format"].found == "nothing"


def test_a_list_is_no_instance():
    assert findings_of([])["top level"].expected == "an object"


def test_half_a_character_is_named():
    text = native.to_json(full_problem()).replace(b'"load"', b'"\\ud800"')
    with pytest.raises(InputError, match=r"line [0-9]+ column [0-9]+: found .*a lone surrogate"):
        native.from_json(text, "f.json")


def test_two_thousand_operators(tmp_path):
    document = raw()
    option = {"name": "o", "duration_ns": {"H100": 1}}
    count = 2000
    document["operators"] = [{"name": f"n{i}", "options": [option]} for i in range(count)]
    document["values"] = [
        {"name": f"v{i}", "producer": f"n{i}", "consumers": [f"n{i + 1}"], "bytes": 1}
        for i in range(count - 1)
    ]
    problem = read(store(tmp_path, document))
    assert len(problem.graph.topological_order) == count
