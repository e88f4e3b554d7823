"""Graphs of networkx: there and back, and what is refused on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import milp_plan
from milp_plan.core import InputError
from milp_plan.kinds.schedule.formats import read
from tests.run.cases import INSTANCES
from tests.support.anything import random_case, serial_case
from tests.support.memory_saving import tiny_ways

mp: Any = milp_plan


@settings(deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([random_case, serial_case, tiny_ways]))
def test_there_and_back_is_the_same_problem(seed: int, make: Any) -> None:
    problem = make(seed)
    again = mp.from_networkx(mp.to_networkx(problem))
    assert again == problem
    assert again.fingerprint == problem.fingerprint


@pytest.mark.parametrize("path", sorted(INSTANCES.glob("*.json")), ids=lambda path: path.stem)
def test_shipped_instances_come_back(path: Path) -> None:
    problem = read(path)
    again = mp.from_networkx(mp.to_networkx(problem))
    assert again == problem
    assert again.fingerprint == problem.fingerprint


def fork(**first: Any) -> Any:
    """Graph in which ``a`` feeds ``b`` and ``c``."""
    graph = networkx.DiGraph(name="fork")
    graph.add_node("a", **{"duration": 2, **first})
    graph.add_node("b", duration={"H100": 3})
    graph.add_node("c", duration=4, kind="backward-input", group="g", workspace="1KiB")
    return graph


def test_edges_that_name_one_value_carry_one() -> None:
    graph = fork(persistent=5)
    graph.add_edge("a", "b", value="x", bytes=7)
    graph.add_edge("a", "c", value="x", bytes=7)
    problem = mp.from_networkx(graph, "1xH100+1xA100", time_unit="ns", objective="peak_memory")
    weights, x = problem.graph.values
    assert (weights.name, weights.producer, weights.consumers) == ("a.persistent", None, ("a",))
    assert (x.name, x.consumers, x.bytes) == ("x", ("b", "c"), {"full": 7})
    assert problem.name == "fork"
    assert problem.objective == "peak_memory"
    assert problem.graph.operator("b").options[0].duration_ticks == {"H100": 3}
    assert problem.graph.operator("c").group == "g"
    assert problem.graph.operator("c").options[0].workspace_bytes == 1024


def test_edges_without_a_value_carry_one_each_also_in_multigraphs() -> None:
    graph = networkx.MultiDiGraph(fork())
    for size in (7, 8):
        graph.add_edge("a", "b", bytes=size)
    graph.add_edge("b", "c")
    problem = mp.from_networkx(graph, "1xH100", time_unit="ns")
    sizes = {value.name: value.bytes["full"] for value in problem.graph.values}
    assert sizes == {"a->b": 7, "a->b 2": 8, "b->c": 0}


def test_options_of_a_node() -> None:
    graph = networkx.DiGraph()
    graph.add_node(1, options={"one": {"duration": 4}, "two": {"duration": 2, "gang": 2}})
    problem = mp.from_networkx(graph, "2xH100", name="gang", time_unit="ns")
    assert [option.gang for option in problem.graph.operator("1").options] == [1, 2]
    assert mp.solve(problem, time_limit=20).value == 2


def _with(edge: dict[str, Any] | None = None, **node: Any) -> Any:
    graph = fork(**node)
    graph.add_edge("a", "b", **({"value": "x", "bytes": 0} if edge is None else edge))
    graph.add_edge("a", "c", value="x", bytes=0)
    return graph


def _cut() -> Any:
    graph = mp.to_networkx(mp.from_networkx(_with({"value": "x", "bytes": 0}), "1xH100"))
    graph.remove_edge("a", "b")
    return graph


WRONG = {
    "node": (lambda: _with(durations=3), "node 'a': found the attribute 'durations'.*'duration'"),
    "edge": (lambda: _with({"byte": 3}), "edge 'a' to 'b': found the attribute 'byte', .*'bytes'"),
    "size": (lambda: _with({"bytes": -3}), "add_value 'a->b', bytes: found -3"),
    "two sizes": (lambda: _with({"value": "x", "bytes": 3}), "value 'x' with other attributes"),
    "option": (lambda: _with(options={"o": 3}), "node 'a', option 'o': found 3, expected a mapp"),
    "time": (lambda: _with(duration="long"), "add_operator 'a', duration: found 'long'"),
    "edges": (_cut, "edge 'a' to 'b': found a value without edge"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_its_node_or_edge(case: str) -> None:
    make, words = WRONG[case]
    with pytest.raises(InputError, match=words):
        mp.from_networkx(make(), "1xH100")


def test_machines_and_durations_are_asked_for() -> None:
    with pytest.raises(InputError, match="from_networkx, cluster: found none"):
        mp.from_networkx(fork())
    graph = fork()
    del graph.nodes["a"]["duration"]
    with pytest.raises(InputError, match="node 'a': found no duration"):
        mp.from_networkx(graph, "1xH100")
