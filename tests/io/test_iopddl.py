"""Files of the sharding contest: exact, both ways, and every defect named."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from milp_plan import run
from milp_plan.core import InputError, Units
from milp_plan.core.sharding import ShardingPlan
from milp_plan.io.files import write_document
from milp_plan.kinds.schedule.formats import read
from milp_plan.kinds.sharding.iopddl import (
    FORBIDDEN,
    read_iopddl,
    read_solution,
    solution_text,
    to_json,
)
from milp_plan.run.kinds import kind_of
from tests.support.sharding import random_problem, tense_problem


def sample() -> dict[str, Any]:
    return {
        "problem": {
            "name": "pair",
            "nodes": {
                "intervals": [[0, 3], [2, 2]],
                "costs": [[5, FORBIDDEN], [2**53 + 1, 7]],
                "usages": [[1, 2], [3, 4]],
            },
            "edges": {"nodes": [[1, 0]], "costs": [[0, 1, FORBIDDEN, 3]]},
            "usage_limit": 9,
        }
    }


def written(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "file.json"
    path.write_text(json.dumps(content))
    return path


def test_numbers_are_exact_and_forbidden_is_a_mask(tmp_path: Path) -> None:
    problem = read_iopddl(written(tmp_path, sample()))
    assert problem.name == "pair"
    assert problem.strategies.allowed.tolist() == [True, False, True, True]
    assert problem.strategies.cost[2] == 2**53 + 1
    assert problem.transitions.ends.tolist() == [[1, 0]]
    assert problem.transitions.allowed.tolist() == [True, True, False, True]
    assert problem.intervals.tolist() == [[0, 3], [2, 2]]
    assert problem.limit == 9


def test_names_labels_and_provenance_come_back(tmp_path: Path) -> None:
    content = sample()
    names = {"operators": ["a", "b"], "labels": [["x", "y"], ["z", "w"]]}
    content["problem"] |= names | {"provenance": {"mesh": "2"}}
    problem = read_iopddl(written(tmp_path, content))
    assert problem.operators == ("a", "b")
    assert problem.labels == ("x", "y", "z", "w")
    assert problem.provenance == {"mesh": "2"}
    write_document(tmp_path / "again.json", to_json(problem))
    again = read_iopddl(tmp_path / "again.json")
    assert (again.operators, again.labels) == (problem.operators, problem.labels)
    assert again.provenance == problem.provenance
    assert again.fingerprint == problem.fingerprint


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ({"operators": ["a"]}, "problem.operators: found 1 entries"),
        ({"labels": [["x", "y"]]}, "problem.labels: found 1 entries"),
        ({"labels": [["x"], ["z", "w"]]}, r"problem.labels\[0\]: found 1 entries"),
        ({"operators": ["a", "a"]}, "a name twice"),
    ],
)
def test_names_that_are_not_one_for_each_are_refused(
    tmp_path: Path, member: dict[str, Any], said: str
) -> None:
    content = sample()
    content["problem"] |= member
    with pytest.raises(InputError, match=said):
        read_iopddl(written(tmp_path, content))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_problems_come_back(tmp_path: Path, seed: int, suffix: str) -> None:
    problem = random_problem(seed)
    write_document(tmp_path / f"there.{suffix}", to_json(problem))
    back = read_iopddl(tmp_path / f"there.{suffix}")
    assert back.limit == problem.limit
    assert back.strategies.usage.tolist() == problem.strategies.usage.tolist()
    allowed = problem.transitions.allowed
    assert back.transitions.allowed.tolist() == allowed.tolist()
    assert (back.transitions.cost == problem.transitions.cost)[allowed].all()
    again = tmp_path / "again.json"
    write_document(again, to_json(back))
    assert read_iopddl(again).fingerprint == back.fingerprint


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_plan_of_a_problem_is_one_of_its_file(tmp_path: Path, seed: int) -> None:
    """Costs of what is not allowed were part of the fingerprint, which the file changed."""
    problem = tense_problem(seed)
    assert not problem.transitions.allowed.all()
    write_document(tmp_path / "there.json", to_json(problem))
    assert read_iopddl(tmp_path / "there.json").fingerprint == problem.fingerprint


def test_every_defect_is_named(tmp_path: Path) -> None:
    content = sample()
    problem = content["problem"]
    problem["edges"]["costs"] = [[1, 2, 3]]
    problem["nodes"]["usages"] = [[1], [-3, 4]]
    problem["edges"]["nodes"].append([0, 7])
    with pytest.raises(InputError) as caught:
        read_iopddl(written(tmp_path, content))
    told = str(caught.value)
    for where in (
        "problem.edges.costs[0]",
        "problem.nodes.usages[0]",
        "problem.nodes.usages[1][0]",
        "problem.edges.nodes[1]",
        "problem.edges.costs: found 1 entries",
    ):
        assert where in told
    assert told.count("file.json") == len(caught.value.findings)


def test_numbers_beyond_64_bits_are_named(tmp_path: Path) -> None:
    content = sample()
    content["problem"]["nodes"]["costs"][0][0] = 2**70
    with pytest.raises(InputError, match=r"nodes\.costs\[0\]\[0\]"):
        read_iopddl(written(tmp_path, content))


def test_files_cut_in_the_middle(tmp_path: Path) -> None:
    text = json.dumps(sample()).encode()
    for name, data in (("a.json", text[:90]), ("b.json.gz", gzip.compress(text)[:-20])):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=r"too early|damaged gzip"):
            run.read(tmp_path / name)


def test_readers_of_other_problems_say_what_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, sample())
    kind, problem = run.read(path)
    assert (kind.name, problem.name) == ("sharding", "pair")
    with pytest.raises(InputError, match="JSON with the members problem"):
        read(path)


def test_solutions_come_back(tmp_path: Path) -> None:
    problem = read_iopddl(written(tmp_path, sample()))
    path = tmp_path / "solution.json"
    path.write_bytes(solution_text(ShardingPlan("pair", (0, 1))))
    assert json.loads(path.read_text()) == [0, 1]
    assert read_solution(path, problem).chosen == (0, 1)
    path.write_text('{"solution": [1, 1]}')
    assert read_solution(path, problem).chosen == (1, 1)
    path.write_text('{"a": 1}')
    with pytest.raises(InputError, match="strategy per operator"):
        read_solution(path, problem)


def test_names_and_provenance_are_what_the_file_says(tmp_path: Path) -> None:
    plain = read_iopddl(written(tmp_path, sample()))
    assert plain.provenance == {"file": "file.json"}
    assert plain.operators == ("op0", "op1")
    problem = replace(
        plain,
        operators=("matmul", "sum"),
        labels=("rows", "whole", "rows", "columns"),
        provenance={"made by": "a test"},
    )
    path = tmp_path / "named.json"
    write_document(path, to_json(problem))
    again = read_iopddl(path)
    assert (again.operators, again.labels) == (problem.operators, problem.labels)
    assert again.provenance == {"made by": "a test"}


def test_the_unit_of_costs_is_what_the_file_says(tmp_path: Path) -> None:
    """Costs of generated problems were numbers without a unit, though they are nanoseconds."""
    content = sample()
    assert read_iopddl(written(tmp_path, content)).units is None
    content["problem"]["unit"] = "ns"
    problem = read_iopddl(written(tmp_path, content))
    assert problem.units == Units()
    write_document(tmp_path / "again.json", to_json(problem))
    assert read_iopddl(tmp_path / "again.json").units == Units()
    assert kind_of(problem).measure(problem).text(2_500) == "2.5 µs"
    content["problem"]["unit"] = "s"
    with pytest.raises(InputError, match=r'problem\.unit: found "s"'):
        read_iopddl(written(tmp_path, content))


def test_names_are_one_for_each(tmp_path: Path) -> None:
    path = tmp_path / "named.json"
    write_document(path, to_json(random_problem(1)))
    document = json.loads(path.read_text())
    document["problem"] |= {"operators": ["a"], "labels": [["x"]]}
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        read_iopddl(path)
    assert {"problem.operators", "problem.labels"} <= {f.where for f in caught.value.findings}
