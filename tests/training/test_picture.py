"""The picture of an answer: every pass of the replay, memory against its limit, alternatives."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.kinds.training import Configuration, Schedule, api
from milp_plan.kinds.training.costing import PlanCosts
from milp_plan.kinds.training.picture import step_bars
from milp_plan.kinds.training.replay import replay
from tests.cli.cases import call
from tests.support.training import answered

PROBLEM = api.training_problem("llama3-8b", "8xH100", global_batch=16, sequence=2048)


@pytest.mark.parametrize(
    ("schedule", "virtual"),
    [
        *((Schedule.ONE_F_ONE_B, 1), (Schedule.INTERLEAVED, 2), (Schedule.ZB_H1, 1)),
        (Schedule.ZB_V, 2),
    ],
)
def test_bars_are_the_passes_of_the_replay(schedule: Schedule, virtual: int) -> None:
    c = Configuration(
        pipeline=4, data=2, micro_batches=8, virtual=virtual, schedule=schedule, tensor=1
    )
    priced = PlanCosts(PROBLEM).priced(c)
    bars = list(step_bars(c, priced))
    played = replay(c, priced.chunks, priced.lag_ns)
    assert max(start + duration for _, _, start, duration, _ in bars) == played.makespan_ns
    for stage in range(4):
        own = sorted(bar[2:4] for bar in bars if bar[0] == stage)
        assert sum(duration for _, duration in own) == played.busy_ns[stage]
        assert all(a + b <= c for (a, b), (c, _) in pairwise(own))
        later = {late for bar_stage, *_, late in bars if bar_stage == stage}
        assert later == ({0, 1} if virtual > 1 else {0})


def test_the_figure_has_a_limit_a_best_and_alternatives() -> None:
    answer = answered(replace(PROBLEM, fixed={"pipeline": 2, "micro_batch": 1, "data": 4}))
    figure = answer.draw()
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == ["a step", "peak by stage", "alternatives"]
    memory: Any = figure.axes[1]
    assert answer.best is not None
    widths = [0.0, 0.0]
    for patch in memory.patches:
        widths[round(patch.get_y() + 0.42)] += patch.get_width() * 1e9
    assert widths == pytest.approx(answer.best.peaks)
    limit = PROBLEM.limit_bytes(answer.best.configuration, 0) / 1e9
    assert memory.lines[0].get_xdata()[0] == pytest.approx(limit)
    assert len(answer.to_frame()) == len(answer.found.best)
    assert str(answer).startswith("llama3-8b on 8xH100")


def test_long_steps_are_cut_and_nothing_is_drawn_without_a_plan(tmp_path: Path) -> None:
    fixed = {"pipeline": 8, "micro_batch": 1, "schedule": "1f1b"}
    long = api.training_problem("llama3-8b", "8xH100", global_batch=256, sequence=2048, fixed=fixed)
    assert len(answered(long).draw().axes) == 4
    none = answered(api.training_problem("llama3-405b", "8xV100", global_batch=8))
    with pytest.raises(ValueError, match="nothing to draw"):
        none.draw()
    target = tmp_path / "step.png"
    asked = ("train", "llama3-8b", "8xH100", "--global-batch", "8", "--fix", "pp=1")
    assert call(*asked, "--plot", target).exit_code == Exit.DONE
    assert target.read_bytes().startswith(b"\x89PNG")
    assert call(*asked, "--plot", tmp_path / "step.pdf").exit_code != Exit.DONE
