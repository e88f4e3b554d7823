"""Tables of a problem that the rules use, computed once for all its plans."""

from __future__ import annotations

from functools import cached_property

from milp_plan.core import CommunicationModel, Operator, Option, PlanningProblem, Value

Site = tuple[str, ...]
"""Devices in the order of the process group they form."""


class Facts:
    """Tables of one problem, for any number of plans."""

    def __init__(self, problem: PlanningProblem) -> None:
        self.problem = problem
        self.cluster = problem.cluster
        self.operators: dict[str, Operator] = {op.name: op for op in problem.graph.operators}
        self.options: dict[str, dict[str, Option]] = {
            op.name: {option.name: option for option in op.options}
            for op in problem.graph.operators
        }
        self.values: dict[str, Value] = {value.name: value for value in problem.graph.values}
        self.device_class: dict[str, str] = {d.name: d.device_class for d in self.cluster.devices}
        self.limits: dict[str, int | None] = {d.name: d.memory_bytes for d in self.cluster.devices}
        self._durations: dict[tuple[str, str, Site], int | None] = {}
        self._different: dict[Site, bool] = {}
        self._occupied_by: dict[tuple[Site, Site], tuple[str, ...]] = {}

    @cached_property
    def made(self) -> tuple[Value, ...]:
        """Values that operators make."""
        return tuple(value for value in self.values.values() if value.producer is not None)

    @cached_property
    def persistent(self) -> tuple[Value, ...]:
        """Values that exist before the first operator runs."""
        return tuple(value for value in self.values.values() if value.producer is None)

    @cached_property
    def _sites(self) -> frozenset[Site]:
        return frozenset((*((name,) for name in self.device_class), *self.cluster.groups))

    @cached_property
    def recomputable(self) -> frozenset[str]:
        """Operators that may run more than once."""
        return frozenset(name for name, op in self.operators.items() if op.recomputable)

    def are_devices(self, names: Site) -> bool:
        """Return whether names are one or more different devices of the cluster."""
        if names not in self._different:
            known = all(name in self.device_class for name in names)
            self._different[names] = known and 0 < len(names) == len(set(names))
        return self._different[names]

    def occupied(self, source: Site, target: Site) -> tuple[str, ...]:
        """Return the resources that a transfer between devices occupies while it runs."""
        ends = (source, target)
        if ends not in self._occupied_by:
            model = self.cluster.communication
            self._occupied_by[ends] = _occupied(model, source, target)
        return self._occupied_by[ends]

    def is_site(self, devices: Site) -> bool:
        """Return whether devices, in this order, are one device or a process group."""
        return devices in self._sites

    def duration_ticks(self, operator: str, option: Option, site: Site) -> int | None:
        """Return the ticks of an operator on a site; ``None`` where a class has no duration."""
        key = (operator, option.name, site)
        if key not in self._durations:
            table = [option.duration_ticks.get(self.device_class[device]) for device in site]
            known = [ticks for ticks in table if ticks is not None]
            self._durations[key] = max(known) if known and len(known) == len(table) else None
        return self._durations[key]


def _occupied(model: CommunicationModel, source: Site, target: Site) -> tuple[str, ...]:
    """Return channels (``a->b``) or ports (``send a``, ``receive b``) that a transfer occupies."""
    if model is CommunicationModel.DELAY:
        return ()
    if model is CommunicationModel.CHANNEL:
        return tuple(f"{a}->{b}" for a in source for b in target if a != b)
    senders = [a for a in source if any(b != a for b in target)]
    receivers = [b for b in target if any(a != b for a in source)]
    return (*(f"send {a}" for a in senders), *(f"receive {b}" for b in receivers))
