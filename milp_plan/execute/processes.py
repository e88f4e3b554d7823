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

from milp_plan.capture.model_file import Builder
from milp_plan.capture.placements import processes, write_placements
from milp_plan.core import BackendFailureError, UnsupportedProblemError
from milp_plan.io.placement_wire import TorchPlacements

POLL_S = 0.05
GRACE_S = 10

TRIES = 3
"""Largest number of starts when a process ends without a message."""

DONE = "done-"
"""Prefix of the name of the file by which a process reports that its answer is written."""


@dataclass(frozen=True)
class ShardedStep:
    """Results of a step on several processes.

    Parameters
    ----------
    loss
        The model's first output.
    gradients
        Parameter -> gradient, gathered, as tensors of 64-bit numbers.
    collectives
        Kind -> number of collectives of the step itself, without gathering.
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
        Plans of this model: see :func:`~milp_plan.capture.placements.require_placements_of`.
    aliases
        Further names of tied parameters -> name in the plans.
    dtype
        Type of numbers to build the model in.

    Raises
    ------
    UnsupportedProblemError
        A plan cannot be run; the error has the message of the first process that failed.
    BackendFailureError
        A process was lost every time.
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

    A process that ends without a message, killed or aborted, restarts all of them; one that
    has reported that it is done has written its answer, however it ends.

    Parameters
    ----------
    folder
        Folder of the task, and of the results and errors of processes.
    count
        Number of processes.
    module
        Module that each of them runs.

    Raises
    ------
    UnsupportedProblemError
        A process failed; the error has the message of the first one.
    BackendFailureError
        A process was lost every time.
    """
    lost = ""
    for _ in range(TRIES):
        lost = _run(folder, count, module)
        if not lost:
            return
        for pattern in ("done-*", "*.result", "meeting*"):
            for path in folder.glob(pattern):
                path.unlink()
    raise BackendFailureError(f"{lost}, in each of {TRIES} runs")


def _run(folder: Path, count: int, module: str) -> str:
    """Run the processes once; return which one was lost, empty when all are done.

    Raises
    ------
    UnsupportedProblemError
        A process failed; the error has the message of the first one.
    """
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    if sys.platform == "linux":
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    command = [sys.executable, "-m", module, str(folder)]
    started: list[subprocess.Popen[bytes]] = []
    ended: set[int] = set()
    try:
        for place in range(count):
            with (folder / f"log-{place}").open("w") as log:
                started.append(
                    subprocess.Popen(
                        [*command, str(place)], env=environment, stdout=log, stderr=log
                    )
                )
        while any(process.poll() is None for process in started):
            if _failed(started, folder) or _errors(folder):
                break
            time.sleep(POLL_S)
    finally:
        ended = _end(started)
    failed = [place for place in _failed(started, folder) if place not in ended]
    if messages := _errors(folder):
        raise UnsupportedProblemError(messages[0])
    if not failed:
        return ""
    killed = [place for place in failed if started[place].returncode < 0]
    first = (killed or failed)[0]
    lines = (folder / f"log-{first}").read_text().strip().splitlines() or ["no message"]
    last = lines[-1][:300]
    if killed:
        number = -started[first].returncode
        return f"process {first} of {count} was ended by signal {number} ({last})"
    if any(is_done(folder, place) for place in range(count)):
        return f"process {first} of {count} lost another one ({last})"
    raise UnsupportedProblemError(f"process {first} of {count} failed: {last}")


def is_done(folder: Path, place: int) -> bool:
    """Return whether a process has written its answer and is no longer needed."""
    return (folder / f"{DONE}{place}").exists()


def _failed(started: Sequence[subprocess.Popen[bytes]], folder: Path) -> list[int]:
    """Return processes that ended before they were done; others wait for them and fail later."""
    return [
        place
        for place, process in enumerate(started)
        if process.poll() is not None and not is_done(folder, place)
    ]


def _errors(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted(folder.glob("error-*"))]


def _end(started: Sequence[subprocess.Popen[bytes]]) -> set[int]:
    """End running processes, after time to report if one has failed; return those ended."""
    grace, ended = GRACE_S, set()
    for place, process in enumerate(started):
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            grace = 0
            ended.add(place)
            process.kill()
            process.wait()
    return ended
