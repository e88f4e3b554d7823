"""Experts on any stages, times, memory and transfers they are defined for."""

from __future__ import annotations

import dataclasses
import random
from itertools import pairwise

import pytest

from milp_plan.check import verify
from milp_plan.core import CommunicationModel, Objective, PlanningProblem
from milp_plan.kinds.pipeline.experts import EXPERTS, WORDS
from milp_plan.kinds.pipeline.experts.channels import with_channels
from milp_plan.kinds.pipeline.experts.lines import layout_of
from milp_plan.kinds.pipeline.placement import place
from milp_plan.kinds.pipeline.reading import read_shop, shop_of
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.template import Stage, Template, pipeline_problem, uniform
from milp_plan.kinds.pipeline.timing import Deadlock, fits, times, value_of

LINE = ("gpipe", "1f1b", "eager_1f1b", "zb_h1", "zb_h2", "zb_1p", "zb_2p", "zb_auto")
SPLIT = ("zb_h1", "zb_h2", "zb_1p", "zb_2p", "zb_auto")


def drawn(rng: random.Random, stages: int, joint: bool, transfers: CommunicationModel) -> Template:
    """Stages that differ, some operators of no length, gradients that take memory."""
    return Template(
        stages=tuple(
            Stage(*(rng.randint(0, 9) for _ in range(6)), parameter_bytes=rng.randint(0, 3))
            for _ in range(stages)
        ),
        micro_batches=rng.randint(1, 9),
        transfer_ticks=rng.randint(0, 6),
        joint_backward=joint,
        transfers=transfers,
    )


def shop(problem: PlanningProblem) -> Shop:
    found = read_shop(problem)
    assert isinstance(found, Shop), found
    return found


@pytest.mark.parametrize("transfers", [CommunicationModel.DELAY, CommunicationModel.CHANNEL])
@pytest.mark.parametrize("seed", range(12))
def test_plans_of_any_line_obey_every_law(transfers: CommunicationModel, seed: int) -> None:
    rng = random.Random(seed)
    devices, joint = rng.randint(1, 6), seed % 3 == 0
    template = drawn(rng, devices, joint, transfers)
    objective = rng.choice([Objective.MAKESPAN, Objective.SPAN])
    problem = pipeline_problem("any", template, place("line", devices), objective=objective)
    for name in LINE:
        plan = EXPERTS[name](problem, seed=seed)
        if joint and name in SPLIT:
            assert plan is None
            continue
        assert plan is not None
        verdict = verify(problem, plan)
        assert verdict.ok, (name, verdict.violations)
        case = shop(problem)
        words = WORDS[name](case)
        assert words is not None
        assert verdict.value == value_of(case, times(case, words))
        assert plan.planner == name


@pytest.mark.parametrize("transfers", [CommunicationModel.DELAY, CommunicationModel.CHANNEL])
@pytest.mark.parametrize("chunks", [2, 3])
@pytest.mark.parametrize("joint", [True, False])
def test_interleaved_plans_obey_every_law(
    transfers: CommunicationModel, chunks: int, joint: bool
) -> None:
    rng = random.Random(chunks)
    for devices in (2, 3, 4):
        template = dataclasses.replace(
            drawn(rng, devices * chunks, joint, transfers), micro_batches=devices * 3
        )
        problem = pipeline_problem("rounds", template, place("interleaved", devices, chunks))
        for name in ("interleaved_1f1b", "gpipe"):
            plan = EXPERTS[name](problem)
            assert plan is not None
            assert verify(problem, plan).ok
        assert all(EXPERTS[name](problem) is None for name in LINE if name != "gpipe")


def test_an_expert_is_silent_where_it_is_not_defined() -> None:
    template, _ = uniform(4, 6, chunks=2)
    for name, family in (("interleaved_1f1b", "v"), ("1f1b", "v"), ("zb_auto", "v")):
        assert EXPERTS[name](pipeline_problem("v", template, place(family, 4))) is None
    odd = pipeline_problem("odd", template, place("interleaved", 4))
    assert EXPERTS["interleaved_1f1b"](odd) is None  # 4 does not divide 6
    single, _ = uniform(4, 6)
    assert EXPERTS["gpipe"](pipeline_problem("two", single, place("dualpipe", 4))) is None
    free = pipeline_problem("free", single, None, devices=4)
    assert all(expert(free) is None for expert in EXPERTS.values())


def test_plans_keep_the_memory_limit_or_are_none() -> None:
    template, activation = uniform(4, 10, (10, 12, 7))
    least = {"1f1b": 4, "zb_h1": 4, "eager_1f1b": 7, "zb_h2": 7, "gpipe": 10, "zb_1p": 4}
    for cap in range(1, 11):
        problem = pipeline_problem("cap", template, place("line", 4), memory_bytes=cap * activation)
        for name, needed in least.items():
            plan = EXPERTS[name](problem)
            assert (plan is not None) == (cap >= needed), name
            assert plan is None or verify(problem, plan).ok


@pytest.mark.parametrize("seed", range(10))
def test_the_greedy_adapts_to_any_limit(seed: int) -> None:
    rng = random.Random(seed)
    stages = tuple(
        Stage(*(rng.randint(1, 9) for _ in range(3)), 2, 3, gradient_bytes=rng.randint(0, 4))
        for _ in range(4)
    )
    template = Template(stages, 8, transfer_ticks=rng.randint(0, 4))
    found = []
    for limit in (4, 10, 20, 25, 30, 40, None):
        problem = pipeline_problem("tight", template, place("line", 4), memory_bytes=limit)
        plan = EXPERTS["zb_auto"](problem)
        found.append(plan is not None)
        assert plan is None or verify(problem, plan).ok
    assert found == [False] + [True] * 6  # 4 bytes do not hold one micro-batch, 10 do


def test_devices_may_have_any_order() -> None:
    template, _ = uniform(3, 5, (2, 3, 1), transfer=1)
    straight = pipeline_problem("straight", template, place("line", 3))
    mixed = pipeline_problem("mixed", template, [(2, 0, 1)], devices=4)
    for name in LINE:
        plans = [EXPERTS[name](problem) for problem in (straight, mixed)]
        assert plans[0] is not None
        assert plans[1] is not None
        verdicts = [
            verify(problem, plan)
            for problem, plan in zip((straight, mixed), plans, strict=True)
            if plan is not None
        ]
        assert verdicts[0].value == verdicts[1].value is not None


@pytest.mark.parametrize(
    ("family", "chunks", "others"),
    [("line", 1, ()), ("interleaved", 2, ()), ("v", 2, ("wave",)), ("dualpipe", 1, ())],
)
def test_families_are_recognised(family: str, chunks: int, others: tuple[str, ...]) -> None:
    template, _ = uniform(4, 6, (1, 2, 3), transfer=1, chunks=chunks)
    for transfers in (CommunicationModel.DELAY, CommunicationModel.CHANNEL):
        case = shop(
            pipeline_problem(
                family, dataclasses.replace(template, transfers=transfers), place(family, 4)
            )
        )
        layout = layout_of(case)
        assert layout is not None
        assert layout is layout_of(case)
        named = ("line", "interleaved", "v", "wave", "dualpipe")
        # with one chunk, one round is a line whatever the family is called
        same = {"line", "interleaved", "wave"} if family == "line" else {family, *others}
        assert {name for name in named if layout.placed(name)} == same
        assert [len(cells) for cells in layout.on_device] == [2 if family != "line" else 1] * 4
        assert layout.split
        assert not layout.joint
        names = [case.kinds[cell.forward].name for cell in layout.cells[0]]
        assert names == [f"F{stage}" for stage in range(len(names))]
        first, second = layout.cells[0][:2]
        assert layout.lags[first.forward, second.forward] == template.transfer_ticks


def test_channels_serve_in_the_order_of_requests() -> None:
    template, _ = uniform(4, 6, (2, 3, 1), transfer=4, chunks=2)
    template = dataclasses.replace(template, transfers=CommunicationModel.CHANNEL)
    case = shop(pipeline_problem("busy", template, place("v", 4)))
    words = WORDS["gpipe"](case)
    assert words is not None
    starts = times(case, words)
    checked = 0
    for machine in range(case.num_devices, len(case.machines)):
        seen = dict.fromkeys(words[machine], 0)
        asked = []
        for kind in words[machine]:
            ((producer, _),) = case.before[kind]
            asked.append(starts[producer][seen[kind]] + case.kinds[producer].duration)
            seen[kind] += 1
        assert all(a <= b for a, b in pairwise(asked))
        checked += len(asked)
    assert checked == 6 * 2 * 6


def test_words_that_wait_for_each_other_are_an_error() -> None:
    template, _ = uniform(2, 2, transfer=1)
    template = dataclasses.replace(template, transfers=CommunicationModel.CHANNEL)
    case = shop(pipeline_problem("circle", template, place("line", 2)))
    words = WORDS["1f1b"](case)
    assert words is not None
    with pytest.raises(Deadlock, match="times"):
        with_channels(case, [word[::-1] for word in words])


def test_every_expert_names_its_source() -> None:
    for name, expert in EXPERTS.items():
        text = expert.__doc__ or ""
        assert "Source" in text or "arXiv" in text, name
        assert WORDS[name].__doc__ == text
    assert set(WORDS) == set(EXPERTS)


def test_words_fit_is_the_planners_test() -> None:
    template, activation = uniform(4, 8)
    problem = pipeline_problem("cap", template, place("line", 4), memory_bytes=3 * activation)
    case = shop_of(problem)
    assert case is not None
    words = WORDS["1f1b"](case)
    assert words is not None
    assert not fits(case, words)
    assert EXPERTS["1f1b"](problem) is None
