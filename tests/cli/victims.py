"""Good files of every format that a command reads, and the commands that read them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

from milp_plan.cli.exits import Exit
from milp_plan.run.kinds import kinds

from .cases import INSTANCES, REPOSITORY, call
from .fuzzing import Command, Victim
from .test_kinds import LIMIT, SAMPLES

BRIEF = ("--time-limit", "0.3", "--node-limit", "5", "--threads", "1", "--quiet")
SHORT = ("--time-limit", "0.02")
"""Of a search that goes on to its limit."""
STEP = ("--stages", "2", "--micro-batches", "2")
RECORDS = ("--record-folder", "{folder}/runs")
PICTURE = ("--output", "{folder}/picture.svg")
MODELS = REPOSITORY / "examples" / "migrate"
CLUSTER = REPOSITORY / "examples" / "cluster"
TINY = INSTANCES / "captures" / "gpt2-tiny.capture.json.gz"
CAPTURED = {
    "recompute": (("1xA100", "--recompute", "full", "--barrier"), ("torch-checkpoint",)),
    "stages": (("2xA100", "--stages"), ("torch-stages",)),
    "sharding": (("2xA100", "--sharding", "2"), ("torch-placements", "hf-tp-plan")),
}
"""Options of ``capture``, and the formats that plans of what they make are written in."""
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
    yield Victim("degrees-before", before, (("migrate", "{}", after, *SHORT),))
    yield Victim("degrees-after", after, (("migrate", before, "{}", *SHORT),))
    yield from _captured_files(folder)
    for page in ("recipe.toml", "spec.toml", "study.toml"):
        path = next(iter(sorted((REPOSITORY / "results").rglob(page))))
        kept = ("--store", folder / "store") if page == "recipe.toml" else ()
        yield Victim(page, path, (("table", "{folder}", "--render", *kept),))
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


def _captured_files(folder: Path) -> Iterator[Victim]:
    """A captured graph, what is made of it, plans of these, and files for PyTorch."""
    graph, made = folder / "graph.capture.json", ("--output", "{folder}/made.json")
    graph.write_bytes(gzip.decompress(TINY.read_bytes()))
    kernels: tuple[Command, ...] = (
        ("capture", "{}", "2xA100", *made),
        ("capture", "{}", "2xA100", "--granularity", "module", "--eager", *made),
        ("capture", "{}", "1xA100", "--recompute", "full,attention", "--barrier", *made),
        ("capture", "{}", "2xA100", "--stages", *made),
    )
    meshes: tuple[Command, ...] = (
        ("capture", "{}", "2xA100", "--mesh", "2", *made),
        ("capture", "{}", "4xA100", "--sharding", "2x2", *made),
        ("capture", "{}", "2xA100", *made, "--placements", "{folder}/made.placements.json"),
    )
    yield Victim("capture", graph, kernels, meshes)
    for name in CAPTURED:
        home = folder / f"captured-{name}"
        home.mkdir()
        yield from _planned_capture(name, graph, home)


def _planned_capture(name: str, graph: Path, home: Path) -> Iterator[Victim]:
    """An instance made of a captured graph, a plan of it, and what is written for PyTorch."""
    asked, formats = CAPTURED[name]
    file, plan, exported = home / "instance.json", home / "plan.json", home / "exported.json"
    model = home / "model.py"
    model.write_text("def build():\n    return 1 / 0\n")
    solve = ("solve", file, *LIMIT[:3], "--gap", "0.5", "--record-folder", home / "runs")
    for words in (
        ("capture", graph, *asked, "--output", file),
        (*solve, "--plan-output", plan),
        ("export", file, "--plan", plan, "--format", formats[0], "--output", exported),
    ):
        done = call(*words)
        assert done.exit_code == Exit.DONE, done.output
    run: tuple[Command, ...] = (("run", file, "{}", model),)

    def exports(instance: str | Path, judged: str | Path) -> tuple[Command, ...]:
        to = ("--output", "{folder}/exported.json", "--plan", judged)
        return tuple(("export", instance, "--format", each, *to) for each in formats)

    yield Victim(f"captured-{name}", file, exports("{}", plan))
    yield Victim(f"captured-{name}-plan", plan, exports(file, "{}") + run)
    if name == "stages":
        run += (("pipeline", *STEP, "--times", "{}", *BRIEF[:2], "--quiet", *RECORDS),)
    if name != "recompute":
        yield Victim(formats[0], exported, run)


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
    reported: tuple[Command, ...] = (
        ("table", "--record-folder", "{folder}"),
        ("report", "{}", "--instance", file, "--output", "{folder}/page.html"),
    )
    yield Victim(f"{kind}-record", record, reported, (("plot", "value-time", "{}", *PICTURE),))


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
