"""What a second worker of a cluster is worth to ``solve --dask``.

Workers are processes of this machine, one thread each, beside a scheduler of their own. Two workers
are compared with one worker in the same time and with one worker in twice the time: the second says
what is lost by searching in parallel, whatever else runs on the machine.

The study is ``results/workers/study.toml``: ``milp-plan table results/workers``.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from milp_plan import run

INSTANCES = Path(__file__).resolve().parent.parent / "instances"

Row = dict[str, Any]


def measure(case: dict[str, Any]) -> Row:
    """Search one instance with this many workers."""
    from distributed import Client, LocalCluster

    _, problem = run.read(INSTANCES / case["file"])
    with (
        LocalCluster(
            n_workers=case["workers"], threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        before = spent(client)
        settings = run.Settings(time_limit_s=case["limit"], seed=0, dask=cluster.scheduler_address)
        outcome = run.solve(problem, settings)
        seconds = spent(client) - before
    if outcome.verdict is None or not outcome.verdict.ok:
        raise RuntimeError(f"{problem.name}: no valid plan")
    told = outcome.record["cluster"]
    workers = list(told["workers"].values())
    return {
        "name": problem.name,
        "value": outcome.value,
        "processor_s": round(seconds, 1),
        "lost": told["rounds"]["lost"],
        **{
            key: sum(worker[key] for worker in workers) for key in ("rounds", "schedules", "models")
        },
    }


def spent(client: Any) -> float:
    """Processor seconds of all workers so far, with those of their own processes."""
    return float(sum(sum(times[:4]) for times in client.run(os.times).values()))


def present(rows: list[Row]) -> Row:
    """Schedules a second, and what two workers do beside one."""
    instances: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        row["each"] = row["schedules"] / row["processor_s"]
        row["value_ms"] = row["value"] / 1e6
        instances[row["name"]].append(row)
    for listed in instances.values():
        alone = min((r for r in listed if r["workers"] == 1), key=lambda r: r["limit"])
        for row in listed:
            row["times"] = row["schedules"] / alone["schedules"]
            row["rate"] = row["each"] / alone["each"]
            row["better"] = 1 - row["value"] / alone["value"]
    pairs = [row for row in rows if row["workers"] == 2]
    return {
        "times": median([row["times"] for row in pairs]),
        "rate": median([row["rate"] for row in pairs]),
    }


def complaints(rows: list[Row]) -> list[str]:
    """Workers that were lost without anybody's doing."""
    return [f"{row['name']}: {row['lost']} workers lost" for row in rows if row["lost"]]
