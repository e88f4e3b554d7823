"""``import milp_plan as mp``: verbs and nouns, for every kind of problem."""

from __future__ import annotations

import re
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import milp_plan
from tests.run.cases import REPOSITORY, trap
from tests.support.hybrid import chain
from tests.support.planted_sharding import planted_sharding

from .kinds import PROBLEMS as EVERY

mp: Any = milp_plan

PROBLEMS = {
    "schedule": trap("gang-beats-single").problem,
    "sharding": planted_sharding(0)[0],
    "hybrid": chain(3, 2, 2),
}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_verbs_know_every_kind(kind: str, tmp_path: Path) -> None:
    problem = PROBLEMS[kind]
    heard: list[Any] = []
    outcome = mp.solve(problem, on_progress=heard.append, time_limit=20.0)
    assert outcome.plan is not None
    assert heard
    verdict = mp.check(problem, outcome.plan)
    assert verdict.ok
    assert verdict.value == outcome.value
    assert mp.bound(problem, time_limit=20.0).value <= outcome.value
    if kind != "hybrid":  # Piper's files are only read
        mp.write(problem, tmp_path / "problem.json")
        again = mp.read(tmp_path / "problem.json")
        assert mp.solve(again, time_limit=20.0).value == outcome.value


def test_files_are_asked_in_the_words_of_the_command_line(tmp_path: Path) -> None:
    path = REPOSITORY / "instances" / "gpt-tiny-training-2xA100.json"
    exact = mp.read(path, memory_scale="4/5", recompute=True, host="1GiB@25GB/s")
    assert exact.cluster.hosts == {"host"}
    limits = {d.memory_bytes for d in exact.cluster.devices}
    for scale in (0.8, np.float64(0.8), Decimal("0.8"), Fraction(4, 5)):
        again = mp.read(path, memory_scale=scale, recompute=np.True_, host="1GiB@25GB/s")
        assert {d.memory_bytes for d in again.cluster.devices} == limits
    for wrong, words in (
        ({"memory_scale": "x"}, "read, memory_scale: found 'x'"),
        ({"recompute": "yes"}, "read, recompute: found 'yes', expected True or False"),
        ({"objectve": "span"}, "did you mean 'objective'"),
        ({"devices": 3}, "devices: found an option of hybrid problems"),
    ):
        with pytest.raises(mp.InputError, match=words):
            mp.read(path, **wrong)


def test_plans_are_written_and_read(tmp_path: Path) -> None:
    for kind, problem in EVERY.items():
        plan = mp.solve(problem, time_limit=20.0).plan
        mp.write(plan, tmp_path / f"{kind}.plan")
        again = mp.read_plan(tmp_path / f"{kind}.plan", problem)
        assert mp.check(problem, again).value == plan.value
        assert str(again.to_frame()) == str(plan.to_frame())
    with pytest.raises(milp_plan.InputError):
        mp.read_plan(REPOSITORY / "README.md", PROBLEMS["schedule"])


def test_a_plan_is_drawn(tmp_path: Path) -> None:
    problem = PROBLEMS["schedule"]
    figure = mp.draw(problem, mp.solve(problem).plan, tmp_path / "plan.png")
    assert figure.axes
    assert (tmp_path / "plan.png").stat().st_size > 1000


def test_rooms_are_modules_as_well() -> None:
    from milp_plan import check
    from milp_plan.check import verify
    from milp_plan.draw import figures

    assert check.verify is verify
    assert figures.panels_figure is not None


def test_every_name_is_there_and_nothing_heavy_is_loaded_for_it() -> None:
    for name in mp.__all__:
        assert getattr(mp, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mp.nothing
    code = "import sys, milp_plan; print(*sorted({'pyomo', 'highspy', 'numba'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_scripts_of_the_readme_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.S)
    (tmp_path / "instances").symlink_to(REPOSITORY / "instances")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(blocks[0], names)
    assert capsys.readouterr().out.startswith("diamond: makespan 12.005 ms, proved optimal\n")
    assert (tmp_path / "diamond.png").stat().st_size > 1000
    exec(blocks[1], names)
    shown = capsys.readouterr().out
    assert "584614 584614 0.0 proved\n" in shown
    assert "\nTrue " in shown
    exec(blocks[2], names)
    assert capsys.readouterr().out.startswith("gpt-tiny-training-2xA100: makespan ")
    assert len(blocks) == 3


def test_the_example_is_the_script_of_the_readme() -> None:
    block = re.findall(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.S)[0]
    script = (REPOSITORY / "examples" / "diamond.py").read_text()
    _, _, body = script.partition("import milp_plan")
    assert body == block.partition("import milp_plan")[2].replace(
        "  # diamond: makespan 12.005 ms, proved optimal ...", ""
    )
    statements = [line for line in body.splitlines()[1:] if line]
    assert len(statements) <= 10
