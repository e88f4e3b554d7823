"""For every option of every verb a command in which it does something, or is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Example:
    """An option at work.

    Parameters
    ----------
    words
        Added to the verb's words. Names in braces are files of :mod:`.option_files`.
    base
        The words without it, where those of the verb do not do.
    refused
        What is said where it is refused.
    setting
        A member of ``Settings`` and its value, where that is what the option gives to a run:
        ``tests/run/test_unused.py`` holds that each way uses a setting or refuses it.
    given
        A function, a parameter of it and its value, where the difference cannot be seen outside.
    problem
        Whether it changes the problem that the verb reads.
    """

    words: str
    base: str | None = None
    refused: str = ""
    setting: tuple[str, Any] | None = None
    given: tuple[str, str, Any] | None = None
    problem: bool = False


def _set(words: str, name: str, value: Any, base: str | None = None) -> Example:
    return Example(words, base, setting=(name, value))


def _no(words: str, why: str, base: str | None = None) -> Example:
    return Example(words, base, refused=why)


PIPELINE = "pipeline --stages 2 --micro-batches 3 --quiet --record-folder runs"
PIECES = f"{PIPELINE} --times {{pieces}}"
STUDY = "table {study} --store kept --quiet"
BENCH = "bench run {suite} --store kept"
SERVE = "serve llama3-8b 4xH100 --prompt 512"
TRAIN = "train llama3-8b 8xH100 --global-batch 8 --sequence 2048 --fix pipeline=1"
LAYERS = "train --profile {layers} 8xH100 --global-batch 8 --fix pipeline=1"
SLOTS = ("milp_plan.study.driver.Local.__init__", "jobs", 2)
"""Where ``--jobs`` goes."""

BASES = {
    "": "--help",
    "bench collect": "bench collect {suite} --store {store} -o rows.csv",
    "bench run": f"{BENCH} --quiet",
    "bench status": "bench status {suite} --store {store}",
    "bound": "bound {schedule} --quiet",
    "calibrate": "calibrate {measured}",
    "capture": "capture {graph} 2xA100 -o made.json",
    "check": "check {schedule} {schedule.plan}",
    "cluster calibrate": "cluster calibrate {racks} --send {sends} -o made.toml --date 2026-01-01",
    "cluster show": "cluster show 2xA100",
    "compile": "compile",
    "convert": "convert {schedule} made.json",
    "data get": "data get iopddl --folder here",
    "data list": "data list",
    "diff": "diff {schedule.plan} {schedule.plan} --instance {schedule}",
    "expand": "expand {models} made.toml",
    "explain": "explain {schedule} {schedule.plan} --quiet",
    "export": "export {schedule} --format lp -o made.lp",
    "generate": "generate gpt-tiny 2xA100 --batch 4 -o made.json",
    "info": "info {schedule}",
    "list": "list kinds",
    "migrate": "migrate {before} {after} --gap 1",
    "new formulation": "new formulation abc --folder here --tests there",
    "pack": "pack {schedule} {schedule.plan} --quiet",
    "pipeline": PIPELINE,
    "plot": "plot {schedule} {schedule.plan} -o made.svg",
    "report": "report {moved} -o made.html --instance {schedule}",
    "run": "run {offered} {offered.plan} {model}",
    "show-versions": "show-versions",
    "solve": "solve {schedule} --quiet --node-limit 9 --record-folder runs",
    "sweep": "sweep {schedule} --memory 1 --quiet --node-limit 9 --store-folder kept",
    "table": "table --record-folder {runs}",
    "serve": SERVE,
    "train": TRAIN,
    "transform": "transform {step} --local-updates greedy -o made.json",
}
"""Words of each verb that do something, the same each time."""

RUNS = {
    "--time-limit": _set("--time-limit 77", "time_limit_s", 77.0),
    "--node-limit": _set("--node-limit 8", "node_limit", 8),
    "--rounds": _set("--rounds 3", "rounds", 3),
    "--gap": _set("--gap 0.25", "gap", 0.25),
    "--seed": _set("--seed 5", "seed", 5),
    "--threads": _set("--threads 2", "threads", 2),
}
"""Options of runs that several verbs have."""

CLUSTERED = {
    "--memory-scale": Example("--memory-scale 1/2"),
    "--communication": Example("--communication delay"),
    "--link": Example("--link PCIe4"),
    "--objective": Example("--objective span"),
    "--name": Example("--name other"),
    "--output": Example("-o other.json"),
}
"""Options of verbs that make an instance on a cluster."""

EXAMPLES: dict[str, dict[str, Example]] = {
    "": {"--version": Example("--version", base="")},
    "bench collect": {
        "--store": Example("--store {empty}"),
        "--output": Example("-o rows.parquet"),
        "--known": _no("--known {known}", "known.toml"),
    },
    "bench run": {
        "--jobs": Example("--jobs 2", given=SLOTS),
        "--dask": _no("--dask tcp://nowhere:1", "--dry-run does no run", f"{BENCH} --dry-run"),
        "--store": Example("--store other"),
        "--retry-failed": Example(
            "--no-retry-failed", given=("milp_plan.study.driver.drive", "retry_failed", False)
        ),
        "--dry-run": Example("--dry-run", base="bench run {suite} --store kept"),
    },
    "bench status": {"--store": Example("--store {empty}")},
    "bound": {"--time-limit": RUNS["--time-limit"]},
    "calibrate": {
        "--software": Example("--software megatron-2021"),
        "--rates": Example("--rates {rates}"),
        "--fit": Example("--fit rates.json"),
    },
    "capture": {
        "--mode": _no("--mode inference", "capture the model again"),
        "--onnx": Example("--onnx"),
        "--dimension": _no("--dimension batch=2", "--dimension goes with an ONNX file"),
        "--granularity": Example("--granularity kernel"),
        "--optimizer": Example("--optimizer sgd"),
        "--eager": Example("--eager"),
        "--recompute": Example("--recompute full"),
        "--barrier": Example("--barrier"),
        "--sharding": Example("--sharding 2"),
        "--mesh": Example("--mesh 2"),
        "--stages": Example("--stages"),
        "--dtype": _no("--dtype bfloat16", "--dtype needs a model to build"),
        "--device": _no("--device cuda", "--device needs a model to build"),
        "--profile": _no("--profile", "--profile needs a model to build"),
        "--cost": _no("--cost profile", "--profile"),
        "--flops": Example("--flops aten.gelu=800"),
        **CLUSTERED,
        "--graph": Example("--graph graph.json"),
        "--placements": Example("--placements placements.json"),
    },
    "check": {},
    "cluster calibrate": {
        "--all-reduce": Example("--all-reduce {all-reduces}"),
        "--send": Example(
            "--send {sends}",
            base="cluster calibrate {racks} --all-reduce {all-reduces} -o made.toml "
            "--date 2026-01-01",
        ),
        "--date": Example("--date 2025-01-01"),
        "--output": Example("-o other.toml"),
    },
    "cluster show": {},
    "compile": {},
    "convert": {"--format": _no("--format iopddl", "'--format'")},
    "data get": {
        "--only": Example("--only *A*"),
        "--folder": Example("--folder there"),
        "--address": Example("--address http://127.0.0.1:9/other"),
    },
    "data list": {},
    "diff": {
        "--instance": Example("--instance {schedule}", base="diff {schedule.plan} {schedule.plan}"),
        "--plot": Example("--plot made.svg"),
    },
    "expand": {"--time-limit": RUNS["--time-limit"], "--seed": RUNS["--seed"]},
    "explain": {
        "--what-if": Example("--what-if usual"),
        "--move": Example("--move {part}"),
        "--quiet": Example("--quiet", base="explain {schedule}"),
        "--time-limit": _set(
            *("--time-limit 77", "time_limit_s", 77.0),
            "explain {schedule} {schedule.plan} --quiet --what-if usual",
        ),
    },
    "export": {
        "--format": Example("--format mps"),
        "--output": Example("-o other.lp"),
        "--plan": Example("--plan {schedule.plan}"),
        "--target": Example("--target 1"),
        "--formulation": _no("--formulation latency", "latency does not apply"),
        "--option": Example("--option symmetry=false"),
        "--model-memory": Example(
            "--model-memory 1kB", given=("milp_plan.cli.draw.allowed", "given", 1000)
        ),
    },
    "generate": {
        "--mode": Example("--mode inference"),
        "--batch": Example("--batch 2"),
        "--micro-batches": Example("--micro-batches 2"),
        "--granularity": Example("--granularity block"),
        "--blocks": Example("--blocks 1"),
        "--split": Example("--split column2"),
        "--mesh": Example("--mesh 2"),
        "--sharding": Example("--sharding 2"),
        "--zero": Example("--zero 1", base="generate gpt-tiny 2xA100 --mesh 2 -o made.json"),
        "--optimizer": Example("--optimizer sgd"),
        **CLUSTERED,
    },
    "info": {},
    "list": {},
    "migrate": {
        "--card": Example("--card 1GB --json"),
        "--time-limit": RUNS["--time-limit"],
        "--gap": RUNS["--gap"],
        "--instance-output": Example("--instance-output made.json"),
        "--plan-output": Example("--plan-output plan.json"),
    },
    "new formulation": {"--folder": Example("--folder a"), "--tests": Example("--tests b")},
    "pack": {
        **{name: RUNS[name] for name in ("--time-limit", "--seed", "--node-limit")},
        "--alignment": Example("--alignment 1000000"),
        "--output": Example("-o made.csv"),
        "--plot": Example("--plot made.svg"),
    },
    "pipeline": {
        "--stages": Example("--stages 3"),
        "--micro-batches": Example("--micro-batches 4"),
        "--times": Example("--times 1,2,1"),
        "--transfer": Example("--transfer 1"),
        "--memory": Example("--memory 1"),
        "--placement": Example("--placement v"),
        "--chunks": Example("--chunks 3", base=f"{PIPELINE} --placement interleaved"),
        "--cut": Example("--cut 3,1", base=PIECES),
        "--freed-at-backward": Example(
            "--freed-at-backward 1/2", base=f"{PIPELINE} --instance-output made.json"
        ),
        "--joint-backward": Example("--joint-backward"),
        "--channels": Example("--channels", base=f"{PIPELINE} --transfer 1"),
        "--lane": Example("--lane 1"),
        "--recompute": Example("--recompute"),
        "--fixed-batch": Example("--fixed-batch", base=f"{PIPELINE} --micro-batches 2,4"),
        "--objective": Example("--objective span"),
        **RUNS,
        "--plan-output": Example("--plan-output plan.json"),
        "--instance-output": Example("--instance-output made.json"),
        "--plot": Example("--plot made.svg"),
        "--record-folder": Example("--record-folder other"),
    },
    "plot": {
        "--output": Example("-o other.svg"),
        "--store": _no(
            "--store {empty}", "none with a result", "plot gap {suite} --store {store} -o made.svg"
        ),
    },
    "report": {
        "--output": _no("-o other.pdf", "other.pdf"),
        "--instance": Example("--instance {schedule}", base="report {moved} -o made.html"),
    },
    "run": {
        "--dtype": Example(
            "--dtype nonsense", given=("milp_plan.cli.execute._recomputation", "dtype", "nonsense")
        ),
        "--processes": _no("--processes 2", "--processes: found 2 with a plan"),
        "--schedule": _no("--schedule {schedule.plan}", "--schedule goes with a torch-stages file"),
    },
    "show-versions": {},
    "solve": {
        **RUNS,
        "--target": _set("--target 2", "target", 2),
        "--formulation": _no("--formulation latency", "latency does not apply"),
        "--option": _set("--option symmetry=false", "options", {"symmetry": False}),
        "--only": Example("--only"),
        "--two-stage": Example("--two-stage"),
        "--solver": Example("--solver nonsense"),
        "--dask": _no("--dask tcp://nowhere:1", "--dask"),
        "--start": Example("--start {schedule.plan}"),
        "--plan-output": Example("--plan-output plan.json"),
        "--plot": Example("--plot made.svg"),
        "--record-folder": Example("--record-folder other"),
    },
    "sweep": {
        **RUNS,
        "--memory": Example("--memory 1,2"),
        "--devices": Example("--devices 2"),
        "--bandwidth": Example("--bandwidth 2"),
        "--output": Example("-o made.csv"),
        "--plot": Example("--plot made.svg"),
        "--store-folder": Example("--store-folder other"),
    },
    "table": {
        "--record-folder": _no("--record-folder {empty}", "records: found none"),
        "--all": Example("--all"),
        "--output": Example("-o made.md"),
        "--jobs": Example("--jobs 2", base=STUDY, given=SLOTS),
        "--render": Example("--render", base="table {study}"),
        "--dask": _no("--dask tcp://nowhere:1", "--render does no run", "table {study} --render"),
        "--only": Example("--only number=2", base=STUDY),
        "--first": Example("--first 1", base=STUDY),
        "--store": Example("--store other", base=STUDY),
        "--quiet": Example("--quiet", base="table {study} --store kept"),
    },
    "serve": {
        "--model-file": Example("--model-file {config}", base=SERVE.replace("llama3-8b ", "")),
        "--prompt": Example("--prompt 4096"),
        "--output": Example("--output 16"),
        "--objective": Example("--objective throughput"),
        "--phase": Example("--phase prefill"),
        "--requests": Example("--requests 32"),
        "--first-token": Example("--first-token 1ms"),
        "--token": Example("--token 1ms"),
        "--precision": Example("--precision fp8"),
        "--cache-precision": Example("--cache-precision fp8"),
        "--memory": Example("--memory 40GB"),
        "--reserve": Example("--reserve 20GB"),
        "--fix": Example("--fix tensor=2"),
        "--rates": Example("--rates {rates}", base=SERVE.replace("H100", "A100")),
        "--time-limit": Example(
            "--time-limit 77", given=("milp_plan.core.budget.Budget.__init__", "limit_s", 77.0)
        ),
        "--plot": Example("--plot request.png"),
        "--check": Example("--check {serve.plan}"),
        "--plan-output": Example("--plan-output plan.json"),
        "--job-output": Example("--job-output job.json"),
    },
    "train": {
        "--model-file": Example("--model-file {config}", base=TRAIN.replace("llama3-8b ", "")),
        "--profile": Example("--profile {layers}", base=LAYERS.replace("--profile {layers} ", "")),
        "--profile-batch": Example("--profile-batch 2", base=LAYERS),
        "--sequence": Example("--sequence 4096"),
        "--global-batch": Example("--global-batch 16"),
        "--memory": Example("--memory 40GB"),
        "--reserve": Example("--reserve 20GB"),
        "--fix": Example("--fix tensor=2"),
        "--rates": Example("--rates {rates}", base=TRAIN.replace("H100", "A100")),
        "--time-limit": Example(
            "--time-limit 77", given=("milp_plan.core.budget.Budget.__init__", "limit_s", 77.0)
        ),
        "--plot": Example("--plot step.png"),
        "--check": Example("--check {train.plan}", base=TRAIN.split(" --fix", maxsplit=1)[0]),
        "--plan-output": Example("--plan-output plan.json"),
        "--job-output": Example("--job-output job.json"),
        "--export": Example("--export fsdp2 -o launch.py"),
        "--framework": Example("--framework deepspeed"),
        "--host": Example("--host"),
        "--output": Example("-o launch.py", base=f"{TRAIN} --export fsdp2"),
    },
    "transform": {
        "--local-updates": Example("--local-updates chunks:1"),
        "--head": Example("--head 1/2"),
        "--final-head": Example("--final-head"),
        "--output": Example("-o other.json"),
    },
}
"""By verb and option, beside those of :data:`EVERYWHERE` and :data:`CHANGES`."""

EVERYWHERE = {
    "--log-file": "--log-file log.txt",
    "--json": "--json",
    "--quiet": "--quiet",
}
"""The same for each verb that has them; ``--quiet`` is measured against a call without it."""

CHANGES = {
    "--devices": ("hybrid", "2"),
    "--memory": ("hybrid", "30B"),
    "--bandwidth": ("hybrid", "2"),
    "--micro-batches": ("hybrid", "3"),
    "--no-data": ("hybrid", ""),
    "--no-tensor": ("degrees", ""),
    "--no-recomputation": ("degrees", ""),
    "--weighted-completion": ("jobs", ""),
    "--no-capacity": ("packing", ""),
    "--memory-budget": ("rematerialisation", "32B"),
    "--objective": ("schedule", "span"),
    "--added-time": ("peak_memory", "1/2"),
    "--host": ("schedule", "1000@1"),
    "--one-by-one": ("broadcast", ""),
    "--memory-scale": ("schedule", "1/2"),
    "--recompute": ("schedule", ""),
    "--contiguous": ("serial", ""),
    "--separate-passes": ("serial", ""),
    "--calls": ("latency", "2"),
}
"""Changes of a problem: what each means something for (:func:`changed`), and a value."""

ON_A_PROBLEM = {
    "bound": "bound {file} --quiet",
    "check": "check {file} {plan}",
    "convert": "convert {file} made.out",
    "diff": "diff {plan} {plan} --instance {file}",
    "explain": "explain {file} {plan} --quiet",
    "export": "export {file} --format lp -o made.lp",
    "info": "info {file}",
    "pack": "pack {file} {plan} --quiet",
    "plot": "plot {file} {plan} -o made.svg",
    "solve": "solve {file} --quiet --node-limit 9 --record-folder runs",
    "sweep": "sweep {file} --memory 1 --quiet --node-limit 9 --store-folder kept",
    "transform": "transform {step} --local-updates greedy -o made.json",
}
"""Verbs that take changes of a problem."""


def changed(verb: str, option: str) -> Example:
    """Return a change at work in a verb."""
    kind, value = CHANGES[option]
    name = {"latency": "serial", "peak_memory": "rematerialisation"}.get(kind, kind)
    objective = "" if name == kind else f" --objective {kind}"
    words = ON_A_PROBLEM[verb].replace("{file", "{" + name).replace("{plan", "{" + name + ".plan")
    if verb == "transform" and kind != "schedule":
        return _no(f"{option} {value}", _meant_for_others(option))
    return Example(f"{option} {value}", f"{words}{objective}", problem=True)


def _meant_for_others(option: str) -> str:
    """What ``transform`` says: it reads schedules under the general law alone."""
    serial = option in ("--contiguous", "--separate-passes", "--calls")
    return "serial" if serial else f"{option}: found an option of"
