"""Models as measured layers: a CSV file of times, activations and parameters of each layer.

=================== ==========================================================
column
=================== ==========================================================
``name``            of the layer
``kind``            of the layer, such as ``embedding``, ``block``, ``head``
``forward_ms``      of one micro-batch on one device
``backward_ms``     of inputs and weights together
``activation_bytes`` what its backward pass needs of its forward pass
``parameters``      of the layer, all trained
``weight_ms``       part of ``backward_ms`` that makes gradients of weights; half if empty
``output_bytes``    what the next layer reads; 0 if empty, and then sending takes a latency alone
                    and nothing can be computed again
=================== ==========================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from milp_plan.core import Finding, InputError

from .architecture import Architecture
from .blocks import Attention, Block, Mlp
from .rows import BadFieldError, Row, read_rows

COLUMNS = ("name", "kind", "forward_ms", "backward_ms", "activation_bytes", "parameters")
"""Columns that a file must have."""


@dataclass(frozen=True, slots=True)
class MeasuredBlock(Block):
    """A layer with measured times in place of dimensions.

    Parameters
    ----------
    name, kind
        Of the layer.
    forward_s, backward_s, weight_s
        Seconds of one micro-batch: forward, backward for inputs, and for weights.
    activation_bytes
        What the backward pass needs of the forward pass.
    input_bytes, output_bytes
        What it reads of the layer before, and what the next one reads.
    count
        Its parameters.
    """

    name: str = ""
    kind: str = ""
    forward_s: float = 0.0
    backward_s: float = 0.0
    weight_s: float = 0.0
    activation_bytes: int = 0
    input_bytes: int = 0
    output_bytes: int = 0
    count: int = 0

    @property
    def parameters(self) -> int:
        """All its parameters."""
        return self.count

    @property
    def active_parameters(self) -> int:
        """All its parameters."""
        return self.count

    def flops(self, _sequence: int) -> int:
        """Return 0: operations are not known."""
        return 0

    def backward_flops(self, _sequence: int) -> int:
        """Return 0: operations are not known."""
        return 0


@dataclass(frozen=True)
class Profile(Architecture):
    """A row of measured layers.

    Parameters
    ----------
    samples
        Samples of the micro-batch that was measured.
    """

    samples: int = 1

    @property
    def measured_batch(self) -> int:
        """Samples of the micro-batch that was measured."""
        return self.samples

    @property
    def recomputable(self) -> bool:
        """Whether every layer but the last says what it sends."""
        return all(
            isinstance(layer, MeasuredBlock) and layer.output_bytes for layer in self.blocks[:-1]
        )

    @property
    def head_parameters(self) -> int:
        """None: every parameter is that of a layer."""
        return 0


def read_profile(path: Path, samples: int = 1) -> Profile:
    """Return the measured layers of a CSV file.

    Raises
    ------
    InputError
        A column that is missing, and every row and field that is wrong.
    """
    columns, rows = read_rows(path, "a CSV file of measured layers")
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        found = ", ".join(columns) or "nothing"
        what = f"column{'s' * (len(missing) > 1)} {', '.join(missing)}"
        expected, remedy = ("those too", "add them") if len(missing) > 1 else ("that too", "add it")
        finding = Finding(what, f"columns {found}", expected, remedy)
        raise InputError([finding]).in_file(str(path))
    if not rows:
        finding = Finding("rows", "none", "at least one row below the header", "add layers")
        raise InputError([finding]).in_file(str(path))
    layers, findings, before = [], [], 0
    for number, fields in enumerate(rows, 2):
        try:
            layers.append(_layer(Row(number, fields), before))
            before = layers[-1].output_bytes
        except BadFieldError as bad:
            findings.append(bad.finding)
    names = Counter(layer.name for layer in layers)
    findings += [
        Finding("name", f"{name!r} {count} times", "a name of its own for each layer", "rename it")
        for name, count in names.items()
        if count > 1
    ]
    if findings:
        raise InputError(findings).in_file(str(path))
    return Profile(path.stem, tuple(layers), vocabulary=0, sequence=1, samples=samples)


def _layer(row: Row, input_bytes: int) -> MeasuredBlock:
    name = row.text("name")
    if not name:
        raise row.bad("name", "a name")
    backward = row.number_of("backward_ms")
    weight = row.number_of("weight_ms", backward / 2)
    if weight > backward:
        raise row.bad("weight_ms", f"at most the backward_ms of {backward:g}")
    return MeasuredBlock(
        *(1, Attention(1, 1, 1), Mlp(1)),
        name=name,
        kind=row.text("kind"),
        forward_s=row.number_of("forward_ms") / 1e3,
        backward_s=(backward - weight) / 1e3,
        weight_s=weight / 1e3,
        activation_bytes=row.integer("activation_bytes", least=0),
        input_bytes=input_bytes,
        output_bytes=row.integer("output_bytes", 0, least=0),
        count=row.integer("parameters", least=0),
    )


def kinds_text(layers: tuple[Block, ...]) -> str:
    """Count the kinds of some measured layers: ``1 embedding, 8 block``."""
    counts: Mapping[str, int] = Counter(
        layer.kind or "layer" for layer in layers if isinstance(layer, MeasuredBlock)
    )
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "none"
