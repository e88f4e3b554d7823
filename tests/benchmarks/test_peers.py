"""The peer's reading of the laws, its starts, and the page about it; without CP-SAT itself."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType
from typing import NamedTuple

import pytest

from milp_plan.check import verify
from milp_plan.cli.exits import Exit
from milp_plan.core import Objective
from milp_plan.io.plan_file import read_plan
from milp_plan.io.study_file import read_study
from milp_plan.kinds.schedule.formats import write
from milp_plan.zoo import generate
from tests.cli.cases import call
from tests.support.problems import random_problem
from tests.support.spread import spread_problem

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "benchmarks" / "peers"


@pytest.fixture(scope="module")
def peers() -> Iterator[ModuleType]:
    """The study's script, with the peer's modules."""
    sys.path.insert(0, str(PEERS))
    import study

    yield study
    sys.path.remove(str(PEERS))


@pytest.fixture
def another(peers: ModuleType) -> ModuleType:
    """The script that measures somebody else's program."""
    import another

    return another


def offered(peers, path, seconds_are_over):
    """Every plan that constructions tell of."""
    instance = peers.reader.Instance(path)
    found = []
    tries = peers.constructions.Constructions(instance, seconds_are_over, found.append)
    tries.lists()
    if all(any(len(instance.sites[m.site]) == 1 for m in o.modes) for o in instance.operators):
        tries.stages()
    return instance, found


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_plans_obey_the_laws(peers, first, tmp_path):
    planned = 0
    for seed in range(first, first + 10):
        for draw in (random_problem, spread_problem):
            problem = draw(seed, objective=Objective.MAKESPAN)
            path = tmp_path / f"{seed}.json"
            write(problem, path)
            instance, found = offered(peers, path, lambda: False)
            for start in found:
                path.write_text(json.dumps(instance.plan_file(start.plan)))
                verdict = verify(problem, read_plan(path))
                assert verdict.ok, f"{problem.name}, {start.name}: {verdict.violations}"
                assert verdict.value == start.plan.value
                assert verdict.value >= instance.bound
                planned += 1
    assert planned > 10


def test_training_step_with_micro_batches_and_little_memory(peers, tmp_path):
    problem = generate(
        "gpt-tiny", "4xV100", batch=32, micro_batches=4, memory_scale="1/400", name="little"
    )
    path = tmp_path / "little.json"
    write(problem, path)
    instance, found = offered(peers, path, lambda: False)
    assert instance.may_bind
    assert {start.family.split()[-1] for start in found} >= {"list", "once", "V", "twice"}
    best = min(found, key=lambda start: start.plan.value)
    better = []
    rounds = iter([False] * 30 + [True])
    climb = peers.constructions.Climb(instance, best, 0)
    climb.run(lambda: next(rounds), better.append, patience_s=600.0)
    climb.run(lambda: False, better.append, patience_s=0.0)  # ends: all of it is in vain
    for start in (best, *better):
        path.write_text(json.dumps(instance.plan_file(start.plan)))
        assert verify(problem, read_plan(path)).ok


def test_neighbourhoods_are_whole_classes_and_chains_are_tight(peers, tmp_path):
    path = tmp_path / "small.json"
    write(generate("gpt-tiny", "4xV100", batch=32, micro_batches=4), path)
    instance, found = offered(peers, path, lambda: True)
    plan, rng = found[0].plan, Random(0)
    chain = peers.neighbourhoods.critical(instance, plan)
    assert any(plan.starts[o] + plan.modes[o].length == plan.value for o in chain)
    assert any(plan.starts[o] == 0 for o in chain)
    for kind in peers.neighbourhoods.KINDS:
        free = peers.neighbourhoods.neighbourhood(instance, plan, kind, 12, rng)
        assert bool(free.moving) == (kind != "order")
        assert free.moving <= free.turning
        for members in instance.classes_of_operators:
            assert not free.moving & set(members) or free.moving >= set(members)


def test_a_plan_that_stands_still_rests_until_the_others_do_too(peers):
    class Value(NamedTuple):
        value: int

    best, plain = racers = [peers.cpsat.Racer(Value(value)) for value in (10, 12)]
    in_vain = ("INFEASIBLE", None, "order", 0.0)
    improved = []
    for _ in range(2 * peers.cpsat.STILL + 1):
        improved.append(peers.cpsat.awake(racers))
        improved[-1].learn(in_vain, begun=improved[-1].plan.value, most=100)
    half = peers.cpsat.STILL
    assert improved == [best] * half + [plain] * half + [best]
    assert peers.cpsat.awake([best, plain]) is best
    best.vain = half
    assert peers.cpsat.awake([best, plain]) is plain
    plain.learn(("OPTIMAL", Value(9), "order", 0.0), begun=12, most=100)
    assert (plain.vain, plain.plan.value) == (0, 9)


def test_other_problems_are_refused(peers, tmp_path):
    path = tmp_path / "other.json"
    write(random_problem(1, objective=Objective.BOTTLENECK), path)
    with pytest.raises(peers.reader.UnsupportedError, match="bottleneck"):
        peers.reader.Instance(path)


def test_instances_of_the_study(peers, tmp_path):
    study, _ = read_study(ROOT / "results" / "peers" / "study.toml")
    files = {case["file"] for case in study.all_cases()}
    assert len(files) == 24 + 30
    for name in files:
        if ":" not in name:
            assert peers.instance_file(name, tmp_path).is_file()
    made = peers.instance_file("training-graphs:moe-tiny-4mb-4xA100", tmp_path)
    assert peers.reader.Instance(made).name == "moe-tiny-4mb-4xA100"


@pytest.fixture
def drawn(peers: ModuleType) -> ModuleType:
    """The script that draws graphs by their numbers."""
    import drawn

    return drawn


def test_a_number_draws_one_graph(drawn):
    study, _ = read_study(ROOT / "results" / "drawn-graphs" / "study.toml")
    numbers = [case["draw"] for case in study.all_cases()]
    assert numbers == list(range(1, len(numbers) + 1))  # none left out
    found = {drawn.draw(number)[0].fingerprint for number in (1, 2, 9, 10, 1)}
    assert len(found) == 4


def test_less_memory_than_a_list_schedule_holds(drawn):
    for number in (3, 8):
        problem, asked = drawn.draw(number)
        assert asked["memory_scale"] != "1"
        roomy = generate(**{**asked, "memory_scale": "1"})
        plan = drawn.PLANNERS[drawn.LIST](roomy)
        assert verify(roomy, plan).ok
        broken = verify(problem, plan).violations
        assert {violation.rule for violation in broken} == {"memory"}


SHOWN = [
    "instances/inception-v3-training-8xH100+8xA100.json.gz",
    "instances/unet-inference-2xH100.json",
    "training-graphs:moe-tiny-4mb-4xA100",
    "training-graphs:unet-8mb-2xH100+2xA100",
]


def test_page(peers, tmp_path):
    text = (ROOT / "results" / "peers" / "study.toml").read_text()
    head, tables = text.partition("[[grids]]")[0], text.partition("[[tables]]")[2]
    script = str(PEERS / "study.py")
    grid = f"[[grids]]\nlimit = [60]\nfile = {json.dumps(SHOWN)}\n\n[[tables]]"
    content = head.replace("benchmarks/peers/study.py", script) + grid + tables
    (tmp_path / "study.toml").write_text(content)
    shutil.copy(ROOT / "results" / "peers" / "known.csv", tmp_path)
    cases = read_study(tmp_path / "study.toml")[0].all_cases()
    rows = [row(case, place) for place, case in enumerate(cases)]
    made = {"versions": {"numpy": "2"}, "machine": {}, "rows": rows}
    (tmp_path / "table.json").write_text(json.dumps(made))
    result = call("table", tmp_path, "--render")
    assert result.exit_code == Exit.NOT_VALID
    assert "the peer is better by 25.00%" in result.stderr
    assert "the plan of peer is violated" in result.stderr
    page = (tmp_path / "table.md").read_text()
    assert "milp_plan is better on 2, equal on 1, worse on 1; the median over the 4" in page
    assert "| 9.1460 ms |" in page
    assert "| 17, 17 |" in page
    assert (tmp_path / "traces-shipped.png").is_file()
    assert (tmp_path / "traces-training-graphs.png").is_file()


def row(case, place):
    """What a case could give: better, equal, worse in turn."""
    ours, theirs = ((3, 4), (4, 4), (5, 4), (3, 4))[place % 4]
    tool = {"check": "ok", "by": "x", "wall_s": 9.0, "processor_s": 17.4}
    broken = {"check": "violated"} if place == 0 else {}
    return {
        **case,
        "name": Path(case["file"].rpartition(":")[2]).name.partition(".json")[0],
        "operators": 300,
        "devices": 4,
        "bound": 2_000_000,
        "bound_name": "load",
        "baselines": {"heft": 6_000_000, "etf_memory": None, "list_topological": 7_000_000},
        "ours": {**tool, "value": ours * 10**6, "trace": [[1.0, 6_000_000], [2.0, ours * 10**6]]},
        "peer": {**tool, **broken, "value": theirs * 10**6, "trace": [[3.0, theirs * 10**6]]},
    }


PROGRAM = """
import json, sys
assert sys.argv[2:-1] == ["--limit", "60", "--workers", "2", "--seed", "0", "--out"], sys.argv
print("first words")
print(json.dumps({"value": None, "bound": 5}))
"""


def test_another_program_is_run_by_its_words(peers, another, tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.setattr(peers, "peer_python", lambda: sys.executable)
    monkeypatch.setenv("MILP_PLAN_PEER", str(tmp_path / "program.py"))
    case = {"file": "instances/unet-inference-2xH100.json", "limit": 60, "threads": 2, "seed": 0}
    first = another.measure(case)
    assert first["other"]["value"] is None
    assert first["other"]["check"] == "no plan"
    (tmp_path / "part.py").write_text("")  # of the same program, which is another one now
    assert another.measure(case)["program"] != first["program"]


@pytest.mark.parametrize("named", [None, "", "no/such/file.py"])
def test_without_another_program_the_variable_is_named(another, named, monkeypatch):
    monkeypatch.delenv("MILP_PLAN_PEER", raising=False)
    if named is not None:
        monkeypatch.setenv("MILP_PLAN_PEER", named)
    with pytest.raises(RuntimeError, match=r"MILP_PLAN_PEER is .* name the program"):
        another.measure({"file": "instances/unet-inference-2xH100.json"})


def test_page_about_another_program(another):
    known = json.loads(another.KNOWN.read_text())["rows"]
    factors = (2, 1, 0.5, None)
    rows = [
        {
            **{name: row[name] for name in another.SAME},
            "program": "theirs.py 0",
            "other": {
                "value": None if factor is None else int(factor * row["ours"]["value"]),
                "check": "no plan" if factor is None else "ok",
                "wall_s": 59.0,
            },
        }
        for factor, row in zip(factors, known, strict=False)
    ]
    stated = another.present(rows)
    assert (stated["better"], stated["equal"], stated["worse"], stated["none"]) == (1, 1, 1, 1)
    assert stated["weaker"] >= 1  # our own peer, where the program needs half of our time
    assert stated["median"] == "0.00%"
    assert [row["shown"]["better"] for row in rows] == ["50.00%", "0.00%", "-100.00%", "—"]
    worse = [line for line in another.complaints(rows) if "better than milp_plan" in line]
    assert worse == [f"{rows[2]['name']}, 60 s: the program is better than milp_plan by 100.00%"]


def test_the_same_cases_are_measured_of_another_program():
    ours, theirs = (
        read_study(ROOT / "results" / name / "study.toml")[0].all_cases()
        for name in ("peers", "another-peer")
    )
    assert ours == theirs
