"""Published training runs as measured rows: what each file means, set by set.

The files are those of the folder ``measured-training`` of the public benchmarks. What a file leaves
open is filled in here, with the reason; nothing is taken from the times themselves.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from milp_plan.kinds.training.measured import Measured, measured_rows

Row = dict[str, str]

GIB = 2**30
PADDED_BLOOM = 250_880
"""Rows of BLOOM's embedding; the chronicles round them to 250k."""


@dataclass(frozen=True)
class RowSet:
    """Runs of one source.

    Parameters
    ----------
    name
        As the page writes it.
    file
        In the folder of measured runs.
    software
        Whose rates predict it.
    rows
        Makes rows of :func:`.measured_rows` from those of the file.
    """

    name: str
    file: str
    software: str
    rows: Callable[[Iterator[Row]], Iterator[Row]]

    def read(self, folder: Path) -> list[Measured]:
        """Return its runs."""
        path = folder / self.file
        with path.open(newline="", encoding="utf-8") as lines:
            return measured_rows(self.rows(iter(csv.DictReader(lines))), str(path))


def _single(rows: Iterator[Row]) -> Iterator[Row]:
    yield from rows


def _of(source: str, **filled: str) -> Callable[[Iterator[Row]], Iterator[Row]]:
    """Rows of a source that have a time, with what it leaves open."""

    def chosen(rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            if source in row["source"] and row["step_time_s"]:
                yield row | {name: row.get(name) or value for name, value in filled.items()}

    return chosen


def _bloom(rows: Iterator[Row]) -> Iterator[Row]:
    """Jean Zay: four 100 Gbit/s adapters for eight devices.

    Layers that are not printed follow from the parameters, heads from a head size near 128.
    Rows whose degrees do not multiply are dropped.
    """
    for row in _of("bigscience", network_gbit_per_s="50")(rows):
        degrees = int(row["tp"]) * int(float(row["pp"])) * int(float(row["dp"]))
        if degrees != int(float(row["gpus"])):
            continue
        hidden = int(float(row["hidden"]))
        if not row["layers"]:
            blocks = float(row["params_B"]) * 1e9 - PADDED_BLOOM * hidden
            row["layers"] = str(round(blocks / (12 * hidden * hidden)))
        if not row["heads"]:
            fitting = [n for n in range(8, 257, 8) if hidden % n == 0]
            row["heads"] = str(min(fitting, key=lambda n: abs(hidden / n - 128)))
        batch = int(float(row["global_batch"]))
        share = int(float(row["dp"])) * int(float(row["micro_batch"]))
        row["global_batch"] = str(max(1, round(batch / share)) * share)
        row["vocab"], row["gated"] = str(PADDED_BLOOM), "0"
        yield row


def _selene(rows: Iterator[Row]) -> Iterator[Row]:
    for row in _of("NVIDIA/Megatron-LM", network_gbit_per_s="200")(rows):
        if row["gpu"].startswith("A100"):
            yield row | {"recompute": "full", "gated": "0"}


def _weak_scaling(rows: Iterator[Row]) -> Iterator[Row]:
    """Megatron-LM's table of H100: step from Tflop/s, as 72 B s L h^2 (1 + s/6h + V/12hL).

    Micro-batches and virtual stages are not printed: one sample, and up to 6 chunks of a device.
    """
    for row in rows:
        if "NVIDIA/Megatron-LM" not in row["source"] or not row["gpu"].startswith("H100"):
            continue
        names = ("layers", "hidden", "vocab", "seq", "global_batch", "gpus", "pp")
        n, h, v, s, b, gpus, pp = (int(float(row[name])) for name in names)
        flops = 72 * b * s * n * h * h * (1 + s / (6 * h) + v / (12 * h * n))
        virtual = max(each for each in range(1, 7) if n // pp % each == 0) if pp > 1 else 1
        yield row | {
            "step_time_s": str(flops / (gpus * float(row["tflops_per_gpu"]) * 1e12)),
            "micro_batch": "1",
            "vpp": str(virtual),
            "sequence_parallel": "1",
            "zero_stage": "1",
            "gated": "0",
            "tied": "0",
        }


def _korthikanti(rows: Iterator[Row]) -> Iterator[Row]:
    for row in _of("calculon", network_gbit_per_s="200")(rows):
        selective = row["recompute"].startswith("selective")
        yield row | {
            "recompute": "selective" if selective else "full",
            "sequence_parallel": str(int(selective)),
            "gated": "0",
        }


def _ultrascale(rows: Iterator[Row]) -> Iterator[Row]:
    """Nanotron splits layers by their cost; runs that both ran and crashed are dropped."""
    chosen = list(rows)
    degrees = ("model", "gpus", "dp", "tp", "pp", "micro_batch", "grad_acc", "zero_stage")
    ends: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for row in chosen:
        ends[tuple(row[name] for name in degrees)].add(row["status"])
    for row in chosen:
        if len(ends[tuple(row[name] for name in degrees)]) > 1:
            continue
        batch = int(row["dp"]) * int(row["micro_batch"]) * int(row["grad_acc"])
        yield row | {
            "global_batch": str(batch),
            "memory_gb": row["gpu_memory_gb"],
            "sequence_parallel": "1",
            "gated": "1",
            "stage_layers": "-".join(map(str, nanotron_split(row))),
        }


def nanotron_split(row: Row) -> list[int]:
    """Return the blocks of each pipeline device as nanotron divides them.

    Blocks and head cost their parameters; a device takes blocks until their sum passes its share.
    Source: ``PipelineBlock`` and ``get_block_compute_costs`` of huggingface/nanotron.
    """
    hidden, layers, pp = int(row["hidden"]), int(row["layers"]), int(row["pp"])
    block = 4 * hidden * hidden + 3 * int(row["ffn"]) * hidden
    total = layers * block + int(row["vocab"]) * hidden
    counts, rank = [0] * pp, 0
    for index in range(layers):
        counts[rank] += 1
        if (index + 1) * block * pp > total * (rank + 1) and rank < pp - 1:
            rank += 1
    return counts


def _simumax(rows: Iterator[Row]) -> Iterator[Row]:
    """Dense models alone: which four layers of the DeepSeek models ran is not printed."""
    for row in _of("SimuMax", sequence_parallel="1", network_gbit_per_s="400")(rows):
        peak = re.search(r"peak allocated ([\d.]+) GiB", row["notes"])
        if row["model"].startswith("llama3") and peak:
            memory = str(float(peak[1]) * GIB / 1e9)
            yield row | {"kv_heads": "8", "gated": "1", "memory_gb": memory}


def _foundry(rows: Iterator[Row]) -> Iterator[Row]:
    """MPT under PyTorch FSDP in 16 bits; the head shares the embedding."""
    for row in _of("llm-foundry", gated="0", tied="1")(rows):
        if "fp8" not in row["dtype"]:
            yield row


def _torchtitan(rows: Iterator[Row]) -> Iterator[Row]:
    """Llama 3.1 70B in 16 bits, tensor parallelism in nodes and FSDP2 between them."""
    for row in _of("torchtitan", sequence_parallel="1")(rows):
        if row["dtype"] == "bf16":
            yield row | {"gpu": "H100", "model": "llama3-70b", "hidden": ""}


def _bridge(rows: Iterator[Row]) -> Iterator[Row]:
    """GPT-OSS 120B in bf16; GB systems join 72 devices, and 64 of them are one node here."""
    for row in _of("Megatron-Bridge", sequence_parallel="0", zero_stage="1")(rows):
        if row["dtype"] == "BF16":
            node = "64" if row["gpu"].startswith("GB") else "8"
            yield row | {"model": "gpt-oss-120b", "node_devices": node}


RUNS = "runs.csv"
SETS = {
    each.name: each
    for each in (
        RowSet("vTrain, one node", "vtrain-single.csv", "megatron-2021", _single),
        RowSet(
            *("vTrain, 64 to 512", RUNS, "megatron-2021"),
            _of("vTrain", network_gbit_per_s="100"),
        ),
        RowSet("BLOOM", RUNS, "megatron-deepspeed", _bloom),
        RowSet("Megatron SC21", RUNS, "megatron-2021", _selene),
        RowSet("Korthikanti et al.", RUNS, "megatron-2021", _korthikanti),
        RowSet("Ultrascale", "ultrascale.csv", "nanotron", _ultrascale),
        RowSet("llm-foundry", RUNS, "fsdp", _foundry),
        RowSet("torchtitan", RUNS, "fsdp", _torchtitan),
        RowSet("SimuMax", RUNS, "megatron-core", _simumax),
        RowSet("Megatron-LM, H100", RUNS, "megatron-core", _weak_scaling),
        RowSet("Megatron-Bridge bf16", RUNS, "megatron-core", _bridge),
    )
}
"""Name -> set."""
