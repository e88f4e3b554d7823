"""Whether node-limited runs still give what they gave: plan, value, bound and model, by a digest.

``python benchmarks/repeatability.py`` runs every case of :data:`CASES` through the command line in
a process of its own and compares with ``results/repeatability.json``; ``--record`` writes that
file, ``--only WORD`` runs the cases whose name holds the word. Cases on public files need
``MILP_PLAN_BENCHMARKS`` and are left out, with a line that says so, without it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "results" / "repeatability.json"
SMALL = "benchmarks/repeatability"
LIMITS = ("--time-limit", "900", "--gap", "0.0001", "--seed", "1")

MILP_PLAN = (sys.executable, "-m", "milp_plan")

Case = dict[str, Any]


def _solve(file: str, *options: str, nodes: int | None = 50) -> Case:
    limit = () if nodes is None else ("--node-limit", str(nodes))
    return {"name": " ".join([file, *options]), "verb": ["solve", file, *LIMITS, *limit, *options]}


def _pipeline(*options: str) -> Case:
    return {
        "name": " ".join(["pipeline", *options]),
        "verb": ["pipeline", *LIMITS, "--node-limit", "50", *options],
    }


def cases() -> list[Case]:
    """Return every case: all kinds of problems, and all ways of planning."""
    tiny = (
        *("colocated-update", "disconnected-devices", "fan-out-one-send", "gang-beats-single"),
        *("heterogeneous-greedy-trap", "memory-forces-delay", "persistent-counted-once"),
        *("reshard-costs-more-than-it-saves", "shared-channel-contention", "two-sends-one-port"),
        *("zero-length-chain", "depth-first-saves-memory"),
    )
    found = [_solve(f"instances/{name}.json") for name in tiny]
    small = ("gpt-tiny-inference-2xV100", "gpt-tiny-tensor-2xA100", "moe-tiny-inference-4xA100")
    small += ("two-tower-tiny-inference-1xH100+1xA100", "gpt-tiny-training-2xA100")
    found += [_solve(f"instances/{name}.json", "--rounds", "3", nodes=5) for name in small]
    found += [
        _solve("instances/unet-inference-2xH100.json", "--rounds", "2", nodes=2),
        _solve("instances/memory-forces-delay.json", "--objective", "peak_memory"),
        _solve("instances/colocated-update.json", "--formulation", "resource_load"),
        _solve("instances/two-sends-one-port.json", "--option", "symmetry=false"),
    ]
    for law in ("free", "chain", "separate"):
        found.append(_solve(f"{SMALL}/serial-{law}.json"))
    found += [_solve(f"{SMALL}/serial-calls-{calls}.json", "--threads", "1") for calls in (1, 2)]
    found += [
        _solve(f"{SMALL}/sharding-{seed}.json", "--formulation", "sharding") for seed in range(3)
    ]
    found += [
        _pipeline("--stages", "2", "--micro-batches", "4"),
        _pipeline("--stages", "4", "--micro-batches", "6", "--times", "10,12,7", "--transfer", "1"),
        _pipeline("--stages", "3", "--micro-batches", "5", "--placement", "v", "--memory", "3"),
        _pipeline("--stages", "2", "--micro-batches", "3", "--placement", "free", "--chunks", "2"),
        _pipeline("--stages", "2", "--micro-batches", "3", "--memory", "2", "--lane", "1"),
        _pipeline("--stages", "3", "--micro-batches", "4", "--objective", "span"),
        _solve(f"{SMALL}/pipeline.json", "--formulation", "operator_schedule"),
    ]
    public = "$MILP_PLAN_BENCHMARKS"
    found += [_solve(f"{public}/piper/{name}.json", nodes=None) for name in ("bert32a100", "gnmt")]
    throughput = f"{public}/dnn-partitioning/throughput-inputs/LayerGraphs"
    found += [
        _solve(f"{throughput}/bert24_inference.json", "--objective", "bottleneck", "--contiguous"),
        _solve(f"{throughput}/gnmt_inference.json", "--objective", "bottleneck"),
        _solve(f"{public}/iopddl/asplos-2025-iopddl-G.json.gz", nodes=None),
    ]
    return found


def run(case: Case) -> dict[str, Any]:
    """Run a case; return what must stay as it is."""
    verb = [os.path.expandvars(word) for word in case["verb"]]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--json", "--quiet", "--record-folder", folder]
        command = [*MILP_PLAN, *verb, *options]
        if "piper" in case["name"] and not _solves_hybrid():
            command = [*MILP_PLAN, "solve", verb[1], *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        lines = done.stdout.strip().splitlines()
        if not lines:
            return {"exit_code": done.returncode, "error": done.stderr.strip()[-300:]}
        told = json.loads(lines[0])
        return {
            "exit_code": done.returncode,
            **{name: told.get(name) for name in ("value", "bound", "stop", "model_hash")},
            "plan": _plan_digest(told.get("plan_file")),
        }


def _solves_hybrid() -> bool:
    """Whether ``solve`` knows this kind already."""
    return (ROOT / "milp_plan" / "run" / "kinds").is_dir()


def _plan_digest(file: str | None) -> str | None:
    """Digest of what a plan decides: not of who made it, nor of what it claims."""
    if file is None:
        return None
    plan = json.loads(Path(ROOT, file).read_bytes())
    if isinstance(plan, dict):
        plan = {name: plan.get(name) for name in ("runs", "operators", "transfers", "stages")}
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:16]


def main() -> None:
    """Run the cases, and record or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the file instead")
    parser.add_argument("--only", default="", help="cases whose name holds this word")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    there = bool(os.environ.get("MILP_PLAN_BENCHMARKS"))
    chosen = [case for case in cases() if asked.only in case["name"]]
    for case in chosen:
        if "$MILP_PLAN_BENCHMARKS" in case["name"] and not there:
            print(f"left out, MILP_PLAN_BENCHMARKS is not set: {case['name']}")
    chosen = [case for case in chosen if there or "$MILP_PLAN_BENCHMARKS" not in case["name"]]
    with ThreadPoolExecutor(asked.jobs) as pool:
        found = dict(zip((c["name"] for c in chosen), pool.map(run, chosen), strict=True))
    known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if asked.record:
        RECORDED.write_text(json.dumps(known | found, indent=1) + "\n")
        return
    changed = 0
    for name, now in found.items():
        before = known.get(name, {})
        differs = {key: (before.get(key), now[key]) for key in now if before.get(key) != now[key]}
        changed += bool(differs)
        print(f"{'CHANGED' if differs else 'same   '} {name} {differs or ''}")
    print(f"{len(found)} cases, {changed} changed")
    sys.exit(changed > 0)


if __name__ == "__main__":
    main()
