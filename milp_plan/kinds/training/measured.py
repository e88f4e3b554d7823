"""Measured training steps: one row of a CSV file is a model, a cluster, a configuration, a time.

======================= ==========================================================================
column                  meaning
======================= ==========================================================================
``model``               name; one of ours gives the dimensions that are empty
``layers``, ``hidden``  blocks and their width
``heads``, ``kv_heads`` heads of queries, and of keys and values (as many if empty)
``ffn``, ``gated``      inner width (4 x hidden if empty); 1 for three projections (else by
                        ``params_B``, else 0)
``vocab``, ``tied``     rows of the embedding (51200 if empty), 1 if the head shares it (if empty,
                        it does unless the blocks are gated)
``seq``, ``params_B``   tokens of a sample, parameters in 10^9
``gpu``, ``gpus``       device class and number of devices
``node_devices``        devices of a node (8 if empty)
``network_gbit_per_s``  of one device between nodes (that of the class if empty)
``tp pp vpp dp cp ep``  degrees: tensor, pipeline, virtual stages, data, context, expert (1)
``zero_stage``          sharding of the optimizer, 0 to 3 (0 if empty)
``stage_layers``        blocks of each pipeline device, ``9-9-8-6`` (an even split if empty)
``micro_batch``         samples of a micro-batch
``global_batch``        samples of a step
``recompute``           ``none``, ``attention``, ``full`` (none if empty)
``schedule``            ``1f1b`` if empty, ``interleaved`` if there are virtual stages
``sequence_parallel``   1 or 0 (0 if empty)
``dtype``               ``fp8``, or anything else for 16 bits
``step_time_s``         measured step; or ``tokens_per_s``; both empty if only memory was measured
``memory_gb``           measured peak of a device, in 10^9 bytes
``status``              ``crashed`` for a run that did not fit
======================= ==========================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from milp_plan.core import Finding, InputError
from milp_plan.cost.devices import DEVICES, device_spec

from .architecture import Architecture
from .blocks import Attention, Block, Mlp
from .cluster import ALIASES, NODE_DEVICES, DeviceGroup, TrainingCluster, device_group
from .configuration import Configuration, Precision, Recompute, Schedule
from .models import MODELS, model
from .rows import MOST_BLOCKS, BadFieldError, Row, read_rows

VOCABULARY = 51_200
"""Rows of the embedding where a file does not say: GPT-2's, as Megatron pads them."""


@dataclass(frozen=True)
class Measured:
    """One measured run.

    Parameters
    ----------
    row
        Number of the line in its file, the header being line 1.
    architecture, cluster, configuration, sequence
        What ran.
    step_s
        Measured seconds of a step; ``None`` if they are not known.
    memory_bytes
        Measured peak of a device; ``None`` if it is not known.
    crashed
        Whether the run did not get through.
    """

    row: int
    architecture: Architecture
    cluster: TrainingCluster
    configuration: Configuration
    sequence: int
    step_s: float | None
    memory_bytes: float | None
    crashed: bool = False

    @property
    def device(self) -> str:
        """Name of the device class."""
        return self.cluster.groups[0].device.name


def read_measured(path: str | Path) -> list[Measured]:
    """Return the measured runs of a CSV file.

    Raises
    ------
    InputError
        Every row and field that is wrong.
    """
    _, rows = read_rows(path, "a CSV file of measured runs")
    if not rows:
        finding = Finding("rows", "none", "at least one row below the header", "add measured runs")
        raise InputError([finding]).in_file(str(path))
    return measured_rows(rows, str(path))


def measured_rows(rows: Iterable[Mapping[str, str]], file: str = "") -> list[Measured]:
    """Return the measured runs of rows that are already read."""
    runs, findings = [], []
    for number, fields in enumerate(rows, 2):
        row = _Row(number, fields)
        try:
            runs.append(row.measured())
        except InputError as error:
            findings += [
                replace(each, where=f"row {number}, {each.where}") for each in error.findings
            ]
        except BadFieldError as bad:
            findings.append(bad.finding)
    if findings:
        raise InputError(findings).in_file(file)
    return runs


class _Row(Row):
    """One measured run."""

    # -- parts -------------------------------------------------------------------------------

    def measured(self) -> Measured:
        architecture = self.architecture()
        sequence = self.integer("seq", architecture.sequence)
        configuration = self.configuration()
        cluster = self.cluster(configuration)
        step = self.optional("step_time_s")
        if step is None and self.text("tokens_per_s"):
            step = configuration.global_batch * sequence / max(self.number_of("tokens_per_s"), 1e-9)
        memory = self.optional("memory_gb")
        crashed = self.text("status").lower().startswith("crash")
        if step is None and memory is None and not crashed:
            raise self.bad("step_time_s", "seconds, or tokens_per_s, memory_gb or a status")
        if step == 0:
            raise self.bad("step_time_s", "a time above 0")
        return Measured(
            *(self.number, architecture, cluster, configuration, sequence, step),
            memory * 1e9 if memory is not None else None,
            crashed,
        )

    def architecture(self) -> Architecture:
        name = self.text("model")
        if not self.text("hidden") and name.lower() in MODELS:
            return model(name)
        hidden, layers = self.integer("hidden"), self.integer("layers", most=MOST_BLOCKS)
        heads = self.integer("heads")
        if hidden % heads:
            raise self.bad("heads", f"a divisor of hidden {hidden}")
        kv_heads = self.integer("kv_heads", heads)
        inner = self.integer("ffn", 4 * hidden)
        vocabulary = self.integer("vocab", VOCABULARY, 0)
        attention = Attention(heads, kv_heads, hidden // heads)

        def made(gated: bool) -> Architecture:
            block = Block(hidden, attention, Mlp(inner, gated), norm_bias=not gated)
            tied = self.one_of("tied", _FLAGS, "0" if gated else "1") == "1"
            return Architecture(
                name or "measured", (block,) * layers, vocabulary, self.integer("seq"), tied=tied
            )

        if self.text("gated"):
            return made(self.one_of("gated", _FLAGS, "0") == "1")
        published = self.optional("params_B")
        if not published:
            return made(False)
        return min(
            (made(gated) for gated in (False, True)),
            key=lambda each: abs(each.parameters - published * 1e9),
        )

    def cluster(self, configuration: Configuration) -> TrainingCluster:
        devices = self.integer("gpus")
        if devices != configuration.devices:
            product = f"the product of tp, cp, dp and pp, {configuration.devices}"
            raise self.bad("gpus", product)
        name = self.text("gpu")
        name = ALIASES.get(name, name)
        if name not in DEVICES:
            raise self.bad("gpu", f"one of {', '.join(sorted({*DEVICES, *ALIASES}))}")
        node = min(devices, self.integer("node_devices", NODE_DEVICES))
        if devices % node:
            raise self.bad("gpus", f"whole nodes of {node} devices")
        group = device_group(device_spec(name), devices // node, node)
        if configuration.recompute is Recompute.OFFLOAD and group.device.host is None:
            raise self.bad("recompute", f"another way, as nothing is known of the hosts of {name}")
        network = self.optional("network_gbit_per_s")
        if network and len(group.levels) > 1:
            group = _with_network(group, network)
        return TrainingCluster(f"{devices}x{name}", (group,), group.levels[-1].link)

    def configuration(self) -> Configuration:
        degrees: dict[str, Any] = {
            name: self.integer(column, 1)
            for name, column in (
                *(("tensor", "tp"), ("pipeline", "pp"), ("virtual", "vpp")),
                *(("context", "cp"), ("expert", "ep"), ("micro_batch", "micro_batch")),
            )
        }
        gpus = self.integer("gpus")
        inner = degrees["tensor"] * degrees["context"] * degrees["pipeline"]
        data = self.integer("dp", max(1, gpus // inner))
        batch = self.integer("global_batch", data * degrees["micro_batch"])
        share = data * degrees["micro_batch"]
        if batch % share:
            raise self.bad("global_batch", f"a multiple of dp x micro_batch, {share}")
        virtual = degrees["virtual"] > 1
        schedule = self.one_of("schedule", _SCHEDULES, "interleaved" if virtual else "1f1b")
        return Configuration(
            **degrees,
            layers=self.stage_layers(),
            data=data,
            micro_batches=batch // share,
            schedule=Schedule(schedule),
            sequence_parallel=self.one_of("sequence_parallel", _FLAGS, "0") == "1",
            recompute=Recompute(self.one_of("recompute", _RECOMPUTE, "none")),
            zero=self.integer("zero_stage", 0, 0),
            precision=Precision.FP8 if "fp8" in self.text("dtype").lower() else Precision.BF16,
        )

    def stage_layers(self) -> tuple[int, ...]:
        text = self.text("stage_layers")
        if not text:
            return ()
        try:
            layers = tuple(int(part) for part in text.split("-"))
        except ValueError:
            raise self.bad("stage_layers", "whole numbers joined by -") from None
        wanted = self.integer("pp", 1) * self.integer("vpp", 1), self.integer("layers")
        if (len(layers), sum(layers)) != wanted:
            raise self.bad("stage_layers", f"{wanted[0]} numbers that sum to {wanted[1]}")
        return layers


_FLAGS = {"0": "0", "1": "1", "false": "0", "true": "1"}
_SCHEDULES = {str(each): str(each) for each in Schedule}
_RECOMPUTE = {str(each): str(each) for each in Recompute} | {"selective": "attention"}


def _with_network(group: DeviceGroup, gbit_per_s: float) -> DeviceGroup:
    link = replace(group.levels[-1].link, bandwidth_bytes_per_s=round(gbit_per_s * 1e9 / 8))
    return replace(group, levels=(*group.levels[:-1], replace(group.levels[-1], link=link)))
