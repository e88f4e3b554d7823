"""Architectures: layers, their work, and their inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from milp_plan.core import Finding, InputError
from milp_plan.cost.mesh import MeshOperator
from milp_plan.cost.strategies import WAY_SPLITS

KINDS = frozenset(
    {
        "add",
        "attention",
        "combine",
        "concat",
        "conv",
        "crop",
        "dispatch",
        "elementwise",
        "embedding",
        "expert",
        "linear",
        "loss",
        "norm",
        "pool",
        "router",
        "softmax",
        "upsample",
    }
)
"""All kinds of layers."""

SPLITS = WAY_SPLITS
"""All ways to split a layer over the devices of a group (``milp_plan.cost.strategies``)."""


@dataclass(frozen=True)
class Layer:
    """One layer; all figures are for one sample (or one sequence) and a forward pass.

    Parameters
    ----------
    name
        Unique in the architecture.
    kind
        One of :data:`KINDS`.
    inputs
        Names of the layers it reads; empty where it reads the input batch.
    flops
        Floating-point operations of the forward pass; a multiply-add counts as two.
    parameters
        Number of trained parameters of this layer.
    output_elements
        Elements of the output.
    moved_elements
        Elements that the forward pass reads and writes per sample, the memory side of the
        roofline. Parameters, which are read once per batch, are not counted here. ``None``:
        output elements, plus those of every input.
    workspace_elements
        Scratch elements of the layer while it runs.
    splits
        Allowed splits over several devices, from :data:`SPLITS`.
    block
        Label of the repeated block it belongs to.
    shares
        Name of an earlier layer whose parameters it also uses (tied embeddings).
    saved_elements
        Elements that the forward pass saves for this layer's own backward pass, without inputs and
        output: tensors between the parts of a fused layer.
    weight_flops
        Part of ``flops`` that multiplies with parameters; the backward pass repeats it once for
        the weights, everything else twice for the inputs. ``None``: all of it where the layer
        has parameters, otherwise nothing.
    scattered
        Each reader gets its own equal part of the output (tokens dispatched to experts).
    no_gradient
        Inputs through which no gradient flows (routing decisions).
    space
        Its loops and tensors for one sample, for strategies on device meshes; one input tensor per
        layer it reads, or one for the input batch.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    flops: int
    parameters: int
    output_elements: int
    moved_elements: int | None = None
    workspace_elements: int = 0
    splits: tuple[str, ...] = ()
    block: str | None = None
    shares: str | None = None
    saved_elements: int = 0
    weight_flops: int | None = None
    scattered: bool = False
    no_gradient: tuple[str, ...] = ()
    space: MeshOperator | None = None

    @property
    def has_weights(self) -> bool:
        """Whether it uses parameters, its own or shared ones."""
        return self.parameters > 0 or self.shares is not None

    @property
    def flops_with_weights(self) -> int:
        """``weight_flops``, with its default."""
        if self.weight_flops is not None:
            return self.weight_flops
        return self.flops if self.has_weights else 0


@dataclass(frozen=True)
class Architecture:
    """Layers in topological order.

    Parameters
    ----------
    name
        For example ``"resnet50"``.
    layers
        Producers first; the last one is the loss.
    input_elements
        Elements of one input sample.
    source
        Paper or model card of the published figures.
    precision_bytes
        Bytes of one activation or weight element.

    Raises
    ------
    InputError
        A duplicate name, an unknown kind or split, an input that is not an earlier layer, or a
        negative figure.
    """

    name: str
    layers: tuple[Layer, ...]
    input_elements: int
    source: str
    precision_bytes: int = 2

    def __post_init__(self) -> None:
        findings: list[Finding] = []
        earlier: set[str] = set()
        for layer in self.layers:
            findings += _findings(layer, earlier)
            earlier.add(layer.name)
        if not self.layers:
            findings.append(Finding("layers", "none", "at least one", "add a layer"))
        if findings:
            raise InputError(findings).in_file(f"architecture {self.name}")

    @property
    def flops(self) -> int:
        """Forward floating-point operations for one sample."""
        return sum(layer.flops for layer in self.layers)

    @property
    def parameters(self) -> int:
        """Trained parameters, shared ones counted once."""
        return sum(layer.parameters for layer in self.layers)

    @cached_property
    def _layers(self) -> dict[str, Layer]:
        return {layer.name: layer for layer in self.layers}

    def layer(self, name: str) -> Layer:
        """Return the layer of that name; ``KeyError`` if there is none."""
        return self._layers[name]

    @cached_property
    def readers(self) -> dict[str, tuple[str, ...]]:
        """Layer -> layers that read its output, in topological order."""
        found: dict[str, list[str]] = {layer.name: [] for layer in self.layers}
        for layer in self.layers:
            for name in layer.inputs:
                found[name].append(layer.name)
        return {name: tuple(readers) for name, readers in found.items()}

    def moved_elements(self, layer: Layer) -> int:
        """Return the elements per sample that a layer's forward pass moves, without weights."""
        if layer.moved_elements is not None:
            return layer.moved_elements
        return layer.output_elements + self.elements_read(layer)

    def elements_read(self, layer: Layer) -> int:
        """Return the elements per sample of all inputs of the layer."""
        if not layer.inputs:
            return self.input_elements
        return sum(self._layers[name].output_elements for name in layer.inputs)


def _findings(layer: Layer, earlier: set[str]) -> list[Finding]:
    where = f"layer {layer.name!r}"
    findings = []
    if layer.name in earlier:
        findings.append(Finding(where, "the name twice", "unique names", "rename one"))
    if layer.kind not in KINDS:
        findings.append(
            Finding(f"{where} kind", repr(layer.kind), f"one of {sorted(KINDS)}", "correct it")
        )
    for split in layer.splits:
        if split not in SPLITS:
            findings.append(
                Finding(f"{where} splits", repr(split), f"one of {sorted(SPLITS)}", "correct it")
            )
    before = (*layer.inputs, *([] if layer.shares is None else [layer.shares]))
    for name in before:
        if name not in earlier:
            findings.append(
                Finding(f"{where} inputs", repr(name), "an earlier layer", "reorder or rename")
            )
    if len(set(layer.inputs)) < len(layer.inputs):
        findings.append(Finding(f"{where} inputs", "a name twice", "each once", "list it once"))
    if not set(layer.no_gradient) <= set(layer.inputs):
        findings.append(
            Finding(f"{where} no_gradient", str(layer.no_gradient), "some of its inputs", "fix it")
        )
    figures = (layer.flops, layer.parameters, layer.output_elements, layer.workspace_elements)
    extra = (layer.moved_elements or 0, layer.saved_elements, layer.weight_flops or 0)
    if min(*figures, *extra) < 0:
        findings.append(
            Finding(where, "a negative figure", "numbers of at least 0", "correct the number")
        )
    return findings
