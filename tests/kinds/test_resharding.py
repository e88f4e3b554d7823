"""Resharding: law, files, tiles, bounds, planners and the way, against enumeration."""

import csv
from dataclasses import replace

import pytest

from benchmarks.resharding import case_problem
from milp_plan.core import InputError
from milp_plan.core.bound import Bound
from milp_plan.core.budget import Budget
from milp_plan.draw.canvas import write_figure
from milp_plan.kinds.resharding.bounds import receiver_bound, resharding_obstacle, sender_bound
from milp_plan.kinds.resharding.check import verify_resharding
from milp_plan.kinds.resharding.planners import OrderSearch, busiest_first, load_only, randomised
from milp_plan.kinds.resharding.problem import (
    Card,
    Delivery,
    ReshardingPlan,
    ReshardingProblem,
    Slice,
)
from milp_plan.kinds.resharding.tiles import (
    Mesh,
    Tile,
    intersection,
    slices_between,
    tiles,
    volume,
)
from milp_plan.run.kinds import kind_of, read
from milp_plan.run.settings import Settings
from milp_plan.run.solving import solve
from tests.cli.cases import call
from tests.io.samples import store
from tests.support.planted_resharding import planted_resharding
from tests.support.public import PUBLIC, needs_public
from tests.support.resharding import least

CASES = PUBLIC / "resharding" / "cases.csv"
KNOWN = needs_public("resharding")
CARDS = tuple(Card(name, 10**9) for name in "abcd")
SLICES = (Slice("top", 6, ("a", "b"), ("c", "d")), Slice("low", 4, ("a",), ("c",)))
PROBLEM = ReshardingProblem("hand", CARDS, SLICES)
GOOD = (Delivery("top", "b", 0, 6), Delivery("low", "a", 6, 10))


def plan(*deliveries, name="hand", **claims):
    return ReshardingPlan(name, deliveries, **claims)


# -- law -------------------------------------------------------------------------------------------


def test_value_by_hand():
    verdict = verify_resharding(PROBLEM, plan(*GOOD))
    assert (verdict.ok, verdict.objective, verdict.value) == (True, "makespan", 10)
    assert verdict.components == {
        **{"b sends": 6, "c receives": 10, "d receives": 6, "a sends": 4},
    }
    assert verify_resharding(replace(PROBLEM, slices=()), plan()).value == 0


def test_a_card_sends_and_receives_at_once():
    slices = (Slice("x", 5, ("a",), ("b",)), Slice("y", 5, ("b",), ("a",)))
    both = ReshardingProblem("both", CARDS[:2], slices)
    crossing = plan(Delivery("x", "a", 0, 5), Delivery("y", "b", 0, 5), name="both")
    assert verify_resharding(both, crossing).value == 5


BROKEN = {
    "identity": plan(*GOOD, name="other"),
    "assignment missing": plan(GOOD[0]),
    "assignment twice": plan(*GOOD, Delivery("low", "a", 20, 24)),
    "assignment unknown": plan(*GOOD, Delivery("lower", "a", 20, 24)),
    "sender": plan(GOOD[0], Delivery("low", "b", 6, 10)),
    "start": plan(Delivery("top", "b", -1, 5), GOOD[1]),
    "length": plan(GOOD[0], Delivery("low", "a", 6, 11)),
    "exclusion receiver": plan(GOOD[0], Delivery("low", "a", 5, 9)),
    "claim": plan(*GOOD, value=9),
}


@pytest.mark.parametrize("case", BROKEN)
def test_rule_bites_and_nothing_else(case):
    verdict = verify_resharding(PROBLEM, BROKEN[case])
    assert {violation.rule for violation in verdict.violations} == {case.split()[0]}


def test_a_card_sends_one_at_a_time():
    slices = (Slice("x", 5, ("a",), ("c",)), Slice("y", 5, ("a",), ("d",)))
    problem = ReshardingProblem("one", CARDS, slices)
    wrong = plan(Delivery("x", "a", 0, 5), Delivery("y", "a", 4, 9), name="one")
    assert [v.rule for v in verify_resharding(problem, wrong).violations] == ["exclusion"]


def test_a_plan_of_another_problem_is_refused():
    theirs = plan(*GOOD, value=9, fingerprint="another")
    assert [entry.rule for entry in verify_resharding(PROBLEM, theirs).violations] == ["identity"]


# -- problems and tiles ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"cards": ()}, "cards"),
        ({"cards": (*CARDS, CARDS[0])}, "card 'a'"),
        ({"cards": (*CARDS, Card("e", 0))}, "card 'e', bytes per second"),
        ({"slices": (*SLICES, SLICES[0])}, "slice 'top'"),
        ({"slices": (Slice("x", 0, ("a",), ("b",)),)}, "slice 'x', bytes"),
        ({"slices": (Slice("x", 1, ("a",), ()),)}, "slice 'x', receivers"),
        ({"slices": (Slice("x", 1, ("a", "a"), ("b",)),)}, "slice 'x', senders"),
        ({"slices": (Slice("x", 1, ("e",), ("b",)),)}, "slice 'x', senders"),
        ({"slices": (Slice("x", 1, ("b",), ("b",)),)}, "slice 'x', receivers"),
        ({"slices": (Slice("x", 2**60, ("a",), ("b",)), SLICES[0])}, "slices"),
    ],
)
def test_defects(change, where):
    with pytest.raises(InputError) as caught:
        replace(PROBLEM, **change)
    assert where in {finding.where for finding in caught.value.findings}


def test_a_slower_card_holds_all_up():
    cards = (*CARDS[:3], Card("d", 3))
    problem = replace(PROBLEM, cards=cards)
    assert problem.ticks(SLICES[0], "a") == 2 * 10**9
    assert problem.ticks(SLICES[1], "a") == 4
    assert problem.fingerprint != PROBLEM.fingerprint


def test_one_by_one():
    problem = PROBLEM.one_by_one()
    assert [s.name for s in problem.slices] == ["top to c", "top to d", "low"]
    assert (least(PROBLEM), least(problem)) == (10, 10)
    wide = replace(PROBLEM, slices=(Slice("x", 6, ("a",), ("c", "d")),))
    assert (least(wide), least(wide.one_by_one())) == (6, 12)


WORDS = [
    ("R", "R"),
    ("S0", "R"),
    ("S1", "R"),
    ("S01", "R"),
    ("S0", "S1"),
    ("R", "S01"),
    ("S1", "S0"),
]


@pytest.mark.parametrize("before", WORDS)
@pytest.mark.parametrize("after", WORDS)
def test_slices_cover_what_is_missing(before, after):
    shape = (7, 5)
    source = tiles(shape, Mesh(("a", "b"), 2), before, "source")
    target = tiles(shape, Mesh(("b", "c", "d"), 2), after, "target")
    has = {(t.host, p) for t in source for p in _points(t.box)}
    needs = {(t.host, p) for t in target for p in _points(t.box)}
    got = []
    for entry in slices_between(source, target, 3):
        ranges = entry.name[1:-1].split(",")
        box = tuple(tuple(map(int, text.split(":"))) for text in ranges)
        assert entry.size == 3 * volume(box)
        for point in _points(box):
            assert {h for h, p in has if p == point} == set(entry.senders)
            got += [(host, point) for host in entry.receivers]
    assert sorted(got) == sorted(needs - has)


def _points(box):
    (a, b), (c, d) = box
    return [(x, y) for x in range(a, b) for y in range(c, d)]


@pytest.mark.parametrize(
    ("shape", "layout", "devices"),
    [
        ((4, 4), ("S0",), 1),
        ((4,), ("S2",), 1),
        ((4, 4), ("S0", "S01"), 1),
        ((0,), ("R",), 1),
        ((4,), ("R",), 0),
    ],
)
def test_layouts_that_cannot_be(shape, layout, devices):
    with pytest.raises(InputError):
        tiles(shape, Mesh(("a",), devices), layout, "source")


def test_boxes_that_overlap():
    both = [Tile("a", ((0, 3),)), Tile("b", ((2, 4),))]
    with pytest.raises(InputError, match="overlap"):
        list(slices_between(both, both, 1))
    assert intersection(both[0].box, both[1].box) == ((2, 3),)


# -- files -----------------------------------------------------------------------------------------


def test_files_say_the_same_twice(tmp_path):
    kind = kind_of(PROBLEM)
    (native, layouts) = kind.formats()
    path = tmp_path / "hand.json"
    path.write_bytes(native.write(PROBLEM))
    assert read(path)[1] == PROBLEM
    assert read(path, {"one_by_one": True})[1] == PROBLEM.one_by_one()
    stored = tmp_path / "plan.json"
    stored.write_bytes(kind.plan_text(plan(*GOOD, value=10, planner="hand")))
    assert kind.read_plan(stored, PROBLEM, path) == plan(*GOOD, value=10, planner="hand")
    assert layouts.write is None


def _layouts(**changes):
    side = {"hosts": ["a"], "devices_per_host": 2, "layout": ["S1"]}
    head = {"format": "milp-plan-resharding-layouts", "version": 1, "name": "x", "tensor": [4]}
    head |= {"bytes_per_element": 2, "bytes_per_s": 10, "source": side}
    return {**head, "target": {**side, "hosts": ["b"]}, **changes}


def test_layouts_are_cut(tmp_path):
    _, problem = read(store(tmp_path, _layouts(), "x.json"))
    assert [(s.name, s.size, s.senders, s.receivers) for s in problem.slices] == [
        ("[0:2]", 4, ("a",), ("b",)),
        ("[2:4]", 4, ("a",), ("b",)),
    ]
    with pytest.raises(InputError, match="source, layout"):
        read(store(tmp_path, _layouts(tensor=[4, 4]), "x.json"))
    with pytest.raises(InputError, match="tensor"):
        read(store(tmp_path, _layouts(tensor=[0]), "x.json"))


# -- bounds, planners, runs ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(100))
def test_bound_optimum_plans(seed):
    problem, _ = planted_resharding(seed)
    optimum = least(problem)
    assert max(receiver_bound(problem).value, sender_bound(problem).value) <= optimum
    for planner in (load_only, busiest_first, randomised):
        verdict = verify_resharding(problem, planner(problem, seed))
        assert verdict.ok
        assert verdict.value >= optimum
    *better, proof = OrderSearch(problem, None, 0).run(Budget())
    assert isinstance(proof, Bound)
    assert proof.value == optimum
    verdict = verify_resharding(problem, better[-1])
    assert (verdict.ok, verdict.value) == (True, optimum)


def test_many_slices_of_few_senders():
    """Three equal slices on two cards: the mean is one and a half, one card sends two."""
    slices = tuple(Slice(name, 10, ("a", "b"), (name,)) for name in "cde")
    problem = ReshardingProblem("three", tuple(Card(n, 10**9) for n in "abcde"), slices)
    assert (receiver_bound(problem).value, sender_bound(problem).value) == (10, 20)
    assert least(problem) == 20


def test_nobody_has_it():
    lost = replace(PROBLEM, slices=(replace(SLICES[0], senders=()), SLICES[1]))
    assert resharding_obstacle(lost) == "no host has 1 slices of 6 bytes, among them 'top'"
    assert resharding_obstacle(PROBLEM) is None
    assert load_only(lost) is busiest_first(lost) is randomised(lost) is None
    outcome = solve(lost, Settings(time_limit_s=60))
    assert (outcome.value, outcome.infeasible_reason) == (None, resharding_obstacle(lost))


def test_nothing_to_do():
    outcome = solve(replace(PROBLEM, slices=()), Settings(time_limit_s=60))
    assert (outcome.value, outcome.proved) == (0, True)


def test_the_model_goes_on_where_the_search_ends(monkeypatch):
    """Of three hosts each two meet in a slice: none has more than two, yet no two go together."""
    monkeypatch.setattr("milp_plan.kinds.resharding.planners.search.NODES", 1)
    pairs = zip("abc", ("de", "ef", "df"), strict=True)
    slices = tuple(Slice(pair, 10, (name,), tuple(pair)) for name, pair in pairs)
    problem = ReshardingProblem("three", tuple(Card(n, 10**9) for n in "abcdef"), slices)
    assert receiver_bound(problem).value == 20
    outcome = solve(problem, Settings(time_limit_s=120))
    assert (outcome.value, outcome.proved, outcome.defects) == (30, True, ())
    assert outcome.bounds[-1].name == "resharding"


def test_picture(tmp_path):
    for some in (plan(*GOOD), plan(Delivery("low", "nobody", 3, 2))):
        path = write_figure(kind_of(PROBLEM).draw(PROBLEM, some), tmp_path / "plan.png")
        assert path.stat().st_size > 3_000


# -- published cases -------------------------------------------------------------------------------

LOAD_ONLY = {
    "1": 0.5,
    "2": 0.5,
    "3": 0.75,
    "9": 0.75,
    "4": 0.9375,
    "5": 0.75,
    "6": 1,
    "7": 1,
    "8": 1,
}
OPTIMUM = dict.fromkeys("1234569", 0.5) | {"7": 1, "8": 1}


@KNOWN
def test_published_cases():
    """R1: load only, randomised greedy and the optimum, as parts of the whole tensor's time."""
    rows = list(csv.DictReader(CASES.read_text().splitlines()))
    assert len(rows) == 16
    for row in rows:
        problem, whole = case_problem(row)
        found = {
            name: planner(problem, 0).value / whole
            for name, planner in kind_of(problem).heuristics().items()
        }
        outcome = solve(problem, Settings(time_limit_s=10))
        case = row["case"]
        assert outcome.proved, case
        assert outcome.value == whole * OPTIMUM.get(case, 1), case
        assert found["load only"] == LOAD_ONLY.get(case, 1), case
        assert found["randomised greedy"] == OPTIMUM.get(case, 1), case


# -- pipelines -------------------------------------------------------------------------------------


def _pipeline(folder, *more, unit="ms"):
    pieces = folder / "pieces.toml"
    piece = "[[pieces]]\nforward = 1\nbackward = 1\nweight = 1\nheld_to_weight = 1\nrepeat = 2\n"
    pieces.write_text(f'time_unit = "{unit}"\n{piece}')
    words = ("--stages", "2", "--micro-batches", "1", "--joint-backward", "--times", pieces)
    return call("pipeline", *words, "--record-folder", folder / "runs", "--quiet", *more)


def test_a_transfer_of_a_pipeline_is_the_least_time_of_a_change_of_layout(tmp_path):
    rows = (Slice("top", 10**6, ("a", "b"), ("c",)), Slice("low", 10**6, ("a",), ("d",)))
    file = tmp_path / "change.json"
    problem = ReshardingProblem("change", CARDS, rows)
    file.write_bytes(kind_of(problem).formats()[0].write(problem))
    assert solve(problem, Settings(time_limit_s=60)).value == 10**6
    done = _pipeline(tmp_path, "--transfer", file)
    assert done.exit_code == 0, done.stderr
    assert "a transfer takes 1 ms (proved)" in done.stderr
    assert "makespan 8" in done.stdout  # two stages of 3 ms, there and back
    refused = _pipeline(tmp_path, "--transfer", file, unit="days")
    assert refused.exit_code == 3
    assert "times in days" in refused.stderr
    lost = ReshardingProblem("change", CARDS, (replace(rows[0], senders=()), rows[1]))
    file.write_bytes(kind_of(problem).formats()[0].write(lost))
    assert "no host has" in _pipeline(tmp_path, "--transfer", file).stderr
