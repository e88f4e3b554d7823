"""Each defect of a problem gives its own finding, and all of them come at once."""

import pytest

from milp_plan.core import (
    Channel,
    Device,
    DeviceClass,
    Finding,
    InputError,
    Operator,
    Option,
    PlanningProblem,
)
from milp_plan.core.validation import find_problems

from .builders import cluster, graph, operator, value


def _found(g=None, c=None):
    return [
        f"{finding.where}: {finding.found}"
        for finding in find_problems(g or graph("a b", value("v", "a", "b")), c or cluster())
    ]


def test_a_problem_without_defects():
    assert _found() == []


CHANNEL = Channel("d0", "d1", 2, 10**9)
BAD_CLUSTERS = {
    "two classes of a name": (
        {"device_classes": (DeviceClass("c", None), DeviceClass("c", None))},
        ["device_classes 'c': the name 2 times"],
    ),
    "two devices of a name": (
        {"devices": (Device("d0", "c", None), Device("d0", "c", None), Device("d1", "c", None))},
        ["devices 'd0': the name 2 times"],
    ),
    "no name": (
        {"devices": (Device("", "c", None), Device("d0", "c", None), Device("d1", "c", None))},
        ["devices: an empty name"],
    ),
    "no devices": ({"devices": (), "channels": (), "groups": ()}, ["devices: none"]),
    "unknown class": (
        {"devices": (Device("d0", "k", None), Device("d1", "c", None))},
        ["device 'd0': unknown device class 'k'"],
    ),
    "negative memory": (
        {"devices": (Device("d0", "c", -1), Device("d1", "c", None))},
        ["device 'd0' memory_bytes: -1"],
    ),
    "two channels between the same": (
        {"channels": (CHANNEL, CHANNEL)},
        ["channels 'd0->d1': the name 2 times"],
    ),
    "channel to nowhere": (
        {"channels": (Channel("d0", "d9", 2, 1),)},
        ["channel d0->d9: unknown device 'd9'"],
    ),
    "loop": ({"channels": (Channel("d0", "d0", 2, 1),)}, ["channel d0->d0: a loop"]),
    "negative latency": (
        {"channels": (Channel("d0", "d1", -2, 1),)},
        ["channel d0->d1 latency_ns: -2"],
    ),
    "no bandwidth": (
        {"channels": (Channel("d0", "d1", 2, 0),)},
        ["channel d0->d1 bandwidth_bytes_per_s: 0"],
    ),
    "group of one": ({"groups": (("d0",),)}, ["groups[0]: ['d0']"]),
    "group with a device twice": (
        {"groups": (("d0", "d1"), ("d0", "d0"))},
        ["groups[1]: ['d0', 'd0']"],
    ),
    "group with a stranger": ({"groups": (("d0", "d9"),)}, ["groups[0]: unknown device 'd9'"]),
}


@pytest.mark.parametrize("name", BAD_CLUSTERS)
def test_defects_of_clusters(name):
    changes, expected = BAD_CLUSTERS[name]
    assert _found(c=cluster(**changes)) == expected


def _option(**changes):
    return graph([operator("a", Option("o", **{"duration_ticks": {"c": 1}, **changes}))])


PAIR = {"gang": 2, "duration_ticks": {"c": 1}}
LAYOUTS = {"full": 8, "half": 4}
BAD_GRAPHS = {
    "no operators": (graph(""), ["operators: none"]),
    "two operators of a name": (graph("a a b"), ["operators 'a': the name 2 times"]),
    "two values of a name": (
        graph("a b", value("v", "a", "b"), value("v", "a", "b")),
        ["values 'v': the name 2 times"],
    ),
    "unknown consumer": (
        graph("a", value("v", "a", "x")),
        ["value 'v': unknown operator 'x'"],
    ),
    "unknown producer": (
        graph("a", value("v", "x", "a")),
        ["value 'v': unknown operator 'x'"],
    ),
    "consumer twice": (
        graph("a b", value("v", "a", "b b")),
        ["value 'v': consumer 'b' 2 times"],
    ),
    "reads what it makes": (
        graph("a", value("v", "a", "a")),
        ["value 'v': cycle: a -> a"],
    ),
    "nobody's value": (
        graph("a", value("v", None, "")),
        ["value 'v': neither producer nor consumer"],
    ),
    "no layout": (graph("a", value("v", "a", "", bytes={})), ["value 'v' bytes: no layout"]),
    "no messages": (graph("a", value("v", "a", "", messages=0)), ["value 'v' messages: 0"]),
    "negative bytes": (
        graph("a", value("v", "a", "", bytes={"full": -8})),
        ["value 'v' bytes['full']: -8"],
    ),
    "negative transfer": (
        graph("a", value("v", "a", "", transfer_bytes={"full": -8})),
        ["value 'v' transfer_bytes['full']: -8"],
    ),
    "transfer of no layout": (
        graph("a", value("v", "a", "", transfer_bytes={"x": 8})),
        ["value 'v' transfer_bytes: unknown layout 'x'"],
    ),
    "reshard of no layout": (
        graph("a", value("v", "a", "", reshard_ticks={("full", "x"): 1})),
        ["value 'v' reshard_ns: unknown layout 'x'"],
    ),
    "negative reshard": (
        graph("a", value("v", "a", "", bytes=LAYOUTS, reshard_ticks={("full", "half"): -1})),
        ["value 'v' reshard_ns['full', 'half']: -1"],
    ),
    "no options": (
        graph([Operator("a", ())]),
        ["operator 'a': no options"],
    ),
    "two options of a name": (
        graph([operator("a", Option("o", {"c": 1}), Option("o", {"c": 1}))]),
        ["operator 'a' options 'o': the name 2 times"],
    ),
    "no duration": (
        _option(duration_ticks={}),
        ["operator 'a' option 'o' duration_ns: no duration"],
    ),
    "duration on an unknown class": (
        _option(duration_ticks={"c": 1, "k": 1}),
        ["operator 'a' option 'o' duration_ns: unknown device class 'k'"],
    ),
    "negative duration": (
        _option(duration_ticks={"c": -1}),
        ["operator 'a' option 'o' duration_ns['c']: -1"],
    ),
    "negative workspace": (
        _option(workspace_bytes=-1),
        ["operator 'a' option 'o' workspace_bytes: -1"],
    ),
    "gang of none": (
        _option(gang=0),
        ["operator 'a' option 'o' gang: 0"],
    ),
    "cycle": (
        graph("a b", value("v", "a", "b"), value("u", "b", "a")),
        ["values: cycle: a -> b -> a"],
    ),
    "reads a layout of a stranger": (
        _option(reads={"x": "half"}),
        ["operator 'a' option 'o' reads: unknown value that it reads 'x'"],
    ),
    "writes a layout of a stranger": (
        _option(writes={"x": "half"}),
        ["operator 'a' option 'o' writes: unknown value that it writes 'x'"],
    ),
    "asks for a layout there is not": (
        graph([operator("a", Option("o", {"c": 1}, reads={"w": "half"}))], value("w", None, "a")),
        ["value 'w' bytes: no layout 'half', which operator 'a' option 'o'"],
    ),
    "shards for two gangs": (
        graph(
            [
                operator("a", Option("o", writes={"v": "half"}, **PAIR)),
                operator("b", Option("o", {"c": 1}, reads={"v": "half"})),
            ],
            value("v", "a", "b", bytes=LAYOUTS),
        ),
        ["value 'v' layout 'half': options with gangs [1, 2]"],
    ),
}


@pytest.mark.parametrize("name", BAD_GRAPHS)
def test_defects_of_graphs(name):
    g, expected = BAD_GRAPHS[name]
    found = _found(g)
    assert len(found) == len(expected)
    for text, start in zip(found, expected, strict=True):
        assert text.startswith(start)


def test_all_defects_of_a_stage_come_at_once():
    """References come first, because nothing that follows them can be said before they hold."""
    bad = graph(
        "a a", value("v", "x", "y"), value("u", None, ""), value("t", "a", "", bytes={"full": -1})
    )
    assert len(_found(bad, cluster(devices=(Device("d0", "k", -1), Device("d1", "c", None))))) == 7
    durations = graph(
        [operator("a", Option("o", {"c": -1}, workspace_bytes=-2)), operator("b", Option("o", {}))],
        value("v", "a", "b"),
        value("u", "b", "a"),
    )
    assert len(_found(durations)) == 4
    layouts = graph(
        [
            operator("a", Option("o", {"c": 1}, reads={"x": "half"})),
            operator("b", Option("o", writes={"v": "half"}, **PAIR)),
        ],
        value("v", "b", ""),
    )
    assert len(_found(layouts)) == 2


def test_a_problem_raises_them_all():
    with pytest.raises(InputError) as error:
        PlanningProblem("p", graph("a a", value("v", "x", "y")), cluster())
    assert len(error.value.findings) == 3
    assert len(str(error.value).splitlines()) == 3


def test_findings_name_their_file():
    finding = Finding("devices", "none", "at least one", "add a device")
    assert str(finding) == "devices: found none, expected at least one; add a device"
    error = InputError([finding]).in_file("x.json")
    assert str(error).startswith("x.json: devices: found none")
    assert error.findings[0].file == "x.json"
