"""Builds planning problems of architectures: inference, or a whole training step.

Operators and values of a layer ``l``:

=============== ==========================================================================
``l.F``         forward; writes ``l.y`` and, for fused layers, ``l.saved``
``l.B``         backward for the inputs; writes one gradient per input that needs one
``l.W``         backward for the weights; writes ``l.dw``
``l.U``         optimizer update, once per step; reads every ``l.dw``
``l.A``         sums the gradients that several readers send back, as a small operator
``l.weights``   persistent: weights
``l.state``     persistent: optimizer state
=============== ==========================================================================

Conventions:

* A layer that only reads the input batch has no ``.B``; the batch itself is not modelled: it
  is available everywhere.
* ``add`` has no backward operator: its gradient is passed on without a copy.
* The operators of a layer with weights share one colocation group. Tied weights are held by both
  layers; the gradient travels to the owner's update, and the new weights back to the other's.
* Mixed-precision Adam takes 16 bytes per parameter (Rajbhandari et al., ZeRO, 2020, section 3.1):
  2 weights, 2 gradient, 12 master weights and two moments. With one micro-batch the gradient is a
  value of its own; with several it is accumulated in a persistent buffer, and ``l.dw`` only orders
  the update behind it.
* The forward pass costs the layer's flops, the backward pass twice as much: once for the weights,
  the rest for the inputs. Nothing is recomputed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from milp_plan.core import (
    UPDATE_KIND,
    Cluster,
    ComputationGraph,
    Finding,
    InputError,
    Objective,
    Option,
    PlanningProblem,
    ceil_div,
)
from milp_plan.cost.clusters import plain, sources
from milp_plan.cost.strategies import (
    SINGLE,
    LayerStrategy,
    Work,
    durations_ticks,
    parse_labels,
    ways,
)

from .architecture import Architecture, Layer
from .draft import Draft

GENERATOR_VERSION = "1"
"""Raised when the same arguments give another problem."""

MIXES_FEATURES = frozenset({"conv", "embedding", "linear", "router"})
"""Kinds whose split by column reads the whole input."""

BACKWARD_READS_INPUTS = frozenset(
    {"attention", "combine", "elementwise", "expert", "loss", "norm", "pool"}
)
"""Kinds whose input gradient depends on their inputs."""

BACKWARD_READS_OUTPUT = frozenset({"attention", "loss", "softmax"})
"""Kinds whose input gradient depends on their output."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """Bytes per parameter.

    Parameters
    ----------
    state_bytes
        Bytes between steps, without weights and gradient.
    moved_bytes
        Bytes that one update reads and writes.
    """

    state_bytes: int
    moved_bytes: int


OPTIMIZERS = {
    # master weights and two moments in 4 bytes each; reads them and the gradient, writes them
    # and the weights
    "adam": Optimizer(state_bytes=12, moved_bytes=28),
    # master weights and momentum
    "sgd": Optimizer(state_bytes=8, moved_bytes=20),
}
"""Optimizer name -> figures."""

GRADIENT_BYTES = 2
UPDATE_FLOPS = 12


class _Builder:
    """Turns layers into operators; one for each problem."""

    def __init__(
        self, architecture: Architecture, draft: Draft, optimizer: Optimizer | None, fused: bool
    ) -> None:
        self.architecture = architecture
        self.draft = draft
        self.optimizer = optimizer
        self.gradient_in_state = fused
        self.element = architecture.precision_bytes
        self.trainable: dict[str, bool] = {}
        self.contributions: dict[str, list[str]] = {}

    def ways(self, layer: Layer) -> tuple[LayerStrategy, ...]:
        draft = self.draft
        pointwise = layer.kind not in MIXES_FEATURES
        return ways(layer.splits, draft.requested, batch=draft.samples, pointwise=pointwise)

    def size(self, elements: int) -> int:
        """Return the bytes of ``elements`` per sample for the whole micro-batch."""
        return elements * self.draft.samples * self.element

    def parameters(self, layer: Layer) -> int:
        owned = layer.parameters
        return owned + (self.architecture.layer(layer.shares).parameters if layer.shares else 0)

    def weights(self, layer: Layer) -> list[str]:
        """Return names of the persistent weights that a layer reads."""
        names = [f"{layer.name}.weights"] if layer.parameters else []
        return names + ([f"{layer.shares}.weights"] if layer.shares else [])

    def weight_bytes(self, layer: Layer) -> int:
        """Return weights moved by one pass; an embedding touches only the rows it looks up."""
        return 0 if layer.kind == "embedding" else self.parameters(layer) * self.element

    def option(
        self,
        way: LayerStrategy,
        work: Work,
        reads: dict[str, str],
        writes: dict[str, str],
        workspace: int = 0,
    ) -> Option:
        share = ceil_div(workspace, way.gang) if way.divides else workspace
        durations = durations_ticks(work, way, self.draft.cluster)
        return Option(way.name, durations, way.gang, share, reads, writes)

    def output(self, layer: Layer, reader: str) -> str:
        return f"{layer.name}.y.{reader}" if layer.scattered else f"{layer.name}.y"

    def input_values(self, layer: Layer) -> list[str]:
        return [self.output(self.architecture.layer(name), layer.name) for name in layer.inputs]

    def own_outputs(self, layer: Layer) -> list[str]:
        if not layer.scattered:
            return [f"{layer.name}.y"]
        return [f"{layer.name}.y.{reader}" for reader in self.architecture.readers[layer.name]]

    # forward ---------------------------------------------------------------------------------

    def forward(self, layer: Layer) -> None:
        draft, name = self.draft, f"{layer.name}.F"
        if layer.parameters:
            draft.value(f"{layer.name}.weights", layer.parameters * self.element, None)
            if self.optimizer is not None:
                buffer = GRADIENT_BYTES if self.gradient_in_state else 0
                size = layer.parameters * (self.optimizer.state_bytes + buffer)
                draft.value(f"{layer.name}.state", size, None)
        outputs = self.own_outputs(layer)
        for value in outputs:
            draft.value(value, ceil_div(self.size(layer.output_elements), len(outputs)), name)
        saves = self.optimizer is not None and layer.saved_elements > 0
        if saves:
            draft.value(f"{layer.name}.saved", self.size(layer.saved_elements), name)
        options = []
        moved = self.size(self.architecture.moved_elements(layer) + layer.saved_elements * saves)
        for way in self.ways(layer):
            work = Work(
                layer.flops * draft.samples,
                moved,
                self.weight_bytes(layer),
                self.size(layer.output_elements) if way.reduces_output else 0,
                self._exchanged(layer, way),
            )
            reads = dict.fromkeys(self.input_values(layer), way.reads)
            reads |= dict.fromkeys(self.weights(layer), way.weights)
            writes = dict.fromkeys(outputs, way.writes)
            if saves:
                writes[f"{layer.name}.saved"] = _saved_layout(way)
            workspace = self.size(layer.workspace_elements)
            options.append(self.option(way, work, reads, writes, workspace))
        draft.operator(name, options, layer, "forward")

    def _exchanged(self, layer: Layer, way: LayerStrategy) -> int:
        if not way.exchanges:
            return 0
        return self.size(self.architecture.elements_read(layer) + layer.output_elements)

    # backward --------------------------------------------------------------------------------

    def backward(self) -> None:
        layers = self.architecture.layers
        for layer in layers:
            self.trainable[layer.name] = layer.has_weights or any(
                self.trainable[name] for name in layer.inputs if name not in layer.no_gradient
            )
            self.contributions[layer.name] = []
        for layer in reversed(layers):
            if not self.trainable[layer.name]:
                continue
            last = layer is layers[-1]
            gradients = [] if last else self._gradients(layer)
            if not last and not gradients:
                raise InputError(
                    [
                        Finding(
                            f"layer {layer.name!r}",
                            "no path to the loss",
                            "every trained layer to be read, up to the last layer",
                            "remove the layer or connect it",
                        )
                    ]
                )
            towards = [
                name
                for name in layer.inputs
                if name not in layer.no_gradient and self.trainable[name]
            ]
            if layer.kind == "add":
                for name in towards:
                    known = self.contributions[name]
                    known += [value for value in gradients if value not in known]
                continue
            if towards:
                self._backward_input(layer, gradients, towards)
            if layer.has_weights:
                self._backward_weight(layer, gradients)

    def _gradients(self, layer: Layer) -> list[str]:
        """Return values of the gradient of a layer's output, summed where there are several."""
        gradients = self.contributions[layer.name]
        if layer.scattered or len(gradients) <= 1:
            return gradients
        name = f"{layer.name}.A"
        total = self.draft.value(f"{layer.name}.dy", self.size(layer.output_elements), name)
        elements = layer.output_elements * (len(gradients) + 1)
        work = Work(
            (len(gradients) - 1) * layer.output_elements * self.draft.samples, self.size(elements)
        )
        options: dict[tuple[int, str], Option] = {}
        for way in self.ways(layer):
            key = (way.gang, way.writes)
            divided = replace(way, divides=way.gang == 1 or way.writes != "full", weights="full")
            if key not in options:
                reads = dict.fromkeys(gradients, way.writes)
                options[key] = self.option(divided, work, reads, {total: way.writes})
        self.draft.operator(name, options.values(), layer, "accumulate")
        return [total]

    def _needed(self, layer: Layer, way: LayerStrategy) -> dict[str, str]:
        """Return the saved activations that the backward pass for the inputs reads."""
        reads: dict[str, str] = {}
        if layer.kind in BACKWARD_READS_INPUTS or layer.saved_elements:
            reads |= dict.fromkeys(self.input_values(layer), way.reads)
        if layer.kind in BACKWARD_READS_OUTPUT:
            reads |= dict.fromkeys(self.own_outputs(layer), way.writes)
        if layer.saved_elements:
            reads[f"{layer.name}.saved"] = _saved_layout(way)
        return reads

    def _backward_input(self, layer: Layer, gradients: list[str], towards: list[str]) -> None:
        name = f"{layer.name}.B"
        written = []
        for target in towards:
            source = self.architecture.layer(target)
            size = self.size(source.output_elements)
            if source.scattered:
                size = ceil_div(size, len(self.architecture.readers[target]))
            written.append(self.draft.value(f"{target}.dy.{layer.name}", size, name))
            self.contributions[target].append(written[-1])
        flops = (2 * layer.flops - layer.flops_with_weights) * self.draft.samples
        elements = self.architecture.moved_elements(layer) + layer.saved_elements
        if layer.kind in BACKWARD_READS_INPUTS:
            elements += self.architecture.elements_read(layer)
        options = []
        for way in self.ways(layer):
            reduced = sum(self.draft.sizes[value] for value in written)
            work = Work(
                flops,
                self.size(elements),
                self.weight_bytes(layer),
                reduced if way.reduces_input_gradient else 0,
                self._exchanged(layer, way),
            )
            reads = dict.fromkeys(gradients, way.writes) | self._needed(layer, way)
            reads |= dict.fromkeys(self.weights(layer), way.weights)
            options.append(self.option(way, work, reads, dict.fromkeys(written, way.reads)))
        self.draft.operator(name, options, layer, "backward-input")

    def _backward_weight(self, layer: Layer, gradients: list[str]) -> None:
        name = f"{layer.name}.W"
        count = self.parameters(layer)
        size = 0 if self.gradient_in_state else count * GRADIENT_BYTES
        gradient = self.draft.value(f"{layer.name}.dw", size, name)
        elements = self.architecture.elements_read(layer) + layer.output_elements
        options = []
        for way in self.ways(layer):
            work = Work(
                layer.flops_with_weights * self.draft.samples,
                self.size(elements),
                self.weight_bytes(layer),
                count * GRADIENT_BYTES if way.reduces_weight_gradient else 0,
            )
            reads = dict.fromkeys(gradients, way.writes)
            reads |= dict.fromkeys(self.input_values(layer), way.reads)
            if layer.saved_elements:
                reads[f"{layer.name}.saved"] = _saved_layout(way)
            if layer is self.architecture.layers[-1]:
                reads[f"{layer.name}.y"] = way.writes
            options.append(self.option(way, work, reads, {gradient: way.weights}))
        self.draft.operator(name, options, layer, "backward-weight")

    # update ----------------------------------------------------------------------------------

    def update(self, layer: Layer) -> None:
        if not layer.has_weights:
            return
        assert self.optimizer is not None
        name = f"{layer.name}.U"
        sharers = [other for other in self.architecture.layers if other.shares == layer.name]
        reads_full: list[str] = self.weights(layer)
        writes: list[str] = []
        work = Work(0, 0)
        if layer.parameters:
            reads_full += [f"{layer.name}.state", f"{layer.name}.dw"]
            reads_full += [f"{other.name}.dw" for other in sharers]
            moved = layer.parameters * self.optimizer.moved_bytes
            work = Work(UPDATE_FLOPS * layer.parameters, 0, moved)
        if sharers:
            size = layer.parameters * self.element
            writes.append(self.draft.value(f"{layer.name}.new", size, name))
        if layer.shares:
            shared = self.architecture.layer(layer.shares).parameters
            work = replace(work, weight_bytes=work.weight_bytes + 2 * shared * self.element)
            reads_full.append(f"{layer.shares}.new")
        options: dict[tuple[int, str], Option] = {}
        for way in self.ways(layer):
            key = (way.gang, way.weights)
            if key not in options:
                # what the weights' layout leaves whole, every device updates as a whole
                whole = replace(way, divides=way.weights != "full" or way.gang == 1)
                reads = dict.fromkeys(reads_full, way.weights)
                options[key] = self.option(whole, work, reads, dict.fromkeys(writes, way.weights))
        self.draft.operator(name, options.values(), layer, UPDATE_KIND)


def _saved_layout(way: LayerStrategy) -> str:
    return way.name if way.divides and way is not SINGLE else "full"


def training_step(
    architecture: Architecture,
    cluster: Cluster,
    *,
    batch: int,
    micro_batches: int = 1,
    options: Iterable[str] = (),
    optimizer: str = "adam",
    objective: Objective = Objective.MAKESPAN,
    name: str | None = None,
) -> PlanningProblem:
    """Build one training step: forward, backward and update.

    Parameters
    ----------
    architecture, cluster
        Architecture and cluster; device classes must be named ones (``milp_plan.cost.DEVICES``)
        or have figures of their own (:class:`milp_plan.cost.ModelledCluster`).
    batch
        Samples (or sequences) of the whole step.
    micro_batches
        Number of parts of the batch; must divide ``batch``.
    options
        Ways to split layers, such as ``"column2"`` or ``"all2"`` (``milp_plan.cost.strategies``).
    optimizer
        ``"adam"`` or ``"sgd"`` (with momentum).
    objective, name
        Objective and name of the problem.

    Raises
    ------
    InputError
        Unknown optimizer, device class or option, a batch that does not divide, or a layer that
        does not lead to the loss.
    """
    check_counts(batch, micro_batches)
    if optimizer not in OPTIMIZERS:
        expected = f"one of {', '.join(sorted(OPTIMIZERS))}"
        raise InputError([Finding("optimizer", repr(optimizer), expected, "correct the name")])
    labels = tuple(options)
    draft = Draft(cluster, batch // micro_batches, parse_labels(labels, cluster))
    builder = _Builder(architecture, draft, OPTIMIZERS[optimizer], micro_batches > 1)
    for layer in architecture.layers:
        builder.forward(layer)
    builder.backward()
    for layer in architecture.layers:
        builder.update(layer)
    graph = draft.graph()
    if micro_batches > 1:
        graph = graph.unroll(micro_batches)
    details = {"mode": "training", "batch": str(batch), "micro_batches": str(micro_batches)}
    details |= {"optimizer": optimizer, "options": " ".join(labels)}
    return _problem(architecture, cluster, graph, details, objective=objective, name=name)


def inference(
    architecture: Architecture,
    cluster: Cluster,
    *,
    batch: int,
    micro_batches: int = 1,
    options: Iterable[str] = (),
    objective: Objective = Objective.MAKESPAN,
    name: str | None = None,
) -> PlanningProblem:
    """Build one forward pass, without the loss; parameters as for :func:`training_step`.

    Raises
    ------
    InputError
        Unknown device class or option, a batch that does not divide, or nothing but a loss.
    """
    check_counts(batch, micro_batches)
    labels = tuple(options)
    layers = tuple(layer for layer in architecture.layers if layer.kind != "loss")
    forward = replace(architecture, layers=layers)
    draft = Draft(cluster, batch // micro_batches, parse_labels(labels, cluster))
    builder = _Builder(forward, draft, None, False)
    for layer in forward.layers:
        builder.forward(layer)
    graph = draft.graph()
    if micro_batches > 1:
        graph = graph.unroll(micro_batches)
    details = {"mode": "inference", "batch": str(batch), "micro_batches": str(micro_batches)}
    details |= {"options": " ".join(labels)}
    return _problem(architecture, cluster, graph, details, objective=objective, name=name)


def check_counts(batch: int, micro_batches: int) -> None:
    """Refuse counts below 1, and micro-batches of different sizes.

    Raises
    ------
    InputError
        A count is wrong; the error lists both findings.
    """
    findings = []
    for where, number in (("batch", batch), ("micro_batches", micro_batches)):
        if number < 1:
            findings.append(Finding(where, str(number), "at least 1", "ask for more"))
    if not findings and batch % micro_batches:
        found = f"{micro_batches} for a batch of {batch}"
        findings.append(Finding("micro_batches", found, "a divisor of the batch", "choose another"))
    if findings:
        raise InputError(findings)


def _problem(
    architecture: Architecture,
    cluster: Cluster,
    graph: ComputationGraph,
    details: dict[str, str],
    *,
    objective: Objective,
    name: str | None,
) -> PlanningProblem:
    provenance = {
        "generator": f"milp_plan.zoo {GENERATOR_VERSION}",
        "architecture": architecture.name,
        "source": architecture.source,
        "parameters": str(architecture.parameters),
        "forward_flops_per_sample": str(architecture.flops),
        **details,
        **sources(cluster),
    }
    title = name or f"{architecture.name}-{details['mode']}-b{details['batch']}"
    return PlanningProblem(title, graph, plain(cluster), objective, provenance=provenance)
