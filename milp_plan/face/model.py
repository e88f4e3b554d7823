"""A builder of placement problems; every call validates its own arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from milp_plan.core import (
    FULL,
    Cluster,
    CommunicationModel,
    ComputationGraph,
    MemoryLaw,
    Objective,
    Operator,
    Option,
    PlanningProblem,
    SerialLaw,
    Value,
)
from milp_plan.cost.clusters import ModelledCluster, arranged, sources
from milp_plan.io.cluster_file import cluster_of

from .machines import Handle, Machines, Size, Time, handles
from .quantities import amount, count, flag, quoted, refuse, text, word


def a_cluster(given: Any, where: str) -> Any:
    """Return a cluster, its name, or the path of its file."""
    if not isinstance(given, Cluster | ModelledCluster | Path | str) or given == "":
        expected = 'such as "4xH100" or "mine.toml", or a Cluster'
        refuse(where, quoted(given), expected, "name the machines")
    return given


class Model(Machines):
    """A builder of placement problems.

    Devices belong to classes; operators have durations per class; values go from the operator that
    makes them to those that read them. Every ``add_...`` returns a handle for later calls, which
    take names as well. Names are made up where none is given.

    Parameters
    ----------
    name
        Name of the problem.
    cluster
        What to begin with: a text such as ``"2xH100+2xA100"`` (``milp-plan list clusters``), a file
        that describes one (``"mine.toml"``), or a cluster; devices and connections may be added.
    objective
        ``"makespan"``, ``"span"``, ``"bottleneck"``, ``"peak_memory"`` or ``"latency"``.
    time_unit
        Of durations and latencies given as numbers: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``, where
        a tick is a nanosecond; or ``"unspecified"`` for sources that name none.
    ticks_per_unit
        Ticks per unit, only for ``"unspecified"``. Rates are then bytes per unit.
    memory_law, communication, serial
        How memory is counted (``"instant"``, ``"static"``), what transfers hold (``"channel"``,
        ``"endpoint"``, ``"delay"``), and the serial law, if it is one of these problems.
    micro_batches
        Number of micro-batches; operators of kind ``"update"`` run once, after all of them.
    provenance
        Where the numbers come from.

    Raises
    ------
    InputError
        Here and in every method: what was found, what was expected, and what to do.

    Examples
    --------
    >>> import milp_plan as mp
    >>> model = mp.Model("pair", time_unit="ms")
    >>> first, second = model.add_devices(2, memory="2GiB")
    >>> model.connect(first, second, bandwidth="25GB/s", latency="5us")
    >>> a = model.add_operator("a", duration=2)
    >>> b = model.add_operator("b", duration=1.5, inputs=[model.add_value(a, bytes="64MiB")])
    >>> mp.solve(model, time_limit=20).value_in_unit  # nanoseconds
    3500000.0
    >>> model.add_operator("b", duration=1)
    Traceback (most recent call last):
        ...
    milp_plan.core.errors.InputError: add_operator, name: found 'b' a second time, ...
    """

    def __init__(
        self,
        name: str = "model",
        *,
        cluster: str | Path | Cluster | None = None,
        objective: Objective | str = Objective.MAKESPAN,
        time_unit: str = "s",
        ticks_per_unit: int = 1,
        memory_law: MemoryLaw | str = MemoryLaw.INSTANT,
        communication: CommunicationModel | str | None = None,
        serial: SerialLaw | None = None,
        micro_batches: int = 1,
        provenance: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(time_unit, ticks_per_unit)
        self.name = text(name, "Model, name")
        self.objective = word(objective, Objective, "Model, objective")
        self.memory_law = word(memory_law, MemoryLaw, "Model, memory_law")
        self.serial = serial
        self.micro_batches = count(micro_batches, "Model, micro_batches")
        self.provenance = dict(provenance or {})
        self._operators: dict[str, Operator] = {}
        self._values: dict[str, Value] = {}
        self._readers: dict[str, dict[str, None]] = {}
        self._after: dict[str, set[str]] = {}
        self._everywhere: dict[tuple[str, str], int] = {}
        self._tables |= {"operator": self._operators, "value": self._values}
        if cluster is not None:
            given = a_cluster(cluster, "Model, cluster")
            named = cluster_of(given) if isinstance(given, str | Path) else given
            machines = arranged(named) if isinstance(named, str) else named
            self._begin_with(machines)
            if isinstance(machines, ModelledCluster):
                self.provenance = sources(machines) | self.provenance
        if communication is not None:
            where = "Model, communication"
            self.communication = word(communication, CommunicationModel, where)

    def __repr__(self) -> str:
        parts = ((self._operators, "operator"), (self._values, "value"), (self._devices, "device"))
        sizes = (f"{len(table):,} {what}{'' if len(table) == 1 else 's'}" for table, what in parts)
        return f"<Model {self.name!r}: {', '.join(sizes)}>"

    # -- the graph ---------------------------------------------------------------------------------

    def add_operator(
        self,
        name: str | None = None,
        duration: Time | Mapping[Any, Time] | None = None,
        *,
        inputs: Iterable[Handle | str] = (),
        workspace: Size = 0,
        gang: int = 1,
        kind: str = "forward",
        group: str | None = None,
        block: str | None = None,
        micro_batch: int | None = None,
        recomputable: bool = False,
    ) -> Handle:
        """Add an operator, with its only option unless options are added later.

        Parameters
        ----------
        duration
            On devices of every class, or class -> duration where others cannot run it. ``None``
            where :meth:`add_option` says how it runs.
        inputs
            Values that it reads.
        workspace
            Bytes it holds on each of its devices while it runs.
        gang
            Number of devices it holds together; more than one needs a group of that size.
        kind
            ``"forward"``, ``"backward-input"``, ``"backward-weight"``, ``"update"``, ...
        group
            Operators of one colocation group run on the same devices.
        block, micro_batch
            The repeated part, and the micro-batch, that it belongs to.
        recomputable
            Whether a plan may run it more than once.
        """
        call = "add_operator"
        name = self._new_name(name, "operator", self._operators, call)
        where = f"{call} {name!r}"
        for what, label in (("kind", kind), ("group", group), ("block", block)):
            if label is not None:
                text(label, f"{where}, {what}")
        number = None if micro_batch is None else count(micro_batch, f"{where}, micro_batch", 0)
        again = flag(recomputable, f"{where}, recomputable")
        reads = [self._name(entry, "value", where) for entry in handles(inputs, f"{where}, inputs")]
        taken, devices = (
            amount(workspace, f"{where}, workspace"),
            count(gang, f"{where}, gang"),
        )
        options: tuple[Option, ...] = ()
        if duration is not None:
            times = self._durations(duration, where)
            options = (Option("single", self._noted(name, "single", times), devices, taken),)
        self._operators[name] = Operator(name, options, kind, group, number, block, again)
        for value in reads:
            self._read(value, name)
        return self._changed("operator", name)

    def add_option(
        self,
        operator: Handle | str,
        duration: Time | Mapping[Any, Time],
        name: str | None = None,
        *,
        gang: int = 1,
        workspace: Size = 0,
        reads: Mapping[Any, str] | None = None,
        writes: Mapping[Any, str] | None = None,
    ) -> None:
        """Add an option of an operator; a plan chooses one.

        Parameters
        ----------
        duration, gang, workspace
            As for :meth:`add_operator`.
        name
            Unique in the operator.
        reads, writes
            Value -> layout in which it is read or left; ``"full"`` where not named. Values and
            their layouts have to be there already.
        """
        call = "add_option"
        owner = self._name(operator, "operator", call)
        before = self._operators[owner]
        title = self._new_name(name, "option", {o.name: o for o in before.options}, call)
        where = f"{call} {title!r} of {owner!r}"
        times = self._durations(duration, where)
        devices, taken = (
            count(gang, f"{where}, gang"),
            amount(workspace, f"{where}, workspace"),
        )
        read = self._layouts(reads, owner, "reads", where)
        left = self._layouts(writes, owner, "writes", where)
        option = Option(title, self._noted(owner, title, times), devices, taken, read, left)
        self._operators[owner] = replace(before, options=(*before.options, option))
        self._built = None

    def add_value(
        self,
        producer: Handle | str | None = None,
        consumers: Handle | str | Iterable[Handle | str] = (),
        bytes: Size | Mapping[str, Size] = 0,
        name: str | None = None,
        *,
        transfer_bytes: Size | Mapping[str, Size] | None = None,
        messages: int = 1,
        reshard: Mapping[tuple[str, str], Time] | None = None,
        kept: bool | None = None,
    ) -> Handle:
        """Add a value that is sent from one operator to others.

        Parameters
        ----------
        producer
            The operator that makes it; ``None`` for what is there from the first instant to the
            last on every device that reads it: weights, optimizer state, input data.
        consumers
            Operators that read it; more may follow, as ``inputs`` of :meth:`add_operator`.
        bytes
            On each device that holds it; or layout -> bytes.
        transfer_bytes
            Bytes that are sent to each device, where different.
        messages
            Sends that a transfer of it takes.
        reshard
            (layout, layout) -> time of a change of layout; pairs that are missing are not allowed.
        kept
            Whether what its producer leaves stays there to the end, as a result does; ``None``:
            exactly if no operator reads it.
        """
        call = "add_value"
        name = self._new_name(name, "value", self._values, call)
        where = f"{call} {name!r}"
        maker = None if producer is None else self._name(producer, "operator", where)
        given = handles(consumers, f"{where}, consumers")
        readers = dict.fromkeys(self._name(entry, "operator", where) for entry in given)
        sizes = _by_layout(bytes, f"{where}, bytes")
        payload = {} if transfer_bytes is None else transfer_bytes
        value = Value(
            name,
            maker,
            (),
            sizes,
            _known(_by_layout(payload, f"{where}, transfer_bytes"), sizes, where),
            count(messages, f"{where}, messages"),
            self._reshards(reshard or {}, sizes, f"{where}, reshard"),
            None if kept is None else flag(kept, f"{where}, kept"),
        )
        if maker is not None:
            self._refuse_circle(maker, readers, where)
        self._values[name], self._readers[name] = value, {}
        for reader in readers:
            self._read(name, reader)
        return self._changed("value", name)

    # -- the problem -------------------------------------------------------------------------------

    def build(self) -> PlanningProblem:
        """Return the problem; :func:`milp_plan.solve` and the other functions call it themselves.

        Raises
        ------
        InputError
            What no single call could see: an operator that no device can run, a layout that is
            missing, colocated operators without a common device, laws that do not go together.
        """
        built: PlanningProblem | None = self._built
        if built is None:
            classes = [entry.name for entry in self._classes.values() if not entry.host]
            graph = ComputationGraph(
                tuple(self._timed(operator, classes) for operator in self._operators.values()),
                tuple(
                    replace(value, consumers=tuple(self._readers[value.name]))
                    for value in self._values.values()
                ),
            )
            problem = PlanningProblem(
                self.name,
                graph,
                self.cluster,
                self.objective,
                self.memory_law,
                self.units,
                self.provenance,
                self.serial,
            )
            if self.micro_batches > 1:
                problem = replace(problem, graph=graph.unroll(self.micro_batches))
            self._built = built = problem
        return built

    # -- helpers -----------------------------------------------------------------------------------

    def _durations(self, given: Any, where: str) -> int | dict[str, int]:
        """Return ticks per class, or the ticks of all classes, including classes added later."""
        where = f"{where}, duration"
        if not isinstance(given, Mapping):
            return self._ticks(given, where)
        table: dict[str, int] = {}
        for key, time in given.items():
            kind = self._name(key, "device class", where)
            if self._classes[kind].host:
                refuse(where, f"{kind!r}, a class of hosts", "classes that run operators")
            table[kind] = self._ticks(time, f"{where}[{kind!r}]")
        if not table:
            refuse(where, "no class", "a duration for one class or more")
        return table

    def _noted(self, operator: str, option: str, times: int | dict[str, int]) -> dict[str, int]:
        """Return the table of an option; one time for all classes is resolved in the build."""
        if isinstance(times, dict):
            return times
        self._everywhere[operator, option] = times
        return {}

    def _timed(self, operator: Operator, classes: list[str]) -> Operator:
        options = tuple(
            replace(option, duration_ticks=dict.fromkeys(classes, self._everywhere[key]))
            if (key := (operator.name, option.name)) in self._everywhere
            else option
            for option in operator.options
        )
        return replace(operator, options=options)

    def _layouts(
        self, given: Mapping[Any, str] | None, owner: str, how: str, where: str
    ) -> dict[str, str]:
        """Return the layouts of values that an operator reads or writes."""
        layouts, where = {}, f"{where}, {how}"
        for key, layout in (given or {}).items():
            name = self._name(key, "value", where)
            value, verb = self._values[name], "reads" if how == "reads" else "makes"
            if owner != value.producer if how == "writes" else owner not in self._readers[name]:
                refuse(where, f"value {name!r}", f"a value that {owner!r} {verb}")
            if layout not in value.bytes:
                expected = f"one of {', '.join(value.bytes)}"
                refuse(
                    f"{where}[{name!r}]", quoted(layout), expected, "add the layout to the value"
                )
            layouts[name] = str(layout)
        return layouts

    def _reshards(
        self, given: Mapping[tuple[str, str], Time], sizes: Mapping[str, int], where: str
    ) -> dict[tuple[str, str], int]:
        ticks = {}
        for pair, time in given.items():
            known = isinstance(pair, tuple) and len(pair) == 2 and set(pair) <= set(sizes)
            if not known:
                expected = f"a pair of its layouts: {', '.join(sizes)}"
                refuse(where, quoted(pair), expected, "add the layout to bytes")
            ticks[pair] = self._ticks(time, f"{where}[{pair[0]!r}, {pair[1]!r}]")
        return ticks

    def _refuse_circle(self, producer: str, readers: Iterable[str], where: str) -> None:
        """Refuse a value that would close a cycle."""
        seen, waiting = set(readers), list(readers)
        while waiting:
            name = waiting.pop()
            if name == producer:
                found = f"a circle: {producer!r} would wait for itself"
                refuse(where, found, "an acyclic graph", "leave it out")
            fresh = self._after.get(name, set()) - seen
            seen |= fresh
            waiting.extend(fresh)

    def _read(self, value: str, reader: str) -> None:
        """Record that an operator reads a value."""
        self._readers[value][reader] = None
        producer = self._values[value].producer
        if producer is not None:
            self._after.setdefault(producer, set()).add(reader)


def _by_layout(given: Any, where: str) -> dict[str, int]:
    if isinstance(given, Mapping):
        return {
            text(layout, where): amount(size, f"{where}[{layout!r}]")
            for layout, size in given.items()
        }
    return {FULL: amount(given, where)}


def _known(given: dict[str, int], sizes: Mapping[str, int], where: str) -> dict[str, int]:
    for layout in given:
        if layout not in sizes:
            expected = f"one of its layouts: {', '.join(sizes)}"
            refuse(f"{where}, transfer_bytes", quoted(layout), expected, "add the layout to bytes")
    return given
