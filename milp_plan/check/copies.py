"""Copies of a value that is made again or stored on a host, and their readers.

Of the copies that a consumer may read, it reads the one completed last before it starts
(docs/laws.md, `Copies and supply`). This decides which transfers are needless, which inputs are
missing, and how long each copy is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from milp_plan.core import FULL, Value

from .facts import Facts, Site


@dataclass(frozen=True, slots=True)
class Task:
    """A run or a transfer that makes or reads copies of one value.

    Parameters
    ----------
    entry
        The run or journey of the reading.
    start_ticks, stop_ticks
        Its times.
    order
        Its position in the plan, runs before transfers.
    """

    entry: object
    start_ticks: int
    stop_ticks: int
    order: int


@dataclass(eq=False, slots=True)
class Copy:
    """One copy of the value.

    Parameters
    ----------
    maker, site, layout
        The task that makes it, its devices and its layout.
    native
        Whether its maker is a run.
    origin
        The copy that its maker read, where that is a transfer that may be.
    until
        Device -> when it is released there.
    readers
        Tasks that read it.
    stays
        Whether it is stored to the end of the plan.
    """

    maker: Task
    site: Site
    layout: str
    native: bool
    origin: Copy | None = None
    until: dict[str, int] = field(default_factory=dict)
    readers: list[Task] = field(default_factory=list)
    stays: bool = False

    @property
    def serves(self) -> bool:
        """Whether something reads it, or it stays as a result."""
        return self.stays or bool(self.readers)

    def add_reader(self, devices: Iterable[str], reader: Task) -> None:
        """Add a task that reads it on devices: it is stored there until the task stops."""
        self.readers.append(reader)
        for device in devices:
            self.until[device] = max(self.until[device], reader.stop_ticks)

    @property
    def recency(self) -> tuple[int, int, int]:
        """Sort key: latest end, then latest start, then first in the plan."""
        return self.maker.stop_ticks, self.maker.start_ticks, -self.maker.order


@dataclass(frozen=True, slots=True)
class Reader:
    """A run that reads the value on a site in a layout."""

    task: Task
    site: Site
    layout: str


@dataclass(frozen=True, slots=True)
class Sending:
    """A transfer as the plan lists it."""

    task: Task
    source: Site
    target: Site
    layout: str


class Trail:
    """The copies of one value.

    Parameters
    ----------
    facts, value
        The problem, and the value.
    natives, sendings, readers
        Tasks of the plan with times: (task, site, layout) of the producer's runs, the value's
        transfers and the runs of its consumers.
    """

    def __init__(
        self,
        facts: Facts,
        value: Value,
        natives: Iterable[tuple[Task, Site, str]],
        sendings: Iterable[Sending],
        readers: Iterable[Reader],
    ) -> None:
        self.value, self.hosts = value, facts.cluster.hosts
        self.natives = [self._copy(task, site, layout, True) for task, site, layout in natives]
        self.sent: list[tuple[Sending, Copy]] = []
        """Transfers with the copies they make; those from a host come after those to it."""
        self.unserved: list[tuple[Reader, Site]] = []
        """Readers and the devices on which they have no copy to read when they start."""
        self._on_hosts: list[Copy] = []
        listed = list(sendings)
        for sending in sorted(listed, key=lambda entry: self.leaves_host(entry.source)):
            self._send(sending)
        for reader in readers:
            self._read(reader)
        if value.is_kept and self.natives:
            max(self.natives, key=lambda copy: copy.recency).stays = True

    @cached_property
    def copies(self) -> tuple[Copy, ...]:
        """Every copy, native ones first."""
        return (*self.natives, *(copy for _, copy in self.sent))

    def leaves_host(self, source: Site) -> bool:
        """Return whether a transfer from a source brings a value back from a host."""
        return not self.hosts.isdisjoint(source)

    @staticmethod
    def _copy(task: Task, site: Site, layout: str, native: bool) -> Copy:
        return Copy(task, site, layout, native, until=dict.fromkeys(site, task.stop_ticks))

    def _send(self, sending: Sending) -> None:
        copy = self._copy(sending.task, sending.target, sending.layout, False)
        fit = [
            entry
            for entry in (self._on_hosts if self.leaves_host(sending.source) else self.natives)
            if entry.maker.stop_ticks <= sending.task.start_ticks
            and self._may_leave(entry, sending)
        ]
        copy.origin = max(fit, key=lambda entry: entry.recency, default=None)
        if copy.origin is not None:
            here = [device for device in sending.source if device in copy.origin.site]
            copy.origin.add_reader(here, sending.task)
            if not self.hosts.isdisjoint(sending.target):
                self._on_hosts.append(copy)
        self.sent.append((sending, copy))

    def _may_leave(self, copy: Copy, sending: Sending) -> bool:
        """Return whether a transfer may read a copy."""
        if not copy.native:
            back = self.hosts.isdisjoint(sending.target) and len(sending.target) == 1
            return sending.source == copy.site and back and sending.layout == FULL
        if copy.layout == sending.layout == FULL:
            alone = len(sending.source) == len(sending.target) == 1
            return alone and sending.source[0] in copy.site and sending.target[0] not in copy.site
        stays = copy.layout == sending.layout and sending.target == copy.site
        return sending.source == copy.site and self.hosts.isdisjoint(sending.target) and not stays

    def _read(self, reader: Reader) -> None:
        missing = []
        for device in reader.site:
            fit = [
                copy
                for copy in self.copies
                if copy.maker.stop_ticks <= reader.task.start_ticks
                and _may_read(copy, reader, device)
            ]
            if fit:
                latest = max(fit, key=lambda copy: copy.recency)
                latest.add_reader((device,), reader.task)
            else:
                missing.append(device)
        if missing:
            self.unserved.append((reader, tuple(missing)))

    def repeated(self) -> Iterator[Sending]:
        """Yield transfers that make the same copy of the same run again."""
        made: set[tuple[int, Site, str]] = set()
        for sending, copy in self.sent:
            if copy.origin is not None and copy.origin.native:
                key = (copy.origin.maker.order, sending.target, sending.layout)
                if key in made:
                    yield sending
                made.add(key)


def _may_read(copy: Copy, reader: Reader, device: str) -> bool:
    if copy.layout != reader.layout:
        return False
    if copy.native:
        return copy.site == reader.site or (copy.layout == FULL and device in copy.site)
    if copy.origin is None:
        return False
    if copy.origin.layout == copy.layout == FULL:
        return copy.site == (device,)
    return copy.site == reader.site
