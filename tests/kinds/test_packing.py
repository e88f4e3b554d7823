"""Address packing: law, files, bounds, planners and the way, against enumeration."""

import itertools
import json
import random
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from milp_plan.cli.main import main
from milp_plan.core import InputError
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.draw.canvas import write_figure
from milp_plan.io.files import read_document
from milp_plan.kinds.packing.bounds import fullest_instant, packing_bounds, packing_obstacle
from milp_plan.kinds.packing.check import verify_packing
from milp_plan.kinds.packing.minimalloc import packing_text, read_packing
from milp_plan.kinds.packing.planners import FITS, MAX_BUFFERS, Packer
from milp_plan.kinds.packing.planners.search import FAILED, PACKED, Trial
from milp_plan.kinds.packing.problem import Buffer, PackingPlan, PackingProblem, Place
from milp_plan.run.kinds import kind_of, read
from milp_plan.run.settings import Settings
from milp_plan.run.solving import solve
from tests.support.packing import lowest, tight_buffers
from tests.support.packings import dissection
from tests.support.public import PUBLIC, needs_public

EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"
HOME = PUBLIC / "minimalloc"
KNOWN = needs_public("minimalloc")


def command(*words):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout


def pair(capacity=12, **changes):
    first, second = Buffer("a", 0, 4, 5), Buffer("b", 2, 6, 7)
    return PackingProblem("pair", (replace(first, **changes), second), capacity)


def packed(problem, *offsets, **claims):
    places = tuple(Place(b, at) for b, at in zip(problem.buffers, offsets, strict=True))
    return PackingPlan(problem.name, places, **claims)


def drawn(seed, alignments=(1,)):
    rng = random.Random(seed)
    span, size = rng.choice((4, 7, 10**9)), rng.choice((3, 9, 10**10))
    buffers = []
    for number in range(rng.randint(1, 6)):
        lower, upper = sorted(rng.sample(range(-span, span), 2))
        amount = rng.randint(1, rng.choice((3, size)))
        buffers.append(Buffer(f"b{number}", lower, upper, amount, rng.choice(alignments)))
    return PackingProblem(f"drawn{seed}", tuple(buffers))


# -- law -------------------------------------------------------------------------------------------


def test_value_by_hand():
    problem = pair()
    verdict = verify_packing(problem, packed(problem, 7, 0))
    assert (verdict.ok, verdict.objective, verdict.value) == (True, "height", 12)
    assert verdict.components == {"peak_load": 12, "waste": 0}
    apart = PackingProblem("apart", (Buffer("a", 0, 2, 5), Buffer("b", 2, 6, 7)), 7)
    assert verify_packing(apart, packed(apart, 0, 0)).value == 7  # lifetimes are half-open


GOOD = packed(pair(), 7, 0)
BROKEN = {
    "overlap": packed(pair(), 6, 0),
    "overlap inside": packed(pair(), 1, 0),
    "range": packed(pair(20), -5, 0),
    "capacity": packed(pair(), 8, 0),
    "identity": replace(GOOD, problem="other"),
    "identity unknown": replace(GOOD, places=(*GOOD.places, Place(Buffer("c", 0, 1, 1), 0))),
    "identity other size": replace(packed(pair(size=4), 7, 0)),
    "assignment": replace(GOOD, places=GOOD.places[:1]),
    "assignment twice": replace(GOOD, places=(*GOOD.places, GOOD.places[0])),
    "assignment no integer": packed(pair(), 7.0, 0),
    "claim": replace(GOOD, value=11),
}


@pytest.mark.parametrize("case", BROKEN)
def test_rule_bites_and_nothing_else(case):
    verdict = verify_packing(pair(), BROKEN[case])
    assert {violation.rule for violation in verdict.violations} == {case.split()[0]}
    assert verify_packing(pair(), GOOD).ok


def test_alignment_bites():
    problem = pair(20, alignment=4)
    rules = [v.rule for v in verify_packing(problem, packed(problem, 7, 0)).violations]
    assert rules == ["alignment"]
    assert verify_packing(problem, packed(problem, 8, 0)).ok


@pytest.mark.parametrize("seed", range(40))
def test_overlaps_are_those_of_all_pairs(seed):
    problem, rng = drawn(seed), random.Random(seed)
    most = max(b.size for b in problem.buffers)
    plan = packed(problem, *(rng.randint(0, 2 * most) for _ in problem.buffers))
    found = verify_packing(problem, plan).violations
    reported = {frozenset(v.subjects) for v in found if v.rule == "overlap"}
    expected = {
        frozenset((a.buffer.name, b.buffer.name))
        for a, b in itertools.combinations(plan.places, 2)
        if a.buffer.lower < b.buffer.upper and b.buffer.lower < a.buffer.upper
        if a.offset < b.offset + b.buffer.size and b.offset < a.offset + a.buffer.size
    }
    assert reported == expected


# -- files -----------------------------------------------------------------------------------------


@pytest.fixture
def example(tmp_path):
    path = tmp_path / "example.12.csv"
    path.write_text(EXAMPLE)
    return path


def test_name_and_capacity_are_in_the_file_name(example, tmp_path):
    kind, problem = read(example)
    assert (kind.name, problem.name, problem.capacity) == ("packing", "example", 12)
    assert problem.buffers[1] == Buffer("b2", 3, 9, 4)
    for name, expected in (("a.b.csv", ("a.b", None)), ("12.csv", ("12", None))):
        other = tmp_path / name
        other.write_text(EXAMPLE)
        problem = read(other)[1]
        assert (problem.name, problem.capacity) == expected


def test_other_columns(example):
    example.write_text("buffer_id,size,start,end,alignment,gaps\nx,4,3,8,16,\n")
    assert read(example)[1].buffers == (Buffer("x", 3, 9, 4, 16),)


def test_written_and_read_again(example, tmp_path):
    kind, problem = read(example)
    (entry,) = kind.formats()
    assert entry.write(problem) == EXAMPLE.encode()
    plan = Packer(problem).fit(FITS[0])
    path = tmp_path / "plan.csv"
    path.write_bytes(packing_text(plan))
    with pytest.raises(InputError, match=r"no known format|plan"):
        read(path)
    assert kind.is_plan(read_document(path))
    assert not kind.is_plan(read_document(example))
    again = kind.read_plan(path, problem, example)
    assert set(again.places) == set(plan.places)
    path.write_text("id,offset\n" + "".join(f"b{i},{4 * i}\n" for i in range(1, 6)))
    assert read_packing(path, problem).places[2] == Place(problem.buffers[2], 12)


def test_all_defects_at_once(example):
    example.write_text("id,lower,upper,size,gaps\na,0,0,1,\na,x,3,0,\nb,0,3,4,1-2\nc,0,2,0,\n")
    with pytest.raises(InputError) as caught:
        read(example)
    places = [finding.where for finding in caught.value.findings]
    assert places == [
        "line 2, upper",
        "line 3, lower",
        "line 3, id",
        "line 4, gaps",
        "line 5, size",
    ]
    assert {finding.file for finding in caught.value.findings} == {str(example)}


@pytest.mark.parametrize(
    ("text", "where", "found"),
    [
        ("id,lower,upper,size\n", "buffers", "none"),
        ("id,lower,upper,size,colour\na,0,1,1,red\n", "line 1", "column 'colour'"),
        ("id,lower,upper,size,size\na,0,1,1,1\n", "line 1", "2 columns 'size'"),
        ("id,lower,upper\na,0,1\n", "line 1", "no column 'size'"),
        ("id,lower,upper,size\na,0,1\n", "line 2", "3 cells"),
        ("id,lower,upper,size\na,0,1,1e3\n", "line 2, size", "'1e3'"),
        ("id,lower,upper,size\na,0,1,2000000000000000000\n", "buffers", "2000000000000000001"),
    ],
)
def test_defect(example, text, where, found):
    example.write_text(text)
    with pytest.raises(InputError) as caught:
        read(example)
    (finding,) = caught.value.findings
    assert finding.where == where
    assert found in finding.found


# -- bounds and planners ---------------------------------------------------------------------------


@pytest.mark.parametrize("alignments", [(1,), (4, 8), (1, 2, 6)])
@pytest.mark.parametrize("seed", range(40))
def test_bound_optimum_plans(seed, alignments):
    problem = drawn(seed, alignments)
    optimum, packer = lowest(problem), Packer(problem)
    bounds = [bound.value for bound in packing_bounds(problem, Budget())]
    assert max(bounds) <= optimum
    for name in FITS:
        verdict = verify_packing(problem, packer.fit(name))
        assert verdict.ok
        assert verdict.value >= optimum
    low, best = 0, None
    for found in packer.search(Budget(), seed, 0, None):
        if isinstance(found, Bound):
            low = max(low, found.value)
            assert low <= optimum
        else:
            verdict = verify_packing(problem, found)
            assert verdict.ok
            best = verdict.value
    assert best == optimum
    assert low == optimum  # nothing was left out: it proves


@pytest.mark.parametrize("by_load", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_any_ranks_prove(seed, by_load):
    """Groups that have ranks of their own leave nothing out."""
    problem = drawn(seed, (1, 2))
    optimum, field = lowest(problem), Packer(problem).field
    rank = np.random.default_rng(seed).permutation(len(problem.buffers))
    grain = Packer(problem).grain
    for top, result in ((optimum // grain - 1, FAILED), (optimum // grain, PACKED)):
        assert Trial(field, rank, top, by_load).go_on(10**6, Budget()) == result


@KNOWN
def test_groups_are_ranked_by_the_loads_that_are_left():
    """With ranks that stay as they were, there was no packing of this one in 3 million nodes."""
    packer = Packer(read(HOME / "I.1048576.csv")[1])
    rank = np.argsort(packer.orders["load"])
    trial = Trial(packer.field, rank, packer.problem.capacity // packer.grain, by_load=True)
    assert trial.go_on(10_000, Budget()) == PACKED
    assert verify_packing(packer.problem, packer.plan(trial.arrays.offset, "search")).ok


def test_alignments_raise_the_bound():
    problem = PackingProblem("aligned", (Buffer("a", 0, 2, 5, 8), Buffer("b", 1, 3, 5, 4)))
    assert fullest_instant(problem).height == 13 == lowest(problem)


@pytest.mark.parametrize("seed", range(10))
def test_better_orders_get_better(seed):
    problem = drawn(seed, (1, 4))
    values = []
    for plan in Packer(problem).better_orders(Budget(20, nodes=1), seed, 0):
        assert verify_packing(problem, plan).ok
        values.append(plan.value)
    assert values == sorted(values, reverse=True)
    assert all(value >= lowest(problem) for value in values)


def crowd(seed, count=30):
    rng, buffers = random.Random(seed), []
    for number in range(count):
        lower = rng.randint(0, 30)
        buffers.append(Buffer(f"b{number}", lower, lower + rng.randint(1, 12), rng.randint(1, 99)))
    return PackingProblem(f"crowd{seed}", tuple(buffers))


def test_orders_of_sizes_near_64_bits_are_annealed():
    """What sticks out is summed over buffers: the sum would not fit into 64 bits."""
    rng = random.Random(1)
    buffers = tuple(replace(b, size=rng.randint(10**15, 10**16)) for b in crowd(1).buffers)
    problem = PackingProblem("large", buffers)
    low = fullest_instant(problem).height
    found = list(Packer(problem).better_orders(Budget(60, nodes=1), 0, low))
    assert found
    assert all(verify_packing(problem, plan).ok for plan in found)
    assert low <= found[-1].value <= 1.1 * low


def test_orders_and_search_find_what_no_fit_does():
    gained = searched = 0
    for seed in range(4):
        problem = crowd(seed)
        packer = Packer(problem)
        fits = min(packer.fit(name).value for name in FITS)
        ordered = [plan.value for plan in packer.better_orders(Budget(60, nodes=1), 0, 0)]
        found = list(packer.search(Budget(60, nodes=200_000), 0, 0, fits))
        heights = [plan.value for plan in found if isinstance(plan, PackingPlan)]
        gained += min(ordered, default=fits) < fits
        searched += min(heights, default=fits) < fits
        low = max((bound.value for bound in found if isinstance(bound, Bound)), default=0)
        assert max(low, fullest_instant(problem).height) <= min([fits, *ordered, *heights])
    assert gained > 0
    assert searched > 0


# -- run -------------------------------------------------------------------------------------------


def test_run_proves(example):
    _, problem = read(example)
    outcome = solve(problem, Settings(time_limit_s=60))
    assert (outcome.value, outcome.bound, outcome.proved) == (12, 12, True)
    assert outcome.measure.text(outcome.value) == "12 B"
    assert not outcome.defects
    assert outcome.record["kind"] == "packing"


def test_six_buffers_are_proved_before_orders_are_improved():
    """It was a twentieth of the time limit, 24 s of processor time for the first of these."""
    problems = [tight_buffers(seed) for seed in (5000, 5002, 5003, 5006)]
    for problem in problems:
        outcome = solve(problem, Settings(time_limit_s=600))
        assert outcome.proved
        assert outcome.bound > fullest_instant(problem).height
        assert "orders" not in outcome.record["phases"]


def test_a_search_ends_with_its_nodes(monkeypatch):
    nodes = []
    go_on = Trial.go_on

    def counted(trial, *words):
        before = trial.nodes
        result = go_on(trial, *words)
        nodes.append(trial.nodes - before)
        return result

    monkeypatch.setattr(Trial, "go_on", counted)
    problem = dissection(0, 120, 60, 640)
    list(Packer(problem).search(Budget(300), 0, problem.capacity, None, 3_000))
    assert sum(nodes) == 3_000


@pytest.mark.parametrize("seed", range(12))
def test_run_is_right_about_every_capacity(seed):
    problem = drawn(seed, (1, 2))
    optimum = lowest(problem)
    for capacity in (optimum, optimum - 1, max(0, fullest_instant(problem).height - 1)):
        limited = replace(problem, capacity=capacity)
        outcome = solve(limited, Settings(time_limit_s=60))
        assert outcome.verdict is None or outcome.verdict.ok
        assert outcome.value == (optimum if capacity >= optimum else None)
        assert outcome.proved == (capacity >= optimum)
        assert (outcome.infeasible_reason is not None) == (capacity < optimum)
        assert not outcome.defects


def test_obstacle_says_when():
    reason = packing_obstacle(pair(11))
    assert reason == (
        "the 2 buffers that are alive at 2 need at least 12 addresses, the capacity is 11"
    )
    assert packing_obstacle(pair()) is None


def test_node_limit_repeats():
    problem = crowd(5)
    plans = [solve(problem, Settings(time_limit_s=300, node_limit=2_000)).plan for _ in range(2)]
    assert plans[0] == plans[1]
    assert plans[0] is not None


def test_every_verb_knows_it(example, tmp_path):
    plan, picture = tmp_path / "plan.csv", tmp_path / "plan.png"
    quiet = ("--record-folder", tmp_path / "records", "--quiet")
    code, stated = command("solve", example, "--plan-output", plan, *quiet)
    assert (code, "12 B, proved optimal" in stated, "buffers    5" in stated) == (0, True, True)
    code, stated = command("solve", example, "--start", plan, *quiet, "--json")
    assert (code, json.loads(stated)["value"]) == (0, 12)
    code, stated = command("check", example, plan, "--json")
    assert (code, json.loads(stated)["value"]) == (0, 12)
    plan.write_text(plan.read_text().replace("b5,0,21,4,0", "b5,0,21,4,1"))
    code, stated = command("check", example, plan)
    assert (code, "both hold the addresses" in stated) == (7, True)
    assert command("plot", example, plan, "--output", picture)[0] == 0
    assert picture.is_file()
    for verb in ("info", "bound"):
        code, stated = command(verb, example, "--json")
        assert (code, json.loads(stated)["kind"]) == (0, "packing")


def test_heuristics_keep_the_capacity(example):
    kind, problem = read(example)
    assert kind.owns(problem)
    assert kind_of(problem) is kind
    planners = kind.heuristics()
    assert set(planners) == set(FITS)
    tight = replace(problem, capacity=11)
    for planner in planners.values():
        assert kind.verify(problem, planner(problem, 0)).ok
        assert planner(tight, 0) is None


@pytest.mark.slow
def test_more_than_the_search_takes():
    buffers = tuple(Buffer(str(i), i, i + 3, 1 + i % 5) for i in range(MAX_BUFFERS + 1))
    problem = PackingProblem("long", buffers)
    outcome = solve(problem, Settings(time_limit_s=300, node_limit=1))
    assert outcome.verdict.ok
    assert not Packer(problem).searchable


def test_picture(tmp_path, example):
    kind, problem = read(example)
    for plan in (Packer(problem).fit(FITS[0]), packed(problem, 0, 0, 0, 0, 99)):
        path = write_figure(kind_of(problem).draw(problem, plan), tmp_path / "plan.png")
        assert path.stat().st_size > 5_000
    assert kind.draw(problem, plan).axes[0].get_title(loc="left") == "example: height 103 B"


def test_capacity_can_be_left_out(example):
    _, limited = read(example)
    _, free = read(example, {"no_capacity": True})
    assert (limited.capacity, free.capacity) == (12, None)
    assert free.buffers == limited.buffers


@pytest.mark.parametrize("seed", range(3))
def test_what_was_cut_apart_is_put_together(seed):
    """No address is ever free: first fits are far off, the search is not."""
    problem = dissection(seed, 40, 24, 64)
    packer = Packer(problem)
    assert min(packer.fit(name).value for name in FITS) > problem.capacity
    found = next(packer.search(Budget(300, nodes=400_000), 0, problem.capacity, None))
    assert isinstance(found, PackingPlan)
    assert verify_packing(problem, found).ok


@KNOWN
@pytest.mark.slow
@pytest.mark.parametrize("name", ["C", "F", "J"])
def test_public_instances_fit(name):
    _, problem = read(HOME / f"{name}.1048576.csv")
    outcome = solve(problem, Settings(time_limit_s=300, gap=0.1))
    assert outcome.verdict.ok
    assert outcome.value <= 1_048_576
