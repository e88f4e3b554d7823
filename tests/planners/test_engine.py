"""The parts of the scheduling engine, and the cases each of them is there for."""

from itertools import pairwise

import pytest

from milp_plan.check import verify
from milp_plan.core import (
    FULL,
    Channel,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    Device,
    DeviceClass,
    MemoryLaw,
    Objective,
    Operator,
    Option,
    Placement,
    PlanningProblem,
    Value,
)
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.planners import descent, iterated, portfolio
from milp_plan.kinds.schedule.planners.balance import unscheduled
from milp_plan.kinds.schedule.planners.baselines import PLANNERS
from milp_plan.kinds.schedule.planners.dispatch import Rule, dispatch, dispatch_order
from milp_plan.kinds.schedule.planners.earliest import dispatch_earliest
from milp_plan.kinds.schedule.planners.indexed import indexed
from milp_plan.kinds.schedule.planners.portfolio import best_plan
from milp_plan.kinds.schedule.planners.priorities import (
    bottom_levels,
    descendants,
    frugal_order,
)
from milp_plan.kinds.schedule.planners.profile import Busy, Profile


def operator(name, ticks, **more):
    return Operator(name, (Option("run", {"M": ticks}),), **more)


def cluster(count, memory=None, model=CommunicationModel.CHANNEL, joined=True):
    names = [f"d{i}" for i in range(count)]
    return Cluster(
        (DeviceClass("M", memory),),
        tuple(Device(name, "M", memory) for name in names),
        tuple(Channel(a, b, 0, 10**9) for a in names for b in names if a != b and joined),
        communication=model,
    )


def chain(ticks, size, where, **more):
    names = [f"o{i}" for i in range(len(ticks))]
    values = tuple(
        Value(f"v{i}", a, (b,), {FULL: size}) for i, (a, b) in enumerate(pairwise(names))
    )
    operators = tuple(operator(name, t) for name, t in zip(names, ticks, strict=True))
    return PlanningProblem("chain", ComputationGraph(operators, values), where, **more)


def valid(problem, plan):
    assert plan is not None
    verdict = verify(problem, plan)
    assert verdict.violations == ()
    return verdict.value


def test_busy_finds_gaps_and_points_at_boundaries():
    busy = Busy()
    for start, stop in ((0, 4), (10, 12), (6, 8)):
        busy.add(start, stop)
    assert busy.earliest(0, 2) == 4
    assert busy.earliest(0, 3) == 12
    assert busy.earliest(5, 1) == 5
    assert busy.earliest(7, 0) == 8
    assert busy.earliest(6, 0) == 6
    assert busy.last(3) == 12
    busy.add(9, 9)
    assert busy.earliest(8, 2) == 12
    assert busy.earliest(8, 1) == 8
    assert busy.starts == [0, 6, 9, 10]


def test_profile_finds_room_for_a_while_and_for_ever():
    profile = Profile(10)
    profile.add(2, 5, 8)
    profile.add(7, None, 4)
    assert profile.earliest_open(0, 3) == 5
    assert profile.earliest_open(0, 2) == 0
    assert profile.earliest_open(0, 7) is None
    assert profile.earliest_window(0, 2, 9) == 0
    assert profile.earliest_window(0, 3, 9) is None
    assert profile.earliest_window(0, 3, 5) == 5
    assert profile.earliest_window(3, 0, 99) == 3
    assert profile.fits(5, 7, 10)
    assert not profile.fits(5, 8, 10)
    assert profile.top == 8
    assert profile.final == 4
    profile.add(9, None, -4)
    assert profile.earliest_open(0, 7) == 9


def test_operator_waits_until_memory_is_free():
    """Each operator holds 6 of 10 bytes; the second source may start when the first is read."""
    operators = tuple(operator(name, 3) for name in ("a", "b", "x", "y"))
    values = (Value("va", "a", ("x",), {FULL: 6}), Value("vb", "b", ("y",), {FULL: 6}))
    problem = PlanningProblem("wait", ComputationGraph(operators, values), cluster(1, 10))
    here = {name: Placement("run", ("d0",)) for name in "abxy"}
    plan = dispatch(problem, priority=["a", "b", "x", "y"], placements=here)
    assert valid(problem, plan) == 12
    assert dispatch_order(problem, here, ["a", "b", "x", "y"]) is None
    assert dispatch_order(problem, here, ["a", "x", "b", "y"]) == plan


def test_full_device_sends_what_it_holds_to_its_readers():
    """The producer's device has room for one value; its reader elsewhere waits for both."""
    operators = tuple(operator(name, 2) for name in ("a", "b", "x"))
    values = (Value("va", "a", ("x",), {FULL: 4}), Value("vb", "b", ("x",), {FULL: 4}))
    devices = cluster(2).with_memory({"d0": 4, "d1": 100})
    problem = PlanningProblem("push", ComputationGraph(operators, values), devices)
    here = {"a": ("d0",), "b": ("d0",), "x": ("d1",)}
    placements = {name: Placement("run", site) for name, site in here.items()}
    for plan in (
        dispatch_order(problem, placements, ["a", "b", "x"]),
        dispatch(problem, priority=["a", "b", "x"], placements=placements),
    ):
        assert valid(problem, plan) == 2 + 4 + 2 + 4 + 2


def test_operator_of_no_length_frees_what_it_reads_at_once():
    problem = chain([2, 0, 2], 6, cluster(1, 6, joined=False))
    assert valid(problem, PLANNERS["single_device"](problem)) == 4


def test_later_reader_keeps_a_closed_copy():
    """Both readers end up on d1; the copy made for the first is kept for the second."""
    operators = (
        operator("a", 1, group="left"),
        Operator("x", (Option("run", {"M": 2}),)),
        Operator("y", (Option("run", {"M": 2}),)),
        operator("z", 50, group="left"),
    )
    values = (
        Value("v", "a", ("x", "y"), {FULL: 1}),
        Value("u", "x", ("y",), {FULL: 40}),
    )
    problem = PlanningProblem("keep", ComputationGraph(operators, values), cluster(2, 50))
    placements = {"x": Placement("run", ("d1",)), "a": Placement("run", ("d0",))}
    plan = dispatch(problem, priority=["a", "z", "x", "y"], placements=placements)
    assert plan.run("y").devices == ("d1",)
    assert len(plan.transfers) == 1
    assert valid(problem, plan) == 51


def test_torn_group_is_refused():
    problem = PlanningProblem(
        "torn",
        ComputationGraph((operator("a", 1, group="g"), operator("b", 1, group="g"))),
        cluster(2),
    )
    torn = {"a": Placement("run", ("d0",)), "b": Placement("run", ("d1",))}
    assert dispatch(problem, priority=["a", "b"], placements=torn) is None
    assert dispatch_earliest(problem, priority=["a", "b"], placements=torn) is None
    assert dispatch_order(problem, torn, ["a", "b"]) is None


def test_unit_brings_its_weights_at_once():
    """A group's weights do not fit beside the other's, though its first operator has none."""
    operators = (
        operator("a", 1, group="g"),
        operator("b", 1, group="h"),
        operator("a2", 1, group="g"),
        operator("b2", 1, group="h"),
    )
    values = (
        Value("wa", None, ("a2",), {FULL: 6}),
        Value("wb", None, ("b2",), {FULL: 6}),
        Value("va", "a", ("a2",), {FULL: 1}),
        Value("vb", "b", ("b2",), {FULL: 1}),
    )
    problem = PlanningProblem("weights", ComputationGraph(operators, values), cluster(2, 10))
    for name in ("heft", "etf_memory", "contiguous", "balance_load"):
        plan = PLANNERS[name](problem)
        assert valid(problem, plan) == 2, name
    assert PLANNERS["single_device"](problem) is None


def test_choice_keeps_readers_reachable():
    """Only d0 and d1 are joined, and b runs on d0 or d2: on d2 nobody could read from it."""
    devices = Cluster(
        (DeviceClass("A", None), DeviceClass("B", None), DeviceClass("C", None)),
        (Device("d0", "A", None), Device("d1", "B", None), Device("d2", "C", None)),
        (Channel("d0", "d1", 0, 10**9),),
    )
    operators = (
        Operator("b", (Option("run", {"A": 9, "C": 1}),)),
        Operator("r", (Option("run", {"B": 1}),)),
    )
    graph = ComputationGraph(operators, (Value("v", "b", ("r",), {FULL: 1}),))
    problem = PlanningProblem("reach", graph, devices)
    assert valid(problem, PLANNERS["heft"](problem)) == 11


def test_rules_choose_as_they_say():
    devices = Cluster(
        (DeviceClass("A", None), DeviceClass("B", None)),
        (Device("d0", "A", 100), Device("d1", "B", 100)),
        groups=(("d0", "d1"),),
    )
    options = (Option("one", {"A": 9, "B": 4}), Option("two", {"A": 6, "B": 6}, gang=2))
    weight = Value("w", None, ("a",), {FULL: 1})
    graph = ComputationGraph((Operator("a", options),), (weight,))
    problem = PlanningProblem("rules", graph, devices)
    sites = {rule: dispatch(problem, priority=["a"], rule=rule).run("a").devices for rule in Rule}
    assert sites[Rule.FINISH] == ("d1",)
    assert sites[Rule.START] == ("d1",)


def test_priorities_and_orders():
    operators = tuple(operator(name, t) for name, t in (("a", 2), ("b", 3), ("c", 5), ("d", 1)))
    values = (
        Value("ab", "a", ("b",), {FULL: 4}),
        Value("ac", "a", ("c",), {FULL: 2}),
        Value("cd", "c", ("d",), {FULL: 1}),
    )
    problem = PlanningProblem("ranks", ComputationGraph(operators, values), cluster(2))
    assert bottom_levels(problem) == {"a": 11, "b": 3, "c": 7, "d": 1}
    assert bottom_levels(problem, communication=False) == {"a": 8, "b": 3, "c": 6, "d": 1}
    assert descendants(problem) == {"a": 3, "b": 0, "c": 1, "d": 0}
    assert problem.graph.depth_first_order == ("a", "b", "c", "d")
    assert frugal_order(problem) == ("a", "b", "c", "d")


def test_contiguous_cuts_a_chain_whose_weights_fill_the_devices():
    names = [f"o{i}" for i in range(8)]
    operators = tuple(operator(name, 5) for name in names)
    values = tuple(
        Value(f"v{i}", a, (b,), {FULL: 1}) for i, (a, b) in enumerate(pairwise(names))
    ) + tuple(Value(f"w{name}", None, (name,), {FULL: 10}) for name in names)
    problem = PlanningProblem("cut", ComputationGraph(operators, values), cluster(4, 22))
    plan = PLANNERS["contiguous"](problem)
    assert valid(problem, plan) == 43
    assert [plan.run(name).devices[0] for name in names] == [f"d{i // 2}" for i in range(8)]


def test_bottleneck_without_a_clock():
    problem = chain(
        [4, 4, 4, 4],
        1,
        cluster(2, 100),
        objective=Objective.BOTTLENECK,
        memory_law=MemoryLaw.STATIC,
    )
    plan = PLANNERS["balance_load"](problem)
    assert not plan.has_schedule
    assert valid(problem, plan) == 8
    placements = {run.operator: run.placement for run in plan.runs}
    assert unscheduled(problem, placements) == plan
    cut_off = PlanningProblem("cut off", problem.graph, cluster(2, joined=False))
    assert unscheduled(cut_off, placements) is None


def test_bottleneck_on_the_clock_has_a_schedule():
    problem = chain([4, 4, 4, 4], 1, cluster(2, 100), objective=Objective.BOTTLENECK)
    plan = PLANNERS["balance_load"](problem)
    assert plan.has_schedule
    assert valid(problem, plan) == 8


def test_low_peaks_are_squeezed():
    """Two long branches of 5 bytes: one after the other on one device, or one on each."""
    operators = tuple(operator(name, 1) for name in ("a", "x", "b", "y"))
    values = (Value("va", "a", ("x",), {FULL: 5}), Value("vb", "b", ("y",), {FULL: 5}))
    graph = ComputationGraph(operators, values)
    problem = PlanningProblem("peak", graph, cluster(1), objective=Objective.PEAK_MEMORY)
    assert valid(problem, PLANNERS["low_peak"](problem)) == 5
    assert PLANNERS["low_peak"](PlanningProblem("span", graph, cluster(1))) is None


def test_portfolio_reports_what_it_ran():
    problem = chain([1, 2], 3, cluster(2))
    plan, values = best_plan(problem, {"heft": PLANNERS["heft"]})
    assert values == {"heft": 3}
    assert (plan.planner, plan.value, plan.objective) == ("heft", 3, "makespan")
    both = {"heft": PLANNERS["heft"], "list_topological": PLANNERS["list_topological"]}
    hasty, asked = best_plan(problem, both, budget=Budget(0.0))
    assert hasty is not None, "the first one is always asked"
    assert asked == {"heft": 3}


class Looks(Budget):
    """A budget that is over after so many looks at it."""

    def __init__(self, left: int) -> None:
        super().__init__(60.0)
        self.left = left

    @property
    def over(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_iterated_greedy_looks_at_its_budget_before_each_round(rounds, monkeypatch):
    problem = chain([3, 1, 2, 4], 1, cluster(2))
    begun = []
    plain = iterated._round
    monkeypatch.setattr(iterated, "_round", lambda *given: begun.append(1) or plain(*given))
    asked = len(iterated._FIRST) - 1  # it looks before each planner but the first
    plan = iterated.iterated_greedy(problem, budget=Looks(asked + rounds))
    assert valid(problem, plan) >= 1
    assert len(begun) == rounds


def test_iterated_greedy_asks_one_planner_however_late_it_is(monkeypatch):
    problem = chain([3, 1, 2, 4], 1, cluster(2))
    monkeypatch.setattr(iterated, "_round", pytest.fail)
    assert iterated.iterated_greedy(problem, budget=Looks(0)) == PLANNERS["single_device"](problem)


def test_a_descent_tries_nothing_without_time(monkeypatch):
    problem = chain([3, 1, 2, 4], 1, cluster(2))
    start = PLANNERS["single_device"](problem)
    monkeypatch.setattr(descent, "dispatch", pytest.fail)
    assert descent.descended(problem, start, 100, Looks(0)) is start


def test_the_portfolio_hands_its_budget_to_who_goes_on_in_rounds(monkeypatch):
    budget, heard = Budget(60.0), []
    usual = iterated.iterated_greedy
    monkeypatch.setattr(
        portfolio, "iterated_greedy", lambda p, seed, budget: heard.append(budget) or usual(p, seed)
    )
    _, values = best_plan(chain([1, 2], 3, cluster(2)), budget=budget)
    assert heard == [budget]
    assert list(values) == list(PLANNERS)


def test_portfolio_refuses_an_invalid_plan():
    problem = chain([1, 2], 3, cluster(2))

    def liar(problem, seed=0):
        plan = PLANNERS["heft"](problem)
        return type(plan)(plan.problem, plan.runs[:1])

    with pytest.raises(RuntimeError, match="'liar' broke a law"):
        best_plan(problem, {"liar": liar})


def test_impossible_problem_has_no_plan():
    problem = chain([1, 1], 3, cluster(2, 2))
    plan, values = best_plan(problem)
    assert plan is None
    assert set(values.values()) == {None}


def test_every_planner_is_described_in_one_line():
    for name in PLANNERS:
        line = (PLANNERS[name].__doc__ or "").strip().splitlines()[0]
        assert line.endswith((".", ":")), name
        assert "\n" not in line


def test_views_are_made_once_per_problem():
    problems = [chain([1, n], 1, cluster(1)) for n in range(10)]
    views = [indexed(problem) for problem in problems]
    assert all(indexed(p) is known for p, known in zip(problems, views, strict=True))
