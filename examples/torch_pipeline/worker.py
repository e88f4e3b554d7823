"""The processes of a pipeline: load the schedule, run steps, save losses, gradients and times.

``run.py`` starts ``worker.py FOLDER...``. Each folder holds a job; it imports torch once, then
forks one process per rank, job after job.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from model import loss_of, make_batch, make_stages
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

LIMIT_S = 300
"""A job that needs longer has ranks that wait for each other."""


def run_job(folder: Path) -> bool:
    """Run all ranks of a job; whether all of them came to an end."""
    context = multiprocessing.get_context("fork")
    count = json.loads((folder / "job.json").read_text())["processes"]
    ranks = [context.Process(target=run_rank, args=(folder, rank)) for rank in range(count)]
    for process in ranks:
        process.start()
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until and not any(process.exitcode for process in ranks):
        if all(process.exitcode == 0 for process in ranks):
            return True
        time.sleep(0.02)
    for process in ranks:  # the others would wait for the one that failed
        process.kill()
    return False


def run_rank(folder: Path, rank: int) -> None:
    """Run one rank of the job that ``folder`` describes."""
    job = json.loads((folder / "job.json").read_text())
    torch.set_num_threads(1)
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = (folder / "store").as_uri()
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=job["processes"])
    try:
        torch.save(_steps(folder, rank, job), folder / f"rank{rank}.pt")
    finally:
        dist.destroy_process_group()


def _steps(folder: Path, rank: int, job: dict) -> dict:
    schedule = folder / "schedule.csv"
    with schedule.open(newline="") as file:
        cells = list(csv.reader(file))[rank]
    own = sorted({int(cell.rstrip("0123456789")[:-1]) for cell in cells})
    modules = make_stages(job["stages"], getattr(torch, job["dtype"]))
    for index, module in enumerate(modules):
        module.pauses = tuple(job["pauses"][index])
    stages = [
        PipelineStage(modules[index], index, job["stages"], torch.device("cpu")) for index in own
    ]
    runtime = _PipelineScheduleRuntime(stages, job["micro_batches"], loss_fn=loss_of)
    runtime._load_csv(str(schedule), format="compute_only")
    tokens, target = make_batch(job["micro_batches"])
    inputs = [tokens] if 0 in own else []
    losses: list[torch.Tensor] = []
    wanted = {"target": target, "losses": losses} if job["stages"] - 1 in own else {}
    seconds = []
    for _ in range(job["steps"]):
        for index in own:
            modules[index].zero_grad(set_to_none=True)
        dist.barrier()
        began = time.perf_counter()
        runtime.step(*inputs, **wanted)
        seconds.append(time.perf_counter() - began)
    gradients = {
        f"{index}.{name}": parameter.grad
        for index in own
        for name, parameter in modules[index].named_parameters()
    }
    return {"losses": [loss.item() for loss in losses], "gradients": gradients, "seconds": seconds}


if __name__ == "__main__":
    sys.exit(0 if all(run_job(Path(folder)) for folder in sys.argv[1:]) else 1)
