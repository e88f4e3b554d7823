"""Loops that a run meets uncompiled are compiled by other processes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numba
import pytest

from milp_plan.core import (
    FULL,
    ComputationGraph,
    Contiguity,
    Device,
    DeviceClass,
    InputError,
    Option,
    PlanningProblem,
    SerialLaw,
)
from milp_plan.core import compiled as compiled_module
from milp_plan.core.budget import OutOfTime, now
from milp_plan.core.compiled import Loop, compiled, interpreted, interpreting, kept
from milp_plan.core.sharding import sharding_problem
from milp_plan.io import native
from milp_plan.kinds.hybrid.loops import HYBRID, _layers
from milp_plan.kinds.packing.loops import PACKING
from milp_plan.kinds.packing.problem import Buffer, PackingProblem
from milp_plan.kinds.placement.planted import PAYER, ladder
from milp_plan.kinds.schedule.bounds.catalogue import all_bounds
from milp_plan.kinds.schedule.loops import ENUMERATION, LIST_SCHEDULES, MOVES, WINDOWS
from milp_plan.kinds.sharding.loops import SHARDING, SHARDING_SEARCH
from milp_plan.run import Settings, compiling, solve
from milp_plan.run import loop_parts as loop_parts_module
from milp_plan.run.compiling import Compiling, begin, compile_in_background
from milp_plan.run.kinds import kinds, read
from milp_plan.run.loop_parts import LoopPart
from milp_plan.run.loops import loop_parts
from tests.core.builders import cluster, operator, value

pytestmark = pytest.mark.untraced

INSTANCES = Path(__file__).parents[2] / "instances"

HERE = "tests.run.test_compiling"


@compiled
def never_called(number: int) -> int:
    """Return the number."""
    return number


def test_a_loop_is_kept_once_it_was_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    loop = compiled(never_called.py_func)  # type: ignore[attr-defined]
    monkeypatch.setattr(import_module(HERE), "never_called", loop)
    assert not kept(f"{HERE}:never_called")
    assert loop(7) == 7
    assert kept(f"{HERE}:never_called")


def test_a_loop_is_compiled_again_where_one_that_it_calls_has_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    head = "from milp_plan.core.compiled import compiled\n"
    caller = f"{head}from callee import one\n@compiled\ndef two(n):\n    return 2 * one(n)\n"
    (tmp_path / "caller.py").write_text(caller)
    for step in (1, 10):
        callee = f"{head}@compiled\ndef one(n):\n    return n + {step}\n"
        (tmp_path / "callee.py").write_text(callee)
        for name in ("caller", "callee"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        compiled_module.hash_of.cache_clear()
        assert not kept("caller:two")
        assert import_module("caller").two(7) == 2 * (7 + step)
        assert kept("caller:two")


class Renamed(NamedTuple):
    """What an older release called otherwise."""

    number: int


class Named(NamedTuple):
    """What it is called now."""

    number: int


@compiled
def number_of(item: Named) -> int:
    """Return the number."""
    return item.number


def test_loops_of_a_type_that_has_another_name_now_are_compiled_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    here = import_module(HERE)
    assert compiled(number_of.py_func)(Renamed(7)) == 7  # type: ignore[attr-defined]
    monkeypatch.delattr(here, "Renamed")
    loop = compiled(number_of.py_func)  # type: ignore[attr-defined]
    monkeypatch.setattr(here, "number_of", loop)
    assert not kept(f"{HERE}:number_of")
    assert loop(Named(8)) == 8
    assert kept(f"{HERE}:number_of")


def test_loops_next_to_their_sources_are_found_without_numba() -> None:
    look = (
        "import sys, milp_plan.kinds.sharding.strategy; from milp_plan.core.compiled import kept; "
        f"print(kept({SHARDING_SEARCH.last!r}), 'numba' in sys.modules)"
    )
    if not SHARDING_SEARCH.on_disk:
        pytest.skip("this loop is not compiled here: make install")
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_every_part_that_a_way_waits_for_has_a_loop() -> None:
    lasts = [part.last for part in loop_parts() if part.last]
    assert lasts
    for where, _, name in (last.partition(":") for last in lasts):
        assert isinstance(getattr(import_module(where), name), Loop)


@pytest.mark.slow
@pytest.mark.parametrize("part", [part for part in loop_parts() if part.last])
def test_compiling_a_part_keeps_its_loop(part: LoopPart, tmp_path: Path) -> None:
    code = (
        "from milp_plan.core.compiled import kept; from milp_plan.run.loop_parts import call; "
        f"assert not kept({part.last!r}); call({part.function!r}); assert kept({part.last!r})"
    )
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_nothing_is_started_where_loops_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_parts_module, "kept", lambda _: True)
    with Compiling([SHARDING_SEARCH]) as idle:
        assert not idle.parts
        assert not idle.at_work([SHARDING_SEARCH])
        idle.wait([SHARDING_SEARCH], 60.0)


def test_processes_end_by_themselves_or_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_parts_module, "kept", lambda _: False)
    missing = LoopPart("no such part", "milp_plan:none", "loop")
    begun: list[subprocess.Popen[bytes]] = []
    begin = compiling._start_process

    def noted(part: LoopPart) -> subprocess.Popen[bytes]:
        begun.append(begin(part))
        return begun[-1]

    monkeypatch.setattr(compiling, "_start_process", noted)
    with Compiling([missing, SHARDING_SEARCH]) as beside:
        assert beside.at_work([missing])
        beside.wait([missing], 60.0)
        assert not beside.at_work([missing])
        assert beside.at_work([SHARDING_SEARCH])
    assert begun
    assert all(process.returncode is not None for process in begun)
    assert not beside.at_work(beside.parts)


def test_what_was_begun_while_reading_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "Compiling", Uncompiled)
    begin((SHARDING, SHARDING_SEARCH))
    begun = compile_in_background((SHARDING,))
    assert begun.parts == (SHARDING, SHARDING_SEARCH)
    assert compile_in_background((SHARDING,)) is not begun
    begin((SHARDING,))
    assert compile_in_background((SHARDING_SEARCH,)).parts == (
        SHARDING_SEARCH,
    )  # not named: begun anew
    begin((SHARDING,))
    assert compile_in_background(()).parts == ()  # a repeatable run compiles nothing beside


def test_a_kind_is_known_before_its_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "broken.json"
    file.write_text('{"problem": 7}')
    reported: list[str] = []
    with pytest.raises(InputError):
        read(file, on_kind=lambda kind: reported.append(kind.name))
    assert reported == ["sharding"]


def test_loops_that_a_kind_begins_with_are_parts() -> None:
    assert {part for kind in kinds() for part in kind.loops} <= set(loop_parts())


@pytest.mark.slow
def test_a_sharding_search_needs_no_loop_of_other_parts(tmp_path: Path) -> None:
    code = """
from pathlib import Path
from milp_plan.kinds.sharding.coarsen.reading import labelling_of
from milp_plan.kinds.sharding.planners.anytime import search
from milp_plan.kinds.sharding.planners.branching import Tree
from milp_plan.kinds.sharding import loops
for part in loops.PARTS:
    part.compile()
kept = set(Path("KEPT").rglob("*.nbc"))
labelling = labelling_of(loops._shards(30, 1))
search(labelling, 1.0, gap=0.0, workers=1)
tree = Tree(labelling, lambda: None, lambda _: None, 0)
for _ in range(5):
    if tree:
        tree.step()
assert kept and set(Path("KEPT").rglob("*.nbc")) == kept
""".replace("KEPT", str(tmp_path))
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


class Uncompiled(Compiling):
    """Loops that are never done: those of the first part that a run names."""

    def __init__(self, parts: Iterable[LoopPart], *, compile_at_low_priority: bool = False) -> None:
        super().__init__((), compile_at_low_priority=compile_at_low_priority)
        self.parts = tuple(dict.fromkeys(parts))


def buffers() -> PackingProblem:
    """Three buffers, of which two are alive together."""
    lives = ((0, 2), (1, 4), (3, 5))
    return PackingProblem(
        "buffers", tuple(Buffer(f"b{i}", *life, 3 + i, 2) for i, life in enumerate(lives))
    )


def problems() -> Iterator[Any]:
    """One of each kind whose first plan has no loop."""
    usages = [[3, 1], [2, 1], [2, 2]]
    costs: list[list[int | None]] = [[1, 5], [2, 4], [3, 3]]
    edges: dict[tuple[int, int], list[list[int | None]]] = {(0, 1): [[0, None], [2, 1]]}
    yield sharding_problem("tiny", costs, usages=usages, edges=edges, limit=6)
    yield ladder(SerialLaw((PAYER,)))
    yield ladder(SerialLaw((PAYER,), Contiguity.CHAIN))
    yield ladder(SerialLaw((PAYER,), calls=1))


@pytest.mark.parametrize("problem", tuple(problems()), ids=lambda problem: type(problem).__name__)
def test_a_plan_is_there_while_loops_are_compiled(
    problem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "Compiling", Uncompiled)
    stated: list[str] = []
    outcome = solve(problem, Settings(time_limit_s=20), lambda news: stated.append(news.phase))
    assert "first plan" in outcome.record["phases"]
    assert outcome.record["compiled_meanwhile"]
    assert any(point["phase"] == "first plan" for point in outcome.record["trace"])
    assert compiling.COMPILING_MESSAGE in stated
    again = solve(problem, Settings(time_limit_s=20, node_limit=1))
    assert "compiled_meanwhile" not in again.record  # the same on every machine


@pytest.mark.parametrize(("problem", "part"), [(buffers(), PACKING), (_layers(), HYBRID)])
def test_a_first_plan_is_made_as_python_while_loops_are_compiled(
    problem: Any, part: LoopPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[bool] = []

    def note(_news: Any) -> None:
        ran.append(interpreting())

    monkeypatch.setattr(compiling, "Compiling", Uncompiled)
    outcome = solve(problem, Settings(time_limit_s=20), on_incumbent=note)
    assert outcome.record["compiled_meanwhile"] == [part.name]
    assert outcome.plan is not None
    assert ran[0], "the first plan was not made by Python"


def test_a_part_that_needs_another_one_begins_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes would compile the same loops."""
    begun: list[LoopPart] = []
    left = {LIST_SCHEDULES: 2, MOVES: 1, ENUMERATION: 0}

    class Process:
        def __init__(self, part: LoopPart) -> None:
            begun.append(part)
            self.part = part

        def poll(self) -> int | None:
            left[self.part] -= 1
            return None if left[self.part] >= 0 else 0

    monkeypatch.setattr(loop_parts_module, "kept", lambda _: False)
    monkeypatch.setattr(compiling, "_start_process", Process)
    monkeypatch.setattr(compiling, "end", lambda _: 0)
    monkeypatch.setattr(compiling.os, "cpu_count", lambda: 4)
    with Compiling((ENUMERATION, LIST_SCHEDULES, MOVES)) as beside:
        beside.wait(beside.parts, 60.0)
    assert begun == [LIST_SCHEDULES, MOVES, ENUMERATION]


def test_no_step_needs_a_loop_until_there_are_plans_of_many_operators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from milp_plan.kinds.schedule.kind import KIND
    from milp_plan.kinds.schedule.strategies import schedule
    from milp_plan.run.ledger import Ledger

    _, problem = read(INSTANCES / "transformer-4xA100.json.gz")
    monkeypatch.setattr(loop_parts_module, "kept", lambda _: False)
    steps = tuple(schedule.ScheduleStrategy(Ledger(KIND, problem, Settings())).steps())
    free = [step.name for step in takewhile(lambda step: not step.loops, steps)]
    assert {"first plan", "constructions", "bounds, first", "baselines"} <= set(free)
    waiting = [(step.name, step.loops) for step in steps if step.loops]
    assert waiting[0] == ("windows, while loops compile", (WINDOWS,))
    assert waiting[1] == ("annealing", (LIST_SCHEDULES, MOVES))


COLD = """
import json, sys
from milp_plan.run import Settings, solve
from milp_plan.run.kinds import read
outcome = solve(read(sys.argv[1])[1], Settings(time_limit_s=120, formulation=sys.argv[2]))
events = [[point["phase"], point["incumbent"]] for point in outcome.record["trace"]]
print(json.dumps([outcome.proved, outcome.record, events, "numba" in sys.modules]))
"""


@pytest.mark.parametrize(
    ("formulation", "by"), [("auto", "clause learning"), ("operator_schedule", "operator_schedule")]
)
def test_a_process_without_compiled_loops_proves_a_dozen_operators_without_any(
    formulation: str, by: str, tmp_path: Path
) -> None:
    """It took ten seconds to compile a bound; Python or the model prove in less than two."""
    file, cache = tmp_path / "dozen.json", tmp_path / "cache"
    file.write_bytes(native.to_json(dozen()))
    cache.mkdir()
    environment = {"NUMBA_CACHE_DIR": str(cache), "PATH": "", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", COLD, str(file), formulation],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    proved, record, events, loaded = json.loads(done.stdout)
    assert proved
    assert record["bound_name"] == by
    assert record["compiled_meanwhile"]
    assert not loaded, "this process itself compiled or loaded a loop"
    assert "compiling" not in record["phases"], "it waited for a loop"
    phases = [phase for phase, _ in events]
    first = next(number for number, (_, incumbent) in enumerate(events) if incumbent is not None)
    assert phases[first] == "first plan"
    assert first < phases.index("bounds")


def dozen(seed: int = 5) -> PlanningProblem:
    """Twelve operators on two devices whose best value is above all combinatorial bounds."""
    rng = random.Random(seed)
    operators = [
        operator(f"o{i}", Option("o", {"c": rng.randint(10**6, 10**7)})) for i in range(12)
    ]
    values = [
        value(
            f"v{i}",
            f"o{i}",
            " ".join(f"o{reader}" for reader in sorted(rng.sample(range(i + 1, 12), 2))),
            bytes={FULL: rng.randint(10**5, 10**6)},
        )
        for i in range(9)
    ]
    roomy = cluster(
        device_classes=(DeviceClass("c", 10**9),),
        devices=(Device("d0", "c", 10**9), Device("d1", "c", 10**9)),
    )
    return PlanningProblem("dozen", ComputationGraph(tuple(operators), tuple(values)), roomy)


def test_loops_that_are_not_loaded_run_as_python_where_that_is_asked() -> None:
    loop = compiled(never_called.py_func)  # type: ignore[attr-defined]
    with interpreted():
        assert loop(7) == 7
        assert loop._made is None  # type: ignore[attr-defined]
    assert loop(7) == 7
    assert loop._made is not None  # type: ignore[attr-defined]


def test_loops_that_run_as_python_end_when_their_time_is_over() -> None:
    loop = compiled(never_called.py_func)  # type: ignore[attr-defined]
    with interpreted(now() + 3600.0), interpreted():
        assert loop(3) == 3
    with interpreted(now()), interpreted(), pytest.raises(OutOfTime):
        loop(3)


BRIEF = """
from milp_plan.core.budget import Budget
from milp_plan.kinds.schedule.kind import KIND
from milp_plan.kinds.schedule.strategies import small_schedule
from milp_plan.run import Settings
from milp_plan.run.kinds import read
from milp_plan.run.ledger import Ledger

_, problem = read("instances/gpt-tiny-training-2xA100.json")
search = small_schedule.SmallSearch(Ledger(KIND, problem, Settings()))
assert search.learns
search.begin = lambda: search.learn(Budget())  # looks at no clock
small_schedule.BEGIN_S = 0.0
search.begin_interpreted()
assert search.ledger.lower is None
small_schedule.BEGIN_S = 600.0
search.begin_interpreted()
assert search.ledger.lower is not None
"""


def test_a_search_as_python_ends_inside_its_loops() -> None:
    """Between two looks at the clock a search of 120 operators took a minute as Python."""
    subprocess.run([sys.executable, "-c", BRIEF], check=True, cwd=INSTANCES.parent)


def test_bounds_of_few_operators_are_the_same_as_python() -> None:
    for seed in range(4):
        with interpreted():
            slowly = tuple(all_bounds(dozen(seed)))
        assert slowly == tuple(all_bounds(dozen(seed)))


def test_bounds_of_a_small_schedule_come_before_its_model_while_loops_are_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They prove it in a tenth of a second; the model takes a second to load alone."""

    _, problem = read(INSTANCES / "moe-tiny-inference-4xA100.json")
    monkeypatch.setattr(loop_parts_module, "kept", lambda _: False)
    outcome = solve(problem, Settings(time_limit_s=60))
    assert outcome.proved
    assert "build" not in outcome.record["phases"]


def test_every_plan_of_a_tiny_schedule_is_looked_at_before_its_model_while_loops_are_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The model took all of the time and left a gap; looking at every plan takes 0.4 s."""
    from tests.support.anything import timeless_case

    monkeypatch.setattr(loop_parts_module, "kept", lambda _: False)
    outcome = solve(timeless_case(107), Settings(time_limit_s=60))
    assert (outcome.value, outcome.bound) == (10, 10)
    assert "build" not in outcome.record["phases"]
