"""Good files of every format that a command reads, and the commands that read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from milp_plan.cli.exits import Exit
from milp_plan.run.kinds import kinds

from .cases import INSTANCES, REPOSITORY, call
from .fuzzing import Command, Victim
from .test_kinds import LIMIT, SAMPLES

BRIEF = ("--time-limit", "0.3", "--node-limit", "5", "--threads", "1", "--quiet")
STEP = ("--stages", "2", "--micro-batches", "2")
RECORDS = ("--record-folder", "{folder}/runs")
PICTURE = ("--output", "{folder}/picture.svg")
MODELS = REPOSITORY / "examples" / "migrate"
CLUSTER = REPOSITORY / "examples" / "cluster"
PIECES = """\
time_unit = "ms"
transfer = 1
[[pieces]]
forward = 1
backward = 1
weight = 1
held_to_weight = 1
repeat = 3
[[pieces]]
forward = 4
backward = 4
weight = 1
held_to_weight = 2
"""
SUITE = """\
title = "Two sends"
about = "With all that a suite may say."
files = ["{}"]
seeds = [0, 1]
[limits]
time = 60
threads = 2
gap = 0.5
[[variations]]
name = "as it is"
[[variations]]
name = "twice"
objective = "span"
memory_scale = "2"
only = ["*two*"]
[[planners]]
name = "ours"
[[planners]]
name = "one device"
planner = "single_device"
variations = ["twice"]
"""


def victims(folder: Path) -> Iterator[Victim]:
    """Yield a file of each format that a command reads, made in a folder."""
    for kind in SAMPLES:
        home = folder / kind
        home.mkdir()
        yield from _of_kind(kind, home)
    yield from _pipeline_files(folder)
    yield from _cluster_files(folder)
    before, after = MODELS / "four-hosts.json", MODELS / "three-left.json"
    yield Victim("degrees-before", before, (("migrate", "{}", after, "--time-limit", "0.3"),))
    yield Victim("degrees-after", after, (("migrate", before, "{}", "--time-limit", "0.3"),))
    for path in sorted((INSTANCES / "captures").iterdir()):
        if path.is_file() and path.stat().st_size < 50_000:
            made = ("capture", "{}", "2xA100", "--output", folder / "made.json")
            yield Victim("capture", path, (made,))
            break
    for page in ("recipe.toml", "spec.toml", "study.toml"):
        path = next(iter(sorted((REPOSITORY / "results").rglob(page))))
        yield Victim(page, path, (("table", "{folder}", "--render", "--store", folder / "store"),))
    suite = folder / "suite.toml"
    suite.write_text(SUITE.format(INSTANCES / "two-sends-one-port.json"))
    rows = ("--store", folder / "store", "--output", "{folder}/rows")
    yield Victim("suite", suite, (("bench", "collect", "{}", *rows),))


def _cluster_files(folder: Path) -> Iterator[Victim]:
    """A cluster, and measured times of its links."""
    racks, words = CLUSTER / "two-racks.toml", ("--mode", "inference", "-o", folder / "made.json")
    made = ("generate", "gpt-tiny", "{}", *words)
    yield Victim("cluster", racks, (("cluster", "show", "{}"), made))
    for option, name in (("--send", "sends.csv"), ("--all-reduce", "all-reduces.csv")):
        fitted = ("cluster", "calibrate", racks, option, "{}", "-o", folder / "fitted.toml")
        yield Victim(name, CLUSTER / name, (fitted,))


def _of_kind(kind: str, home: Path) -> Iterator[Victim]:
    """An instance, a plan of it, and the record of the run that made it."""
    file, plan = SAMPLES[kind].write(home), home / "plan.out"
    words = ("--record-folder", home / "runs", "--plan-output", plan)
    solved = call("solve", file, *LIMIT[:3], *words)
    assert solved.exit_code == Exit.DONE, solved.output
    readers: tuple[Command, ...] = (
        ("info", "{}"),
        ("bound", "{}", "--time-limit", "1"),
        ("convert", "{}", home / "new"),
        ("check", "{}", plan),
        ("explain", "{}", plan),
        ("diff", plan, plan, "--instance", "{}"),
    )
    searching: tuple[Command, ...] = (
        ("solve", "{}", *BRIEF, *RECORDS),
        ("sweep", "{}", "--memory", "1", *BRIEF, "--store-folder", "{folder}/kept"),
        ("export", "{}", "--format", "lp", "--output", "{folder}/model.lp"),
        ("export", "{}", "--format", "mps", "--output", "{folder}/model.mps", "--plan", plan),
        ("plot", "{}", plan, *PICTURE),
    )
    judges: tuple[Command, ...] = (
        ("check", file, "{}"),
        ("explain", file, "{}"),
        ("diff", "{}", plan, "--instance", file),
        ("diff", plan, "{}", "--instance", file),
    )
    drawn: tuple[Command, ...] = (("plot", file, "{}", *PICTURE),)
    for name in next(known for known in kinds() if known.name == kind).exports():
        written = ("--output", "{folder}/exported.csv", "--plan", "{}")
        judges += (("export", file, "--format", name, *written),)
    if kind == "schedule":
        readers += (("pack", "{}", plan, *BRIEF[:2], "--quiet"),)
        judges += (("pack", file, "{}", *BRIEF[:2], "--quiet"),)
    yield Victim(kind, file, readers, searching)
    yield Victim(f"{kind}-plan", plan, judges, drawn)
    record = next(p for p in sorted((home / "runs").glob("*.json")) if ".plan" not in p.name)
    told: tuple[Command, ...] = (
        ("table", "--record-folder", "{folder}"),
        ("report", "{}", "--instance", file, "--output", "{folder}/page.html"),
    )
    yield Victim(f"{kind}-record", record, told, (("plot", "value-time", "{}", *PICTURE),))


def _pipeline_files(folder: Path) -> Iterator[Victim]:
    """A model's pieces, a transfer as a resharding problem, a step to be cut."""
    pieces = folder / "pieces.toml"
    pieces.write_text(PIECES)
    brief = (*BRIEF[:2], "--quiet", *RECORDS)
    yield Victim("pieces", pieces, (("pipeline", *STEP, "--times", "{}", *brief),))
    timed = (*STEP, "--times", pieces, "--transfer")
    transfer = REPOSITORY / "examples" / "resharding" / "two-to-three-hosts.json"
    yield Victim("transfer", transfer, (("pipeline", *timed, "{}", *brief),))
    step = folder / "step.json"
    words = ("--times", "2,2,2", "--joint-backward", "--quiet", "--record-folder", folder / "runs")
    done = call("pipeline", *STEP, *words, "--time-limit", "100", "--instance-output", step)
    assert done.exit_code == Exit.DONE, done.output
    cut = ("--local-updates", "greedy", "--head", "1/2", "--output", "{folder}/cut.json")
    yield Victim("step", step, (("transform", "{}", *cut),))
