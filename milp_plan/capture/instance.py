"""Builds planning problems of captured graphs.

=================================== ============================================================
kernels of a module or block        an operator: forward, backward for inputs or for weights
storage                             a value of its bytes, whatever views there are of it
parameter, buffer, input            a persistent value; tied parameters once
storage born and dead in an operator its workspace: the peak in captured order
parameters of a module              an operator ``.U`` that updates them, with persistent state
readers and updater of a parameter, one colocation group, with what makes its gradient
trained
=================================== ============================================================

An operator takes the sum of its fused kernels: for each the larger of the time to compute and the
time to move bytes, plus the launch (``milp_plan.cost.roofline``). Rates are those of the device
class, whatever type of numbers the model uses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from milp_plan.core import (
    FULL,
    UPDATE_KIND,
    Cluster,
    ComputationGraph,
    Finding,
    InputError,
    Objective,
    Operator,
    Option,
    PlanningProblem,
    Value,
)
from milp_plan.cost.clusters import plain, sources, spec_of
from milp_plan.cost.devices import DeviceSpec
from milp_plan.cost.roofline import roofline_ns
from milp_plan.io.capture_wire import Capture, Storage

from .colocation import Colocation
from .fuse import alone, fused
from .merge import Part, joined, merged
from .optimizers import OPTIMIZERS, Optimizer
from .passes import BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD, block_of, without_module
from .recompute import GONE, KEEP, Again, again, blocks_of, nothing_to_forget, require_policies
from .record import (
    ELEMENT_BYTES,
    captured_with,
    fingerprint,
    handed_out,
    made_by,
    read_by,
    tensors_read,
)
from .work import bytes_read, coverage, flops_of, require_known

GENERATOR_VERSION = "2"
"""Raised when the same captured graph gives another problem."""

SUFFIXES = {FORWARD: "F", BACKWARD_INPUT: "B", BACKWARD_WEIGHT: "W"}
"""Kind -> suffix of an operator's name."""


def instance(
    capture: Capture,
    cluster: Cluster,
    *,
    granularity: str = "block",
    optimizer: str = "adamw",
    fuse: bool = True,
    recompute: Iterable[str] = (),
    barrier: bool = False,
    objective: Objective = Objective.MAKESPAN,
    name: str | None = None,
    measured: DeviceSpec | None = None,
) -> PlanningProblem:
    """Build the planning problem of a captured graph.

    Parameters
    ----------
    capture
        The graph.
    cluster
        The target; device classes must be named ones (``milp_plan.cost.DEVICES``).
    granularity
        ``"kernel"``, ``"module"`` or ``"block"``; kernels of which no module is known are
        operators of their own at each.
    optimizer
        One of :data:`OPTIMIZERS`; used for training only.
    fuse
        Whether chains of elementwise kernels run as one, as compiled; else as in eager PyTorch.
    recompute
        Policies of blocks in addition to keeping all (``milp_plan.capture.recompute.POLICIES``);
        the backward pass of a block is then one operator.
    barrier
        Whether updates wait for the backward pass, as ``optimizer.step()`` after it does.
    objective, name
        Objective and name of the problem.
    measured
        Take the times of the graph's profile in place of the roofline, on every device; kernels
        were timed separately, so nothing is fused. Rates for the updates, which a profile does not
        time (:func:`~milp_plan.capture.calibration.calibrate`).

    Raises
    ------
    InputError
        Unknown granularity, optimizer, policy, device class, an operator without formula; times
        that a profile does not have, or for devices of several classes; policies, where
        no block has values to drop.
    """
    policies = tuple(dict.fromkeys(recompute))
    require_known(capture)
    if measured is not None:
        require_times(capture, cluster)
        fuse = False
    require_policies(policies, granularity)
    if optimizer not in OPTIMIZERS:
        expected = f"one of {', '.join(OPTIMIZERS)}"
        raise InputError([Finding("optimizer", repr(optimizer), expected, "correct it")])
    units = fused(capture) if fuse else alone(capture)
    unknown = without_module(capture)
    parts = merged(capture, units, granularity, joint_backward=bool(policies), unknown=unknown)
    draft = Draft(capture, cluster, parts, granularity, measured=measured)
    if policies:
        draft.recompute(policies)
        if all(len(operator.options) == 1 for operator in draft.operators):
            raise nothing_to_forget()
    details = {
        "granularity": _granularity(granularity, capture, unknown),
        "kernels": "fused" if fuse else "as in eager PyTorch",
        **joined(capture, parts),
    }
    if capture.mode == "training":
        draft.updates(OPTIMIZERS[optimizer], barrier)
        details |= {"optimizer": optimizer, "recompute": " ".join(policies)}
    title = name or f"{capture.name}-{capture.mode}"
    provenance = provenance_of(capture, cluster, measured) | details
    return PlanningProblem(title, draft.graph(), plain(cluster), objective, provenance=provenance)


def _granularity(requested: str, capture: Capture, unknown: Collection[int]) -> str:
    """Return the granularity for the provenance: kernels where no module is known."""
    if requested == "kernel" or len(unknown) == len(capture.kernels):
        return "kernel"
    return f"{requested} (kernel where no module is known)" if unknown else requested


class Draft:
    """Operators and values under construction.

    Parameters
    ----------
    capture, cluster, parts, granularity
        Graph, cluster, and groups of kernels that become operators.
    adds_up
        Whether gradients are accumulated in persistent sums, and are no values themselves.
    measured
        See :func:`instance`.
    """

    def __init__(
        self,
        capture: Capture,
        cluster: Cluster,
        parts: Sequence[Part],
        granularity: str,
        *,
        adds_up: bool = False,
        measured: DeviceSpec | None = None,
    ) -> None:
        self.capture = capture
        self.measured = measured
        self.specs = [spec_of(cluster, entry.name) for entry in cluster.device_classes]
        self.granularity = granularity
        self.parts = parts
        self.sizes = [storage.bytes for storage in capture.storages]
        self.readers = read_by(capture)
        self.made = made_by(capture)
        self.results = {result.storage for result in capture.results}
        self.lasting = {
            result.storage
            for result in capture.results
            if not (adds_up and result.kind == "gradient")
        }
        self._makes: list[list[int]] = [[] for _ in capture.kernels]
        for storage, place in self.made.items():
            self._makes[place].append(storage)
        self.unit_of = {place: unit for part in parts for unit in part.units for place in unit}
        self.gone: set[int] = set()
        self.names = self._names()
        self.part_of = {place: part for part, own in enumerate(parts) for place in own.kernels}
        self.operators = [
            self._operator(part, name) for part, name in zip(parts, self.names, strict=True)
        ]
        self.consumers = [
            list(dict.fromkeys(self.names[self.part_of[place]] for place in places))
            for places in self.readers.values()
        ]
        self.extra: list[Value] = []

    # operators -----------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        count: dict[str, int] = {}
        names: dict[str, None] = {}
        for part in self.parts:
            label = part.label or "model"
            if part.single:
                stem = f"{label}/{self.capture.kernels[part.kernels[-1]].name}"
            else:
                stem = f"{label}.{SUFFIXES[part.kind]}"
            name = stem
            while name in names:
                count[stem] = count.get(stem, 1) + 1
                name = f"{stem}.{count[stem]}"
            names[name] = None
        return list(names)

    def _operator(self, part: Part, name: str) -> Operator:
        workspace = self._peak(part.kernels, self._inside(part))
        option = Option("one", self._durations(part.units), workspace_bytes=workspace)
        return Operator(name, (option,), part.kind, block=block_label(part.label))

    def _durations(self, units: Iterable[tuple[int, ...]]) -> dict[str, int]:
        """Return device class -> ticks of fused kernels, one after the other."""
        if self.measured is not None:
            return self._times(place for unit in units for place in unit)
        durations = dict.fromkeys((spec.name for spec in self.specs), 0)
        for unit in units:
            flops = sum(flops_of(self.capture.kernels[place]) or 0 for place in unit)
            moved = self.moved(unit)
            for spec in self.specs:
                durations[spec.name] += roofline_ns(spec, flops, moved)
        return durations

    def _times(self, places: Iterable[int]) -> dict[str, int]:
        """Return device class -> measured ticks of kernels."""
        assert self.capture.profile is not None
        times = self.capture.profile.kernels
        total = sum(times[self.capture.kernels[place].name] for place in places)
        return dict.fromkeys((spec.name for spec in self.specs), total)

    def moved(self, unit: tuple[int, ...]) -> int:
        """Return the bytes that fused kernels read from outside and leave for others."""
        own = {storage for storage, place in self.made.items() if place in unit}
        read = bytes_read((self.capture.kernels[place] for place in unit), self.sizes)
        inside = set(unit)
        outside = sum(size for storage, size in read.items() if storage not in own)
        left = sum(
            self.sizes[storage]
            for storage in own
            if storage in self.results or not inside.issuperset(self.readers[storage])
        )
        return outside + left

    def _internal(self, storage: int) -> bool:
        """Return whether nothing outside the operator that makes it reads a storage."""
        part = self.part_of[self.made[storage]]
        return storage not in self.lasting and all(
            self.part_of[place] == part for place in self.readers[storage]
        )

    def _inside(self, part: Part) -> set[int]:
        """Return the storages that exist only within an operator."""
        made = (storage for place in part.kernels for storage in self._makes[place])
        return {storage for storage in made if self._internal(storage)}

    def _peak(self, sequence: Sequence[int], internal: set[int]) -> int:
        """Return the largest sum of some storages while kernels run, from maker to last reader."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for step, place in enumerate(sequence):
            touched = {tensor.storage for tensor in tensors_read(self.capture.kernels[place])}
            for storage in self._makes[place]:
                first.setdefault(storage, step)
            for storage in touched.union(self._makes[place]) & internal:
                last[storage] = step
        changes = [0] * (len(sequence) + 1)
        for storage, stop in last.items():
            changes[first[storage]] += self.sizes[storage]
            changes[stop + 1] -= self.sizes[storage]
        return max(accumulate(changes))

    # recomputation -------------------------------------------------------------------------------

    def recompute(self, policies: Sequence[str]) -> None:
        """Offer the two operators of each block to drop and to recompute values."""
        for forward, backward in blocks_of(self.parts).items():
            both = self.parts[forward], self.parts[backward]
            offered = [Again(KEEP, frozenset(), (), frozenset())]
            for policy in policies:
                recomputed = again(self.capture, both, policy, self.readers, self.made)
                if recomputed.dropped not in [entry.dropped for entry in offered]:
                    offered.append(recomputed)
            if len(offered) == 1:
                continue
            self.gone |= {storage for entry in offered for storage in entry.dropped}
            name = self.names[backward]
            for storage in {storage for entry in offered for storage in entry.reads}:
                if name not in self.consumers[storage]:
                    self.consumers[storage].append(name)
            made, read = self.operators[forward], self.operators[backward]
            options = [
                (self._forgetful(forward, entry), self._repeating(backward, entry))
                for entry in offered
            ]
            self.operators[forward] = replace(made, options=tuple(one for one, _ in options))
            self.operators[backward] = replace(read, options=tuple(two for _, two in options))

    def _forgetful(self, forward: int, entry: Again) -> Option:
        """Return the forward option that drops values after its own last read."""
        part = self.parts[forward]
        workspace = self._peak(part.kernels, self._inside(part) | entry.dropped)
        option = self.operators[forward].options[0]
        return replace(
            option, name=entry.policy, workspace_bytes=workspace, writes=self._layouts(entry)
        )

    def _repeating(self, backward: int, entry: Again) -> Option:
        """Return the backward option that first recomputes dropped values."""
        part, option = self.parts[backward], self.operators[backward].options[0]
        redone = set(entry.redone)
        units = {self.unit_of[place] for place in redone}
        extra = self._durations(
            sorted(tuple(place for place in unit if place in redone) for unit in units)
        )
        internal = self._inside(part)
        internal |= {storage for place in redone for storage in self._makes[place]}
        return replace(
            option,
            name=entry.policy,
            duration_ticks={
                name: ticks + extra[name] for name, ticks in option.duration_ticks.items()
            },
            workspace_bytes=self._peak((*entry.redone, *part.kernels), internal),
            reads=self._layouts(entry),
        )

    def _layouts(self, entry: Again) -> dict[str, str]:
        return {self.capture.storages[storage].name: GONE for storage in sorted(entry.dropped)}

    # updates -------------------------------------------------------------------------------------

    def updates(self, optimizer: Optimizer, barrier: bool) -> None:
        """Add an operator for each module (or block) that updates its parameters."""
        gradients: dict[int, set[int]] = {}
        for result in self.capture.results:
            if result.kind == "gradient" and result.of is not None:
                gradients.setdefault(result.of, set()).add(result.storage)
        owners: dict[str, dict[str, list[int]]] = {}
        flat = len(without_module(self.capture)) == len(self.capture.kernels)
        for parameter in sorted(gradients):
            name = self.capture.storages[parameter].name
            module = name.rpartition(".")[0]
            label = block_of(module) if self.granularity == "block" else module
            if flat and not module:
                label = name
            owners.setdefault(label, {}).setdefault(module, []).append(parameter)
        colocation, added = Colocation(), []
        for label, modules in owners.items():
            added.append(self._updater(label, list(modules.values()), optimizer))
            for parameter in (p for parameters in modules.values() for p in parameters):
                self._reaches(added[-1].name, parameter, gradients[parameter], colocation)
        if barrier:
            self._wait_for_backward([operator.name for operator in added])
        self.operators = colocation.grouped([*self.operators, *added])

    def _updater(self, label: str, modules: list[list[int]], optimizer: Optimizer) -> Operator:
        """Return an updater with one kernel for each module, and add the optimizer's state."""
        name = f"{label or 'model'}.U"
        durations = dict.fromkeys((spec.name for spec in self.specs), 0)
        state = 0
        for parameters in modules:
            work = [self._update(self.capture.storages[p], optimizer) for p in parameters]
            state += sum(kept for kept, _ in work)
            for spec in self.specs:
                rates = self.measured or spec
                durations[spec.name] += roofline_ns(rates, 0, sum(moved for _, moved in work))
        if state:
            self.extra.append(Value(f"{name}.state", None, (name,), {FULL: state}))
        return Operator(name, (Option("one", durations),), UPDATE_KIND, block=block_label(label))

    def _reaches(
        self, name: str, parameter: int, gradients: set[int], colocation: Colocation
    ) -> None:
        """Let an update read a parameter and its gradient, on the device of their users."""
        colocation.join(name, self.consumers[parameter])
        for storage in (parameter, *sorted(gradients)):
            if name not in self.consumers[storage]:
                self.consumers[storage].append(name)
            if storage in self.made:
                colocation.join(name, [self.names[self.part_of[self.made[storage]]]])

    def _wait_for_backward(self, updates: list[str]) -> None:
        """Let updates wait for the last operator of the backward pass."""
        ends = {part.kernels[-1]: self.names[place] for place, part in enumerate(self.parts)}
        self.extra.append(Value("end of backward pass", ends[max(ends)], tuple(updates), {FULL: 0}))

    def _update(self, storage: Storage, optimizer: Optimizer) -> tuple[int, int]:
        """Return the bytes stored and the bytes moved for a parameter."""
        element = ELEMENT_BYTES[storage.dtype]
        count = storage.bytes // element
        return count * optimizer.state_bytes(element), count * optimizer.moved_bytes(element)

    # values --------------------------------------------------------------------------------------

    def graph(self) -> ComputationGraph:
        """Return the graph; outputs of the model stay, gradients go when they are used."""
        values, outputs = [], handed_out(self.capture)
        for place, storage in enumerate(self.capture.storages):
            producer = None
            consumers = self.consumers[place]
            if storage.kind == "result":
                if place not in self.made or self._internal(place):
                    continue
                producer = self.names[self.part_of[self.made[place]]]
                consumers = [name for name in consumers if name != producer]
            elif not consumers:
                continue
            sizes = {FULL: storage.bytes} | ({GONE: 0} if place in self.gone else {})
            kept = True if place in outputs and producer and consumers else None
            values.append(Value(storage.name, producer, tuple(consumers), sizes, kept=kept))
        return ComputationGraph(tuple(self.operators), (*values, *self.extra))


def block_label(label: str) -> str | None:
    """Return the name of the numbered block that contains a module."""
    block = block_of(label)
    return block if block.rpartition(".")[2].isdecimal() else None


def require_times(capture: Capture, cluster: Cluster) -> None:
    """Refuse to take measured times where there are none, or for devices of several classes.

    Raises
    ------
    InputError
        Times are missing, or there are several classes; the error lists every reason.
    """
    times = {} if capture.profile is None else capture.profile.kernels
    missing = [kernel.name for kernel in capture.kernels if kernel.name not in times]
    findings = []
    if missing:
        found = f"no time of {len(missing):,} kernels, such as {missing[0]!r}"
        remedy = "capture the model with --profile on such a device"
        findings.append(Finding("profile", found, "one for each kernel", remedy))
    if len(cluster.device_classes) > 1:
        names = ", ".join(entry.name for entry in cluster.device_classes)
        remedy = "name a cluster of devices like the one that was measured, or take the roofline"
        findings.append(Finding("cluster", f"devices of {names}", "one class", remedy))
    if findings:
        raise InputError(findings)


def provenance_of(
    capture: Capture, cluster: Cluster, measured: DeviceSpec | None = None
) -> dict[str, str]:
    """Return the provenance of a problem."""
    covered = coverage(capture)
    types = sorted({s.dtype for s in capture.storages if s.kind == "parameter"})
    times = sources(cluster)
    if measured is not None and capture.profile is not None:
        profile = capture.profile
        timed = f"{profile.device}, {profile.threads} threads, {profile.date}, {profile.torch}"
        links = {key: text for key, text in times.items() if key.startswith("link ")}
        times = {"kernels timed on": timed, "updates": measured.summary, **links}
    return {
        "generator": f"milp_plan.capture {GENERATOR_VERSION}",
        "model": capture.name,
        "captured with": captured_with(capture),
        "captured graph": fingerprint(capture),
        "mode": capture.mode,
        "parameters": " ".join(types),
        "forward_flops": str(covered.flops["forward"]),
        "backward_flops": str(covered.flops["backward"]),
        **times,
    }
