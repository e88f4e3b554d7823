"""All verbs over all kinds of problems: the same members and exit codes, failures included."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema
import pytest

import milp_plan as mp
from milp_plan.cli.exits import Exit
from milp_plan.cli.outputs import Content, content_of
from milp_plan.core.sharding import sharding_problem
from milp_plan.io.schemas import schemas
from milp_plan.kinds.schedule.formats import write
from milp_plan.kinds.sharding.iopddl import to_json
from milp_plan.run import Settings, solve
from milp_plan.run.kinds import kinds, read
from milp_plan.study import driver
from milp_plan.study.rows import COLUMNS
from tests.io.samples import store
from tests.io.test_piper import way
from tests.report.plans import MEMORY, two_devices
from tests.study.cases import InThisProcess

from .cases import call, instance_file

pytestmark = pytest.mark.untraced

ANSWER = jsonschema.Draft202012Validator(json.loads(schemas()["answer.schema.json"]))
"""Made once: ``jsonschema.validate`` would check the schema itself for each answer."""
LIMIT = ("--time-limit", "100", "--quiet", "--record-folder", "runs")
VERBS = ("solve", "check", "explain", "diff", "bound", "info")


@dataclass(frozen=True)
class Sample:
    """A kind of problem: how to write an instance of it, and what is known about it.

    ``never`` are the words that make it infeasible, ``variation`` says the same in a suite where it
    takes more than another file, ``wrong`` is the text of a plan that breaks a law.
    """

    write: Callable[[Path], Path]
    value: int
    never: Callable[[Path], tuple[str | Path, ...]]
    wrong: Callable[[Path], str]
    variation: str = ""


def _schedule(folder: Path) -> Path:
    return instance_file(folder)


def _late(plan: Path) -> str:
    document = json.loads(plan.read_text())
    document["operators"][-1]["start_ns"] += 1
    return json.dumps(document)


def _sharding(folder: Path, limit: int = 5) -> Path:
    problem = sharding_problem(
        "tiny",
        [[9, 1], [9, 1]],
        usages=[[limit - 5, 5], [limit - 5, 5]],
        edges={(0, 1): [[0, 3], [3, None]]},
        limit=5,
    )
    path = folder / f"tiny{limit}.json"
    path.write_bytes(to_json(problem))
    return path


def _hybrid(folder: Path) -> Path:
    amounts = {"memoryUsageA": 10.0, "memoryUsageB": 1.0}
    tensor = {"1": [way(timePerSample=1.0, parameterSize=0.0, **amounts)]}
    nodes = [{"id": i, "name": name, "TMPCs": tensor} for i, name in enumerate("abc")]
    edges = [{"sourceId": i, "destId": i + 1, "communicationCost": 0.0} for i in range(2)]
    document = {"maxDevices": 3, "maxMemoryPerDevice": 100.0, "bandwidth": 1.0, "mbsInBatch": 6}
    return store(folder, document | {"nodes": nodes, "edges": edges}, "three.json")


def _twice(plan: Path) -> str:
    document = json.loads(plan.read_text())
    document["stages"].append(document["stages"][0])
    return json.dumps(document)


def _packing(folder: Path, capacity: int = 12) -> Path:
    path = folder / f"five.{capacity}.csv"
    rows = ("b1,0,3,4", "b2,3,9,4", "b3,0,9,4", "b4,9,21,4", "b5,0,21,4")
    path.write_text("\n".join(["id,lower,upper,size", *rows, ""]))
    return path


def _all_at_the_bottom(plan: Path) -> str:
    head, *rows = plan.read_text().splitlines()
    place = head.split(",").index("offset")
    split = [row.split(",") for row in rows]
    return "\n".join([head, *(",".join([*r[:place], "0", *r[place + 1 :]]) for r in split), ""])


def _rematerialisation(folder: Path, budget: int = 24) -> Path:
    def entry(name: str, *inputs: str) -> dict[str, Any]:
        return {"name": name, "cost_ticks": 7, "bytes": 8, "inputs": inputs}

    rows = [entry("a"), entry("b", "a"), entry("c", "b"), entry("d", "c"), entry("e", "a", "d")]
    head = {"format": "milp-plan-rematerialisation", "version": 1, "name": "five"}
    return store(folder, {**head, "budget_bytes": budget, "operators": rows}, f"five{budget}.json")


def _without_the_last(plan: Path) -> str:
    document = json.loads(plan.read_text())
    return json.dumps({**document, "runs": document["runs"][:-1]})


def _resharding(folder: Path, *senders: str) -> Path:
    """Two hosts have both slices of 7 bytes, two need one each: 7 ns where both send."""

    def entry(name: str, *receivers: str) -> dict[str, Any]:
        return {"name": name, "bytes": 7, "senders": senders, "receivers": receivers}

    cards = [{"name": name, "bytes_per_s": 10**9} for name in ("a", "b", "c", "d")]
    head = {"format": "milp-plan-resharding", "version": 1, "name": "two", "cards": cards}
    rows = [entry("top", "c"), entry("bottom", "d")]
    return store(folder, {**head, "slices": rows}, f"two{len(senders)}.json")


def _by_one_sender(plan: Path) -> str:
    document = json.loads(plan.read_text())
    rows = [{**row, "sender": "a"} for row in document["deliveries"]]
    return json.dumps({**document, "deliveries": rows})


def _jobs(folder: Path, memory: int = 9) -> Path:
    def options(*times: int) -> str:
        reported = [
            f'{{ technique = "ddp", devices = {n}, time = {t}, bytes = 8 }}'
            for n, t in enumerate(times, 1)
        ]
        return f"options = [{', '.join(reported)}]"

    path = folder / f"three{memory}.toml"
    pool = f'[[pools]]\nname = "gpu"\ndevices = 2\nmemory_bytes = {memory}\n'
    jobs = {"a": options(6, 4), "b": options(3), "c": f"release = 1\nepochs = 2\n{options(1)}"}
    reported = [f'[[jobs]]\nname = "{name}"\n{text}\n' for name, text in jobs.items()]
    head = 'format = "milp-plan-jobs"\nversion = 1\nname = "three"\n'
    path.write_text("\n".join([head, pool, *reported]))
    return path


def _all_at_once(plan: Path) -> str:
    document = json.loads(plan.read_text())
    return json.dumps({**document, "runs": [{**r, "start_ticks": 0} for r in document["runs"]]})


def _local_updates(folder: Path, budget: int = 1) -> Path:
    """Three stages and two micro-batches: the first stage may hold one, so it needs a cut."""

    def entry(name: str, **more: int) -> dict[str, Any]:
        return {"name": name, "forward": 1, "backward": 2, "head": 1, **more}

    head = {"format": "milp-plan-local-updates", "version": 1, "name": "line"}
    rows = [entry("a", most=1), entry("b"), entry("c")]
    document = {**head, "micro_batches": 2, "budget": budget, "stages": rows}
    return store(folder, document, f"line{budget}.json")


def _behind_the_last(plan: Path) -> str:
    document = json.loads(plan.read_text())
    return json.dumps({**document, "cuts": [*document["cuts"], "c"]})


def _training(folder: Path, **changed: Any) -> Path:
    """Four blocks on two devices in a pipeline."""
    part = {"hidden": 256, "attention": {"heads": 4, "kv_heads": 4, "head_size": 64}}
    blocks = [{**part, "mlp": {"inner": 512}, "repeats": 4}]
    model = {"name": "tiny", "vocabulary": 128, "sequence": 256, "blocks": blocks}
    rates = {"format": "milp-plan-training-rates", "version": 1}
    document = {
        **{"format": "milp-plan-training", "version": 1, "model": model, "cluster": "2xA100"},
        "rates": {**rates, "software": {"mine": {"devices": {"A100": {}}}}},
        **{"global_batch": 4, "reserve_bytes": 0, "fixed": {"pipeline": 2, "recompute": "none"}},
    }
    return store(folder, document | changed, f"tiny{len(changed)}.json")


def _never_trained(folder: Path) -> tuple[Path]:
    """Whole layers with all they keep do not fit; recomputed or divided, they would."""
    fixed = {"pipeline": 1, "tensor": 1, "zero": 1, "recompute": "none"}
    return (_training(folder, memory_bytes=35_000_000, fixed=fixed),)


def _on_three_ranks(plan: Path) -> str:
    document = json.loads(plan.read_text())
    document["configuration"]["data"] = 3
    return json.dumps(document)


def _serving(folder: Path, **changed: Any) -> Path:
    """Four blocks on two devices, one request."""
    document = json.loads(_training(folder).read_text())
    asked = {"format": "milp-plan-serving", "prompt": 100, "output": 9, "fixed": {"pipeline": 2}}
    del document["global_batch"]
    return store(folder, document | asked | changed, f"served{len(changed)}.json")


def _never_served(folder: Path) -> tuple[Path]:
    """Two replicas do not fit; one on both devices would."""
    return (_serving(folder, memory_bytes=5_000_000, fixed={"tensor": 1, "pipeline": 1}),)


def _on_three_replicas(plan: Path) -> str:
    return plan.read_text().replace('"data": 1', '"data": 3')


SAMPLES = {
    "serving": Sample(_serving, 2_381_124, _never_served, _on_three_replicas),
    "training": Sample(_training, 8_278_253, _never_trained, _on_three_ranks),
    "local-updates": Sample(
        _local_updates, 11, lambda folder: (_local_updates(folder, 0),), _behind_the_last
    ),
    "resharding": Sample(
        lambda folder: _resharding(folder, "a", "b"),
        7,
        lambda folder: (_resharding(folder),),
        _by_one_sender,
    ),
    "jobs": Sample(_jobs, 6, lambda folder: (_jobs(folder, 7),), _all_at_once),
    "rematerialisation": Sample(
        _rematerialisation,
        0,
        lambda folder: (_rematerialisation(folder, 23),),
        _without_the_last,
    ),
    "packing": Sample(_packing, 12, lambda folder: (_packing(folder, 8),), _all_at_the_bottom),
    "schedule": Sample(
        _schedule,
        9_000,
        lambda folder: (_schedule(folder), "--memory-scale", "1/4"),
        _late,
        'memory_scale = "1/4"',
    ),
    "sharding": Sample(_sharding, 13, lambda folder: (_sharding(folder, 11),), lambda _: "[1, 1]"),
    "hybrid": Sample(
        _hybrid,
        6,
        lambda folder: (_hybrid(folder), "--memory", "1B"),
        _twice,
        "changes = { memory = 1 }",
    ),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(*arguments: str | Path) -> dict[str, Any]:
    """Run a verb with ``--json``; its answer is one object that the schema knows."""
    result = call(*arguments, "--json")
    (line,) = result.stdout.splitlines()
    reported: dict[str, Any] = json.loads(line)
    ANSWER.validate(reported)
    assert reported["verb"] == arguments[0]
    assert reported["exit_code"] == result.exit_code, result.stderr
    assert bool(reported["errors"]) == (result.exit_code in (Exit.BAD_INPUT, Exit.USAGE))
    return reported


@cache
def _best_plan(name: str) -> str:
    """Text of the best plan of a sample: solved once."""
    with TemporaryDirectory() as folder:
        instance, plan = SAMPLES[name].write(Path(folder)), Path(folder) / "best.json"
        limit = ("--time-limit", "100", "--quiet", "--record-folder", folder)
        call("solve", instance, *limit, "--plan-output", plan)
        return plan.read_text()


def solved_sample(name: str, here: Path) -> tuple[Path, Path]:
    """Write a sample and its best plan."""
    plan = here / "best.json"
    plan.write_text(_best_plan(name))
    return SAMPLES[name].write(here), plan


def test_every_kind_has_a_sample() -> None:
    assert set(SAMPLES) == {kind.name for kind in kinds()}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_problem_goes_through_all_verbs(name: str, here: Path) -> None:
    sample = SAMPLES[name]
    instance, plan = sample.write(here), here / "best.json"
    solved = answer("solve", instance, *LIMIT, "--plan-output", plan)
    assert solved["kind"] == name
    assert solved["value"] == solved["bound"] == sample.value
    assert solved["proved"]
    assert solved["stop"] == "proved"
    assert solved["verdict"] == "ok"
    assert float(solved["value_in_unit"]) * solved["ticks_per_unit"] == sample.value
    record = json.loads(Path(solved["record_file"]).read_text())
    assert (record["kind"], record["value"]) == (name, sample.value)
    checked = answer("check", instance, plan)
    assert (checked["verdict"], checked["value"]) == ("ok", sample.value)
    assert checked["value_in_unit"] == solved["value_in_unit"]
    explained = answer("explain", instance, plan)
    assert explained["explanation"]
    assert explained["why"]["usage"] or explained["why"]["limits"]
    compared = answer("diff", plan, plan, "--instance", instance)
    assert (compared["change"], compared["moves"]) == (0, [])
    assert compared["before"]["value"] == compared["after"]["value"] == sample.value
    bounded = answer("bound", instance, "--time-limit", "20")
    assert bounded["bound"] is not None
    assert bounded["bound"] <= sample.value
    informed = answer("info", instance)
    assert informed["about"] == solved["about"]
    for verb in VERBS:
        reported = {
            "solve": solved,
            "check": checked,
            "explain": explained,
            "diff": compared,
            "bound": bounded,
        }.get(verb, informed)
        assert reported["objective"] == solved["objective"]
        assert reported["fingerprint"] == solved["fingerprint"]


@pytest.mark.parametrize("name", SAMPLES)
def test_people_read_the_same_of_every_kind(name: str, here: Path) -> None:
    sample = SAMPLES[name]
    instance, plan = sample.write(here), here / "best.json"
    result = call("solve", instance, *LIMIT, "--plan-output", plan)
    assert result.exit_code == Exit.DONE
    head, *facts = result.stdout.splitlines()
    assert head.endswith(", proved optimal")
    labels = [line.split()[0] for line in facts[:8]]
    (size, *_) = answer("info", instance)["about"]
    assert labels == ["scope", "bound", "gap", "check", "planner", "strategy", "stop", size]
    assert ": valid, " in call("check", instance, plan).stdout
    assert call("explain", instance, plan).exit_code == Exit.DONE
    assert " at least " in call("bound", instance, "--time-limit", "20").stdout
    shown = call("info", instance).stdout
    assert name in shown


@pytest.mark.parametrize("name", SAMPLES)
def test_every_answer_names_its_scope(name: str, here: Path) -> None:
    """Proofs and values stand beside what they are about, in one line and as a member."""
    instance, plan = solved_sample(name, here)
    outcome = solve(read(instance)[1], Settings(time_limit_s=100.0))
    scope = str(outcome.scope)
    assert outcome.scope.decided
    assert "\n" not in scope
    assert f" scope  {scope}" in " ".join(str(outcome).split()).replace(" scope ", " scope  ")
    record = json.loads(Path(answer("solve", instance, *LIMIT)["record_file"]).read_text())
    assert record["scope"] == outcome.record["scope"] == scope
    limit = ("--time-limit", "100", "--quiet")
    asked = {
        "solve": (instance, *LIMIT),
        "bound": (instance, *limit),
        "check": (instance, plan),
        "explain": (instance, plan, "--what-if", "usual", *limit),
        "diff": (plan, plan, "--instance", instance),
        "info": (instance,),
    }
    never = SAMPLES[name].never(here)
    for verb, words in asked.items():
        assert answer(verb, *words)["scope"] == scope, verb
        assert scope in " ".join(call(verb, *words).stdout.split()), verb
    for verb, more in (("solve", LIMIT), ("bound", limit), ("explain", limit)):
        reported = answer(verb, *never, *more)
        assert reported["exit_code"] == Exit.INFEASIBLE
        stated = call(verb, *never, *more).stdout.splitlines()
        (place,) = (n for n, line in enumerate(stated) if ": no plan exists: " in line)
        assert stated[place + 1] == f"  scope      {reported['scope']}", verb
    swept = call("sweep", instance, "--memory", "1", *limit, "--store-folder", here / "store")
    assert swept.exit_code in (Exit.DONE, Exit.BAD_INPUT)  # kinds without a limit of memory
    assert swept.exit_code != Exit.DONE or scope in " ".join(swept.stdout.split())


@pytest.mark.parametrize("name", SAMPLES)
def test_infeasible_at_every_door(name: str, here: Path) -> None:
    """Whichever way a problem is asked about: exit 4, and the proof; in Python an outcome."""
    file, *changes = SAMPLES[name].never(here)
    solved = answer("solve", file, *changes, *LIMIT)
    proof = solved["infeasible_because"]
    assert (solved["exit_code"], solved["value"]) == (Exit.INFEASIBLE, None)
    assert solved["infeasibility"]["conflict"]["parts"]
    shown = call("solve", file, *changes, *LIMIT).stdout
    assert ": no plan exists: " in shown
    assert " conflicting set: " in shown
    limit = ("--time-limit", "100", "--quiet")
    for verb in ("bound", "explain"):
        reported = answer(verb, file, *changes, *limit)
        assert reported["exit_code"] == Exit.INFEASIBLE
        assert reported["infeasible_because"]
        assert "no plan exists: " in call(verb, file, *changes, *limit).stdout
    conflict, relaxed = (
        reported["infeasibility"][member] for member in ("conflict", "relaxations")
    )
    assert conflict["smallest"]
    assert not conflict["open"]
    assert all(least["proved_below"] < least["percent"] for least in relaxed)
    assert bool(relaxed) == (name != "resharding")  # has no limits
    assert answer("info", file, *changes)["exit_code"] == Exit.DONE
    asked = {word.removeprefix("--").replace("-", "_"): text for word, text in _pairs(changes)}
    outcome = mp.solve(mp.read(file, **asked), time_limit=100, display=False)
    assert outcome.infeasible_reason == proof
    assert outcome.plan is None
    assert "no plan exists: " in str(outcome)
    assert mp.explain(outcome, time_limit=100).infeasibility is not None
    if name == "schedule":
        _, problem = read(file, {"memory_scale": Fraction(1, 4)})
        tight = here / "tight.json"
        write(problem, tight)
        assert answer("solve", tight, *LIMIT)["infeasible_because"] == proof
        folder = ("--store-folder", here / "store")
        swept = call("sweep", tight, "--memory", "1,2", *limit, *folder)
        assert swept.exit_code == Exit.INFEASIBLE
        assert f"memory 1: no plan exists: {proof}" in swept.stdout
        never = answer("solve", tight, "--start", solved_sample(name, here)[1], *LIMIT)
        assert never["exit_code"] == Exit.INFEASIBLE
        assert never["infeasible_because"] == proof


def _pairs(words: list[Any]) -> list[tuple[str, str]]:
    return [(words[place], words[place + 1]) for place in range(0, len(words), 2)]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_limit_that_is_over_at_once(name: str, here: Path) -> None:
    instance = SAMPLES[name].write(here)
    limit = ("--time-limit", "1e-9", "--quiet", "--record-folder", "runs")
    solved = answer("solve", instance, *limit)
    there = solved["value"] is not None  # what costs next to nothing is tried all the same
    assert solved["exit_code"] == (Exit.DONE if there else Exit.NO_PLAN)
    assert solved["stop"] == ("proved" if solved["proved"] else "time_limit")
    assert (solved["plan_file"] is not None) == there


@pytest.mark.parametrize("name", SAMPLES)
def test_what_if(name: str, here: Path) -> None:
    sample = SAMPLES[name]
    instance, plan = solved_sample(name, here)
    asked = ("--what-if", "usual", "--time-limit", "100", "--quiet")
    reported = answer("explain", instance, plan, *asked)
    assert reported["exit_code"] == Exit.DONE
    assert reported["what_if"]
    for effect in reported["what_if"]:  # more of anything, and a plan to start from: never worse
        assert effect["proved"]
        assert effect["value"] <= sample.value
        assert effect["change"] == effect["value"] - sample.value
    assert "what if (the plan as it is: " in call("explain", instance, plan, *asked).stdout
    for words in ("memory", "memory+much", "devices+x", "link:none", "move:nothing=nowhere"):
        refused = answer("explain", instance, plan, "--what-if", words)
        assert refused["exit_code"] == Exit.BAD_INPUT, words


@pytest.mark.parametrize("name", SAMPLES)
def test_parts_stay_where_they_may_be(name: str, here: Path) -> None:
    instance, plan = solved_sample(name, here)
    kind, problem = read(instance)
    reasons = kind.reasons()
    part = reasons.parts(problem)[0]
    values = []
    for place in reasons.places(problem, part):
        reported = answer("explain", instance, plan, "--move", f"{part}={place}", "--quiet")
        (effect,) = reported["what_if"]
        if effect["value"] is not None:
            assert effect["value"] >= SAMPLES[name].value
            values.append(effect["value"])
    assert bool(values) == ("places" in vars(type(reasons)))  # parts of such kinds can be moved
    assert not values or min(values) == SAMPLES[name].value  # the plan has it in one of them


@pytest.mark.parametrize("name", SAMPLES)
def test_leaving_out_and_lifting_keeps_plans(name: str, here: Path) -> None:
    """What conflicts rest on: a part less, or a limit less, never has a worse best plan."""
    sample = SAMPLES[name]
    kind, problem = read(sample.write(here))
    reasons = kind.reasons()
    resources = reasons.resources(problem)
    lifted = {entry.name: None for entry in resources if entry.lifted}
    assert reasons.resized(problem, {}).fingerprint == problem.fingerprint
    variants = [reasons.resized(problem, lifted)] if lifted else []
    parts = reasons.parts(problem)
    variants += [reasons.keep(problem, set(parts) - {part}) for part in parts]
    for variant in variants:
        outcome = solve(variant, Settings(time_limit_s=100.0))
        assert outcome.value is not None
        assert outcome.value <= sample.value


@pytest.mark.parametrize("name", SAMPLES)
def test_plans_of_variants_are_compared(name: str, here: Path) -> None:
    instance, plan = solved_sample(name, here)
    other = here / "other.json"
    other.write_text(SAMPLES[name].wrong(plan))
    drawn = ("--plot", here / "both.svg")
    reported = answer("diff", plan, plan, "--instance", instance, "--instance", instance, *drawn)
    assert reported["exit_code"] == Exit.DONE
    assert content_of(here / "both.svg") is Content.PICTURE
    kept = Path(answer("solve", instance, *LIMIT)["plan_file"])  # beside its record
    assert answer("diff", kept, kept)["change"] == 0
    assert answer("diff", kept, plan)["exit_code"] == Exit.BAD_INPUT
    broken = answer("diff", plan, other, "--instance", instance)
    assert broken["exit_code"] == Exit.NOT_VALID
    assert (broken["before"]["verdict"], broken["after"]["verdict"]) == ("ok", "violated")
    assert "not valid" in call("diff", plan, other, "--instance", instance).stdout
    another = SAMPLES["packing" if name != "packing" else "jobs"].write(here)
    assert answer("diff", plan, plan, "--instance", another)["exit_code"] == Exit.BAD_INPUT


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("verb", ["check", "explain"])
def test_a_plan_that_breaks_a_law(verb: str, name: str, here: Path) -> None:
    sample = SAMPLES[name]
    instance, plan = solved_sample(name, here)
    plan.write_text(sample.wrong(plan))
    reported = answer(verb, instance, plan)
    assert reported["exit_code"] == Exit.NOT_VALID
    assert reported["verdict"] == "violated"
    assert reported["violations"]
    assert "not valid" in call("check", instance, plan).stdout
    started = answer("solve", instance, "--start", plan, *LIMIT)
    if name in ("rematerialisation", "local-updates"):  # it names too little, or too much
        assert started["exit_code"] == Exit.BAD_INPUT
    else:
        assert (started["exit_code"], started["value"]) == (Exit.DONE, sample.value)
        assert "recomputed" in started["start"] or started["start"].startswith("not used: ")


def _bad_files(folder: Path) -> dict[str, Path]:
    broken, other = folder / "broken.json", folder / "other.json"
    broken.write_text('{"format": "milp-plan-instance"')
    other.write_text('{"something": "else"}')
    return {"missing": folder / "none.json", "broken": broken, "unknown": other}


@pytest.mark.parametrize("bad", ["missing", "broken", "unknown"])
@pytest.mark.parametrize("verb", VERBS)
def test_bad_files(verb: str, bad: str, here: Path) -> None:
    file = _bad_files(here)[bad]
    rest = {
        "solve": LIMIT,
        "check": (file,),
        "explain": (file,),
        "diff": (file, "--instance", file),
    }.get(verb, ())
    reported = answer(verb, file, *rest)
    assert reported["exit_code"] == Exit.BAD_INPUT
    assert reported["kind"] is None
    assert str(file) in reported["errors"][0]


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("verb", ["check", "explain"])
def test_bad_plans(verb: str, name: str, here: Path) -> None:
    instance = SAMPLES[name].write(here)
    for plan in (*_bad_files(here).values(), instance):
        reported = answer(verb, instance, plan)
        assert reported["exit_code"] == Exit.BAD_INPUT, plan
        assert (reported["kind"], reported["verdict"]) == (name, None)


@pytest.mark.parametrize("name", SAMPLES)
def test_changes_of_other_kinds_are_refused(name: str, here: Path) -> None:
    known = {kind.name: {change.option for change in kind.changes} for kind in kinds()}
    shared = known["schedule"] & known["rematerialisation"]
    assert shared == {"--objective", "--host"}
    assert sum(map(len, known.values())) == len(set().union(*known.values())) + len(shared)
    foreign = set().union(*known.values()) - known[name]
    option = "--memory-scale" if "--memory-scale" in foreign else "--devices"
    reported = answer("info", SAMPLES[name].write(here), option, "2")
    assert reported["exit_code"] == Exit.USAGE
    assert option.removeprefix("--").replace("-", "_") in reported["errors"][0]


@pytest.mark.parametrize("name", SAMPLES)
def test_files_are_written(name: str, here: Path) -> None:
    sample = SAMPLES[name]
    instance, plan = solved_sample(name, here)
    copy = here / "again" / instance.name  # some formats keep a number in the name of the file
    copy.parent.mkdir()
    assert call("convert", instance, copy).exit_code == Exit.DONE
    again = answer("info", copy)
    assert again["fingerprint"] == answer("info", instance)["fingerprint"]
    refused = call("convert", instance, here / "third.json", "--format", "nothing")
    assert refused.exit_code == Exit.USAGE
    drawn = call("plot", instance, plan, "-o", here / "plan.svg")
    assert drawn.exit_code == Exit.DONE, drawn.stderr
    assert content_of(here / "plan.svg") is Content.PICTURE
    plan.write_text(sample.wrong(plan))
    assert call("plot", instance, plan, "-o", here / "plan.svg").exit_code in (
        Exit.DONE,
        Exit.BAD_INPUT,
    )


def _suite(folder: Path, sample: Sample) -> Path:
    """An instance as it is, one that is infeasible, no time at all, and two bad files."""
    instance, never = sample.write(folder), sample.never(folder)[0]
    bad = [_bad_files(folder)[name] for name in ("missing", "broken")]
    files = [str(path) for path in dict.fromkeys((instance, never, *bad))]
    never_in = f'name = "never"\n{sample.variation}\nonly = {json.dumps([f"*{Path(never).name}"])}'
    at_once = f'name = "at once"\ntime = 1e-9\nonly = {json.dumps([f"*{instance.name}"])}'
    as_it_is = f'name = "as it is"\nonly = {json.dumps([f"*{instance.name}", "*broken.json"])}'
    variations = [f"[[variations]]\n{text}\n" for text in (as_it_is, never_in, at_once)]
    head = f'title = "All"\nfiles = {json.dumps(files)}\n[limits]\ntime = 100\n'
    path = folder / "all.toml"
    path.write_text(head + "".join(variations))
    return path


@pytest.mark.parametrize("name", SAMPLES)
def test_bench_runs_them_all(name: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name != "schedule":  # processes are the same for every kind, and start for a second each
        monkeypatch.setattr(driver, "Child", InThisProcess)
    sample = SAMPLES[name]
    suite = _suite(here, sample)
    ran = call("bench", "run", suite, "--jobs", "2", "--quiet")
    assert ran.exit_code == Exit.BAD_INPUT, ran.stderr
    assert "none.json: absent" in ran.stderr
    assert "broken.json, as it is: line 1" in ran.stderr
    assert "3 runs: 3 done now, 0 before, 0 failed, 0 left" in ran.stderr
    reported = json.loads(call("bench", "status", suite, "--json").stdout)
    assert (reported["runs"], reported["done"], reported["absent"], reported["bad"]) == (3, 3, 1, 1)
    collected = call("bench", "collect", suite, "-o", here / "all.csv")
    assert collected.exit_code == Exit.BAD_INPUT
    assert "none.json: absent" in collected.stderr
    rows = list(csv.DictReader((here / "all.csv").read_text().splitlines()))
    assert set(COLUMNS) <= set(rows[0])
    found = {row["variation"]: row for row in rows if row["status"] == "done"}
    best, never, at_once = (found[name] for name in ("as it is", "never", "at once"))
    assert {row["kind"] for row in found.values()} == {name}
    assert (best["value"], best["bound"], best["verdict"]) == (str(sample.value),) * 2 + ("ok",)
    assert (best["proved"], best["stop"]) == ("True", "proved")
    assert float(best["value_float"]) * int(best["time_scale"]) == sample.value
    assert never["infeasible_because"]
    assert never["value"] == at_once["infeasible_because"] == ""
    there = at_once["value"] != ""
    assert at_once["verdict"] == ("ok" if there else "no plan")


def test_the_limit_of_the_sample_is_its_memory() -> None:
    assert two_devices().cluster.devices[0].memory_bytes == MEMORY
