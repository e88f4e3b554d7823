"""Processes of this machine that run placements together, over gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from milp_plan.capture import Builder
from milp_plan.capture.placements import processes, write_placements
from milp_plan.core import UnsupportedProblemError
from milp_plan.io.placement_wire import TorchPlacements

POLL_S = 0.05
GRACE_S = 10


@dataclass(frozen=True)
class ShardedStep:
    """What a step on several processes left behind.

    Parameters
    ----------
    loss
        The model's first output.
    gradients
        Parameter -> gradient, gathered, as tensors of 64-bit numbers.
    collectives
        Kind -> how many ran for the step itself, gathering apart.
    """

    loss: float
    gradients: Mapping[str, Any]
    collectives: Mapping[str, int]


def run_placements(
    builder: Builder,
    plans: Sequence[TorchPlacements],
    aliases: Mapping[str, str],
    *,
    dtype: str | None = None,
) -> list[ShardedStep]:
    """Run a step by each of some plans, which have equally many processes.

    Parameters
    ----------
    builder
        The user's function.
    plans
        Of this model: see :func:`~milp_plan.capture.placements.require_placements_of`.
    aliases
        Further names of tied parameters -> name in the plans.
    dtype
        Type of numbers to build the model in.

    Raises
    ------
    UnsupportedProblemError
        A plan cannot be run; says what the first process that failed said.
    """
    import torch

    count = processes(plans[0])
    with tempfile.TemporaryDirectory(prefix="milp-plan-") as name:
        folder = Path(name)
        names = [f"plan-{place}.json" for place in range(len(plans))]
        for file, plan in zip(names, plans, strict=True):
            write_placements(plan, folder / file)
        task = {"model": builder.text, "dtype": dtype, "plans": names, "aliases": dict(aliases)}
        (folder / "task.json").write_text(json.dumps(task))
        start(folder, count, "milp_plan.execute.worker")
        return [ShardedStep(**torch.load(folder / f"{file}.result")) for file in names]


def start(folder: Path, count: int, module: str) -> None:
    """Start the processes of a task and wait for them; when one fails, end the others.

    Parameters
    ----------
    folder
        Where the task is, and where processes leave results and errors.
    count
        How many processes.
    module
        What each of them runs.

    Raises
    ------
    UnsupportedProblemError
        What the first process that failed said.
    """
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    if sys.platform == "linux":
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    command = [sys.executable, "-m", module, str(folder)]
    started: list[subprocess.Popen[bytes]] = []
    failed: list[int] = []
    try:
        for place in range(count):
            with (folder / f"log-{place}").open("w") as log:
                started.append(
                    subprocess.Popen(
                        [*command, str(place)], env=environment, stdout=log, stderr=log
                    )
                )
        while any(process.poll() is None for process in started):
            failed = _failed(started)
            if failed or _errors(folder):
                break
            time.sleep(POLL_S)
    finally:
        _end(started)
    failed = failed or _failed(started)
    if failed:
        said = _errors(folder)
        lines = (folder / f"log-{failed[0]}").read_text().strip().splitlines() or ["no message"]
        raise UnsupportedProblemError(
            said[0] if said else f"process {failed[0]} of {count} failed: {lines[-1][:300]}"
        )


def _failed(started: Sequence[subprocess.Popen[bytes]]) -> list[int]:
    """Those that ended otherwise than well; the others miss them, and fail later."""
    return [place for place, process in enumerate(started) if process.poll()]


def _errors(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted(folder.glob("error-*"))]


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """End what still runs, after time to say why where one has failed."""
    grace = GRACE_S
    for process in started:
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            grace = 0
            process.kill()
            process.wait()
