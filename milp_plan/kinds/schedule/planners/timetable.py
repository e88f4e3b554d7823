"""A schedule that grows one operator at a time: probe its placements, then commit one.

Nothing is ever moved. A copy whose readers are not all known is held for ever (it is *open*);
the last reader closes it. So every state is a valid partial plan, and a plan is valid when every
operator is in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from milp_plan.core import MemoryLaw, OperatorRun, Plan, Transfer

from .indexed import Indexed, Leg, Spot
from .profile import Busy, Profile
from .readers import GuessedReaders, KnownReaders, Readers
from .supply import Copy, Probe, Supply, share_resource


class Timetable:
    """The growing schedule.

    Parameters
    ----------
    view
        The problem.
    fixed
        Spot of each operator where it is known beforehand, else ``None``. Knowing more closes
        copies earlier and reserves persistent values from the start.
    insertion
        Whether an operator may go into an earlier gap of its devices.
    memory
        Bytes per device to plan with in place of the cluster's own; ``None`` for no limit.
    headroom
        A unit may come to a device only if this many times the largest working set of its
        operators stays free there.
    """

    def __init__(
        self,
        view: Indexed,
        fixed: Sequence[Spot | None] = (),
        *,
        insertion: bool = True,
        memory: Sequence[int | None] | None = None,
        headroom: int = 0,
    ) -> None:
        self.view = view
        self.insertion = insertion
        self.headroom = headroom
        self.busy = [Busy() for _ in range(view.num_resources)]
        self.site = [-1] * view.num_operators
        self.unit_site = [-1] * len(view.units)
        self.runs: list[Probe | None] = [None] * view.num_operators
        self.transfers: list[tuple[Leg, int]] = []
        self.freed = False
        num_values = len(view.values)
        self._native_layout = [""] * num_values
        self._native_bytes = [0] * num_values
        self._native_until: list[dict[int, int]] = [{} for _ in range(num_values)]
        self._made = [0] * num_values
        self._copies: dict[int, Copy] = {}
        self._copies_of: list[list[Copy]] = [[] for _ in range(num_values)]
        caps = view.memory if memory is None else memory
        self.static = view.problem.memory_law is MemoryLaw.STATIC
        self._held: list[set[tuple[int, str]]] = [set() for _ in range(view.num_devices)]
        self.room: list[int | None] = [
            None if cap is None or view.largest_sum <= cap else cap for cap in caps
        ]
        self._workspace = [0] * view.num_devices
        self._working = [0] * view.num_devices
        self._capacity = list(self.room)
        self.profiles = [None if cap is None or self.static else Profile(cap) for cap in self.room]
        known = [spot for spot in fixed if spot is not None]
        self._readers: Readers = (
            KnownReaders(view, known)
            if len(known) == view.num_operators
            else GuessedReaders(view, self._native_until)
        )
        for spot in known:
            self._decide(spot)
        for spot in known:
            if self.unit_site[view.unit[spot.operator]] < 0:
                self.decide_unit(view.unit[spot.operator], spot.site)

    # -- what is known about sites -------------------------------------------------------------

    def decide_unit(self, unit: int, site: int) -> None:
        """Fix the site of a colocation group; its members count as future readers there."""
        self.unit_site[unit] = site
        for spot in self.view.unit_spots(unit, site):
            if self.site[spot.operator] < 0:
                self._decide(spot)

    def _decide(self, spot: Spot) -> None:
        site = spot.site
        self.site[spot.operator] = site
        for device in spot.devices:
            self._hold_persistent(device, spot)
            self._working[device] = max(self._working[device], spot.working_bytes)
        for value in self._readers.decided(spot):
            self._release_native(value, tuple(self._native_until[value]))

    def _hold_persistent(self, device: int, spot: Spot) -> None:
        room = self.room[device]
        if room is None or not spot.persists:
            return
        held, profile = self._held[device], self.profiles[device]
        for value, layout, amount in spot.persists:
            if (value, layout) not in held:
                held.add((value, layout))
                if profile is None:
                    room -= amount
                else:
                    profile.limit -= amount
        self.room[device] = room

    # -- probing -------------------------------------------------------------------------------

    def probe(self, spot: Spot) -> Probe | None:
        """Return the earliest run there with its transfers, or ``None`` if it does not fit now.

        Every producer must have been committed.
        """
        supply = self._supply(spot)
        if supply is None or (self.static and not self._static_fits(spot, supply)):
            return None
        added = self._new_persistent(spot)
        if not self.static and not self._persistent_fits(spot, added):
            return None
        transfers = self._place_transfers(supply, added)
        if transfers is None:
            return None
        start = self._place_operator(spot, supply.ready, self._demand(spot, supply, added))
        if spot.duration == 0 and spot.kept_bytes:
            start = self._at_once(spot, supply, added, start)
        if start is None:
            return None
        stop = start + spot.duration
        for copy in supply.extended:
            if copy.until < stop and not self._can_extend(copy, stop, supply, added):
                return None
        return Probe(spot, start, stop, transfers)

    def _supply(self, spot: Spot) -> Supply | None:
        """Collect the inputs: when they are ready, which copies are still to be made."""
        supply = Supply()
        view, site = self.view, spot.site
        ready = 0
        for value, wanted in spot.reads:
            made, native = self._made[value], self._native_layout[value]
            origin = self.site[view.producer[value]]
            ready = max(ready, made)
            if origin == site and native == wanted:
                continue
            legs = view.legs(value, (origin, native), (site, wanted))
            if legs is None:
                return None
            for leg in legs:
                copy = self._copies.get(leg.copy)
                if copy is None:
                    supply.missing.append((made, leg.duration, leg))
                    continue
                ready = max(ready, copy.stop)
                if not copy.open:
                    supply.extended.append(copy)
        supply.ready = ready
        return supply

    def _new_persistent(self, spot: Spot) -> dict[int, int]:
        """Bytes of persistent values that the devices do not hold yet, per limited device.

        The first operator of a unit brings those of the whole unit.
        """
        unit = self.view.unit[spot.operator]
        persists = spot.persists
        if self.unit_site[unit] < 0 and len(self.view.units[unit]) > 1:
            both = (*persists, *self.view.unit_persists(unit, spot.site))
            persists = tuple(dict.fromkeys(both))
        added: dict[int, int] = {}
        if persists:
            for device in spot.devices:
                if self.room[device] is not None:
                    held = self._held[device]
                    extra = sum(b for v, layout, b in persists if (v, layout) not in held)
                    if extra:
                        added[device] = extra
        return added

    def _persistent_fits(self, spot: Spot, added: dict[int, int]) -> bool:
        """Return whether the limits hold, also for the needs of every operator decided so far."""
        unit = self.view.unit[spot.operator]
        opening = self.unit_site[unit] < 0
        if not added and not opening:
            return True
        working = self.view.unit_working(unit, spot.site) if opening else 0
        for device in spot.devices:
            profile = self.profiles[device]
            if profile is None:
                continue
            limit = profile.limit - added.get(device, 0)
            working = max(working, self._working[device])
            if working > limit or (device in added and profile.top > limit):
                return False
            if opening and profile.final + self.headroom * working > limit:
                return False
        return True

    def _static_fits(self, spot: Spot, supply: Supply) -> bool:
        """Return whether everything the devices then ever hold fits (memory law ``static``)."""
        arriving: dict[int, int] = {}
        for _, _, leg in supply.missing:
            for device in leg.target:
                arriving[device] = arriving.get(device, 0) + leg.bytes
        outputs = sum(amount for _, _, amount in spot.writes)
        added = self._new_persistent(spot)
        for device in spot.devices:
            room = self.room[device]
            if room is not None:
                need = outputs + added.get(device, 0) + arriving.get(device, 0)
                if need + max(spot.workspace, self._workspace[device]) > room:
                    return False
        return True

    def _place_transfers(
        self, supply: Supply, added: dict[int, int]
    ) -> list[tuple[Leg, int]] | None:
        """Find the earliest start of each missing transfer, first come first served."""
        missing = supply.missing
        placed: list[tuple[Leg, int]] = []
        if not missing:
            return placed
        if len(missing) > 1:
            missing.sort(key=lambda item: item[:2])
        for made, duration, leg in missing:
            start = self._transfer_start(leg, made, placed, supply.arriving, added)
            if start is None:
                return None
            placed.append((leg, start))
            supply.ready = max(supply.ready, start + duration)
        return placed

    def _transfer_start(
        self,
        leg: Leg,
        ready: int,
        placed: list[tuple[Leg, int]],
        arriving: dict[int, int],
        added: dict[int, int],
    ) -> int | None:
        watched = [
            (profile, leg.bytes + arriving.get(device, 0) + added.get(device, 0))
            for device in leg.target
            if (profile := self.profiles[device]) is not None
        ]
        time, before = ready, -1
        while time != before:
            before = time
            for resource in leg.resources:
                time = self.busy[resource].earliest(time, leg.duration)
            for other, start in placed:
                stop = start + other.duration
                if start < time + leg.duration and time < stop and share_resource(leg, other):
                    time = stop
            for profile, amount in watched:
                result = profile.earliest_open(time, amount)
                if result is None:
                    return None
                time = result
        for device in leg.target:
            if self.profiles[device] is not None:
                arriving[device] = arriving.get(device, 0) + leg.bytes
        return time

    def _demand(
        self, spot: Spot, supply: Supply, added: dict[int, int]
    ) -> list[tuple[Profile, int, int]]:
        """Return bytes that stay after an operator, and those needed while it runs, per profile."""
        return [
            (
                profile,
                supply.arriving.get(device, 0) + added.get(device, 0) + spot.kept_bytes,
                spot.passing_bytes + supply.extended_bytes(device),
            )
            for device in spot.devices
            if (profile := self.profiles[device]) is not None
        ]

    def _at_once(
        self, spot: Spot, supply: Supply, added: dict[int, int], start: int | None
    ) -> int | None:
        """Improve the start of an operator without length: what it reads last, it frees at once."""
        ready = supply.ready
        freed = dict.fromkeys(spot.devices, 0)
        for value, _ in spot.reads:
            producer = self.runs[self.view.producer[value]]
            assert producer is not None
            legs = self.view.legs_between(value, producer.spot, spot) or ()
            native, copies = self._readers.last(value, spot, legs)
            until = [self._native_until[value][device] for device in native]
            for device in native:
                freed[device] += self._native_bytes[value]
            for leg in copies:
                copy = self._copies.get(leg.copy)
                if copy is None or copy.open:
                    until += [] if copy is None else [copy.until]
                    for device in leg.target:
                        freed[device] += leg.bytes
            ready = max(ready, *until) if until else ready
        demand = [
            (profile, kept - freed[device], passing)
            for device, (profile, kept, passing) in zip(
                (device for device in spot.devices if self.profiles[device] is not None),
                self._demand(spot, supply, added),
                strict=True,
            )
        ]
        result = self._place_operator(spot, ready, demand)
        return result if start is None or (result is not None and result < start) else start

    def _place_operator(
        self, spot: Spot, ready: int, watched: list[tuple[Profile, int, int]]
    ) -> int | None:
        duration = spot.duration
        time, before = ready, -1
        while time != before:
            before = time
            for device in spot.devices:
                busy = self.busy[device]
                time = busy.earliest(time, duration) if self.insertion else busy.last(time)
            for profile, kept, passing in watched:
                result = profile.earliest_open(time, kept)
                if result is not None and passing:
                    result = profile.earliest_window(result, duration, kept + passing)
                if result is None:
                    return None
                time = result
        return time

    def _can_extend(self, copy: Copy, stop: int, supply: Supply, added: dict[int, int]) -> bool:
        """Return whether a closed copy can stay until ``stop``, together with all new copies."""
        for device in copy.leg.target:
            profile = self.profiles[device]
            if profile is None:
                continue
            others = supply.extended_bytes(device)
            others += supply.arriving.get(device, 0) + added.get(device, 0)
            if not profile.fits(copy.until, stop, others):
                return False
        return True

    def level_with(self, probe: Probe) -> int:
        """Largest number of bytes that a probe would leave on a device of its site for ever.

        Devices without a limit count as empty.
        """
        highest = 0
        for device in probe.spot.devices:
            profile = self.profiles[device]
            if profile is not None:
                arriving = sum(leg.bytes for leg, _ in probe.transfers if device in leg.target)
                used = (self._capacity[device] or 0) - profile.limit + profile.final
                highest = max(highest, used + arriving + probe.spot.kept_bytes)
        return highest

    # -- committing ----------------------------------------------------------------------------

    def commit(self, probe: Probe) -> None:
        """Enter a run that was probed in the present state."""
        spot = probe.spot
        operator, start, stop = spot.operator, probe.start, probe.stop
        self.freed = False
        self.runs[operator] = probe
        if self.site[operator] < 0:
            self.decide_unit(self.view.unit[operator], spot.site)
        for device in spot.devices:
            self.busy[device].add(start, stop)
            self._hold_on_device(device, spot, start, stop)
        for value, layout, amount in spot.writes:
            self._made[value] = stop
            self._native_layout[value] = layout
            self._native_bytes[value] = amount
            self._native_until[value] = dict.fromkeys(spot.devices, stop)
        for leg, begin in probe.transfers:
            self._enter_transfer(leg, begin, stop)
        for value, _ in spot.reads:
            self._read(value, spot, stop)

    def _hold_on_device(self, device: int, spot: Spot, start: int, stop: int) -> None:
        self._hold_persistent(device, spot)
        room, profile = self.room[device], self.profiles[device]
        if profile is not None:
            if spot.passing_bytes:
                profile.add(start, stop, spot.passing_bytes)
            if spot.kept_bytes:
                profile.add(start, None, spot.kept_bytes)
        elif room is not None:
            self.room[device] = room - sum(amount for _, _, amount in spot.writes)
            self._workspace[device] = max(self._workspace[device], spot.workspace)

    def _enter_transfer(self, leg: Leg, start: int, read_stop: int) -> None:
        stop = start + leg.duration
        self.transfers.append((leg, start))
        for resource in leg.resources:
            self.busy[resource].add(start, stop)
        for device in leg.target:
            room, profile = self.room[device], self.profiles[device]
            if profile is not None:
                profile.add(start, None, leg.bytes)
            elif room is not None:
                self.room[device] = room - leg.bytes
        copy = Copy(leg, stop, read_stop)
        self._copies[leg.copy] = copy
        self._copies_of[leg.value].append(copy)
        self._extend_native(leg.value, leg.source, stop)
        self._release_native(leg.value, self._readers.sent(leg))

    def push(self, devices: Sequence[int]) -> bool:
        """Send native copies on these devices to where they are known to be read.

        Returns whether anything was sent. It frees memory before the readers themselves can run.
        """
        pushed = False
        for value, held in enumerate(self._native_until):
            if held.keys().isdisjoint(devices):
                continue
            for leg in self._readers.unsent(value):
                if leg.copy in self._copies:
                    continue
                start = self._transfer_start(leg, self._made[value], [], {}, {})
                if start is not None:
                    self._enter_transfer(leg, start, start + leg.duration)
                    pushed = True
        return pushed

    def _read(self, value: int, spot: Spot, stop: int) -> None:
        view = self.view
        producer = self.runs[view.producer[value]]
        assert producer is not None
        legs = view.legs_between(value, producer.spot, spot) or ()
        if not legs or legs[0].target != spot.devices:
            self._extend_native(value, spot.devices, stop)
        for leg in legs:
            copy = self._copies[leg.copy]
            if not copy.open and copy.until < stop:
                self._change(leg.target, copy.until, stop, leg.bytes)
            copy.until = max(copy.until, stop)
        self._release_native(value, self._readers.read(value, spot, legs))
        for copy in self._copies_of[value]:
            if copy.open and not self._readers.awaited(copy.leg):
                copy.open = False
                self._change(copy.leg.target, copy.until, None, -copy.leg.bytes)

    def _extend_native(self, value: int, devices: tuple[int, ...], stop: int) -> None:
        """Keep the native copy until ``stop`` on those of the devices that have one."""
        until = self._native_until[value]
        for device in devices:
            if device in until:
                until[device] = max(until[device], stop)

    def _release_native(self, value: int, devices: tuple[int, ...]) -> None:
        """Close the native copy on devices where nobody needs it any more."""
        for device in devices:
            until = self._native_until[value][device]
            self._change((device,), until, None, -self._native_bytes[value])

    def _change(self, devices: tuple[int, ...], start: int, stop: int | None, amount: int) -> None:
        for device in devices:
            profile = self.profiles[device]
            if profile is not None:
                profile.add(start, stop, amount)
                self.freed = self.freed or amount < 0

    # -- answers -------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """Return the plan; every operator must have been committed."""
        view, problem = self.view, self.view.problem
        devices = problem.cluster.device_names
        runs = []
        for name, run in zip(view.names, self.runs, strict=True):
            assert run is not None, f"{name} has not been placed"
            option, where = run.spot.placement
            runs.append(OperatorRun(name, option, where, run.start, run.stop))
        transfers = tuple(
            Transfer(
                view.values[leg.value].name,
                tuple(devices[device] for device in leg.source),
                tuple(devices[device] for device in leg.target),
                leg.layout,
                start,
                start + leg.duration,
            )
            for leg, start in self.transfers
        )
        return Plan(problem.name, tuple(runs), transfers)
