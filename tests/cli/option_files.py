"""Small files for the commands of :mod:`.option_examples`."""

from __future__ import annotations

import json
from pathlib import Path

from milp_plan.cli.exits import Exit
from tests.io.samples import store
from tests.io.test_dnn_partitioning import sample
from tests.study.cases import INSTANCES, suite_file
from tests.training import measured_rows
from tests.training.test_huggingface import LLAMA3_70B

from .cases import call
from .option_examples import SERVE, TRAIN
from .test_kinds import LIMIT, SAMPLES
from .victims import CLUSTER, MODELS, PIECES, TINY

MODELS_OF_JOBS = """
format = "milp-plan-jobs"
version = 1
name = "one"
time_unit = "s"
[[pools]]
name = "gpu"
device = "V100"
devices = 2
[[jobs]]
name = "a"
model = {{ instance = "{}", devices = [2] }}
"""
STUDY = """
title = "Squares"
about = "Of numbers."
script = "squares.py"
cases = [{ number = 7 }, { number = 2 }]
[[tables]]
columns = [["number", "{number}"], ["square", "{square:,}"]]
"""
SCRIPT = """
def measure(case):
    return {"square": case["number"] ** 2}
"""
HEURISTIC = """
[[planners]]
name = "heft"
planner = "heft"
"""
LAYERS = """\
name,kind,forward_ms,backward_ms,activation_bytes,parameters
one,block,10,20,2000000000,50000000
two,block,10,20,2000000000,50000000
"""
KNOWN = """
[[values]]
file = "two-sends-one-port.json"
"""


def files(home: Path) -> dict[str, Path]:
    """Write files; return their paths by name."""
    found: dict[str, Path] = {}
    for kind in SAMPLES:
        _solved(found, kind, SAMPLES[kind].write(_folder(home, kind)))
    _solved(found, "serial", store(_folder(home, "serial"), sample(), "serial.json"))
    broadcast = json.loads(found["resharding"].read_text())
    broadcast["slices"][0]["receivers"] = ["c", "d"]
    _solved(found, "broadcast", store(_folder(home, "broadcast"), broadcast, "broadcast.json"))
    degrees = json.loads(found["hybrid"].read_text())
    for node in degrees["nodes"]:
        node["TMPCs"]["1"].append({**node["TMPCs"]["1"][0], "id": "activation recomp"})
        node["TMPCs"]["2"] = node["TMPCs"]["1"]
    _solved(found, "degrees", store(_folder(home, "degrees"), degrees, "degrees.json"))
    empty, runs = _folder(home, "empty"), found["schedule.plan"].with_name("runs")
    found |= {"empty": empty, "runs": runs, "moved": _moved(runs, _folder(home, "moved"))}
    found |= {"graph": TINY, "racks": CLUSTER / "two-racks.toml"}
    found |= {"sends": CLUSTER / "sends.csv", "all-reduces": CLUSTER / "all-reduces.csv"}
    found |= {"before": MODELS / "four-hosts.json", "after": MODELS / "three-left.json"}
    for name, text in (("pieces.toml", PIECES), ("known.toml", KNOWN), ("model.py", MODEL)):
        found[Path(name).stem] = home / name
        (home / name).write_text(text)
    found["suite"] = suite_file(home, HEURISTIC, files=("two-sends-one-port.json",))
    found["store"] = home / "store"
    _done("bench", "run", found["suite"], "--store", found["store"], "--quiet")
    _offered(found, home)
    found["models"] = home / "models.toml"
    found["models"].write_text(MODELS_OF_JOBS.format(INSTANCES / "gpt-tiny-inference-2xV100.json"))
    found["step"] = home / "step.json"
    made = ("--quiet", "--record-folder", home / "steps", "--instance-output", found["step"])
    step = (
        "pipeline",
        "--stages",
        "2",
        "--micro-batches",
        "2",
        "--times",
        "2,2,2",
        "--memory",
        "4",
    )
    _done(*step, "--joint-backward", *made)
    found |= {"config": home / "config.json", "train.plan": home / "train.plan.json"}
    found["config"].write_text(json.dumps(LLAMA3_70B | {"num_hidden_layers": 16}))
    _done(*TRAIN.split(), "--plan-output", found["train.plan"])
    found["serve.plan"] = home / "serve.plan.json"
    _done(*SERVE.split(), "--plan-output", found["serve.plan"])
    found |= {"measured": home / "measured.csv", "rates": home / "rates.json"}
    found["measured"].write_text(measured_rows.text(measured_rows.rows()[:6]))
    _done("calibrate", found["measured"], "--fit", found["rates"])
    found["layers"] = home / "layers.csv"
    found["layers"].write_text(LAYERS)
    study = _folder(home, "study")
    (study / "study.toml").write_text(STUDY)
    (study / "squares.py").write_text(SCRIPT)
    _done("table", study, "--store", home / "studied", "--quiet")
    return found | {"study": study}


MODEL = "def build():\n    return 1 / 0\n"


def _folder(home: Path, name: str) -> Path:
    (home / name).mkdir()
    return home / name


def _done(*words: str | Path) -> None:
    result = call(*words)
    assert result.exit_code == Exit.DONE, result.output


def _solved(found: dict[str, Path], name: str, file: Path) -> None:
    """Keep a file, and a plan of it; two records of runs lie beside it."""
    plan, runs = file.with_name("plan.out"), file.with_name("runs")
    words = ("solve", file, *LIMIT[:3], "--record-folder", runs)
    _done(*words, "--plan-output", plan)
    if name == "schedule":
        _done(*words, "--seed", "1")
    found |= {name: file, f"{name}.plan": plan}


def _offered(found: dict[str, Path], home: Path) -> None:
    """An instance whose blocks may compute again, and a plan of it."""
    found |= {"offered": home / "offered.json", "offered.plan": home / "offered.plan.json"}
    _done("capture", TINY, "1xA100", "--recompute", "full", "--output", found["offered"])
    brief = ("--gap", "0.5", "--quiet", "--record-folder", home / "offers")
    _done("solve", found["offered"], *brief, "--plan-output", found["offered.plan"])


def _moved(runs: Path, folder: Path) -> Path:
    """A record whose instance is not where it says."""
    record = next(path for path in sorted(runs.glob("*.json")) if ".plan" not in path.name)
    document = json.loads(record.read_text()) | {"instance_file": "gone.json"}
    (folder / record.name).write_text(json.dumps(document))
    plan = record.with_suffix(".plan.json")
    (folder / plan.name).write_bytes(plan.read_bytes())
    return folder / record.name
