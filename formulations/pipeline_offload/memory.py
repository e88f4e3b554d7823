"""The memory law with offload lanes, as rows.

Memory on a device can only peak where something is allocated: at the starts of steps that make
something, and at the starts of inbound journeys. A row at each of them sums up what is there::

    made before and not yet released, less what is away on the host

Bits set to 1 are truths about time (rows of ``truth``); a bit left at 0 only counts more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyomo.environ as pyo

from milp_plan.api import at_most
from milp_plan.kinds.pipeline.holds import Held

from .lanes import Trips

Entry = tuple[int, str, str, str | None]
"""Bytes, producer, last reader, and the value's name where it may travel."""


class LaneMemory:
    """Rows and columns of the memory law, added to a model of steps and journeys.

    Parameters
    ----------
    model
        Builder with ``m`` (columns ``start``, ``out``, ``back``), ``shop``, ``order``, ``moving``,
        windows (``earliest``, ``latest``, ``ready``, ``last_start``), ``ticks`` and ``unit``,
        ``first(x, y)``, ``leave(value)``, ``gone(value)``, ``stop(x)``, ``stops(x)``, ``after_if``.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.m, self.shop = model, model.m, model.shop
        for name in ("away", "ended", "later"):
            self.m.add_component(name, pyo.Var(pyo.Any, domain=pyo.Binary, dense=False))
        self.m.capacity, self.m.truth = pyo.ConstraintList(), pyo.ConstraintList()
        self.makers: dict[str, list[Entry]] = {}
        for item in self.shop.items:
            entry = (item.bytes, item.producer, item.last, None)
            self.makers.setdefault(item.device, []).append(entry)
        for held in self.shop.held.values():
            entry = (held.bytes, held.producer, held.last, held.value)
            self.makers.setdefault(held.device, []).append(entry)

    def write(self) -> None:
        """Rows for every device that could overflow."""
        for device, limit in self.shop.limits.items():
            found = [entry for entry in self.makers.get(device, []) if entry[0]]
            if limit < 0:
                at_most(self.m.capacity, -limit, 0)
            elif sum(size for size, *_ in found) > limit:
                self.device(found, limit)

    def device(self, found: list[Entry], limit: int) -> None:
        """At every allocation, what is on the device fits."""
        room, unit = sum(size for size, *_ in found) - limit, self.model.memory_unit
        for event in dict.fromkeys(producer for _, producer, _, _ in found):
            terms = [
                size / unit * self.alive(producer, last, value, event)
                for size, producer, last, value in found
            ]
            at_most(self.m.capacity, pyo.quicksum(terms), limit / unit)
            self.work_around(event)
        for _, _, _, arriving in found:
            if arriving is not None and arriving in self.model.moving:
                terms = [
                    size / unit * self.alive_at_return(producer, last, value, arriving)
                    for size, producer, last, value in found
                ]
                slack = room / unit * (1 - self.model.leave(arriving))
                at_most(self.m.capacity, pyo.quicksum(terms), limit / unit + slack)
                self.work_around_return(arriving)

    # -- what is away has travelled one by one ----------------------------------------------

    def by_lane(self, way: int, bits: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Lane -> values that are away with it, and their bits."""
        found: dict[str, dict[str, Any]] = {}
        for value, bit in bits.items():
            found.setdefault(self.model.moving[value].lanes[way], {})[value] = bit
        return found

    def journeys(self, way: int, bits: Mapping[str, Any]) -> Any:
        """Ticks that the journeys of what is away take, in units."""
        moving = self.model.moving
        ticks = {v: (moving[v].out_ns, moving[v].back_ns)[way] for v in bits}
        return pyo.quicksum(ticks[v] / self.model.unit * bit for v, bit in bits.items() if ticks[v])

    def work_around(self, event: str) -> None:
        """All that is away when a step starts went out before it, and comes back after it.

        Journeys of one lane take turns: so there is time for all of them after the first producer
        has stopped, and before the last reader starts; also for those alone that were made after
        a step before the event, or are read before a step after it.
        """
        model, rows, start = self.model, self.m.truth, self.m.start[event]
        bits = {v: self.m.away[v, event] for v in model.moving if (v, event) in self.m.away}
        surely = model.order.surely
        for group in self.by_lane(0, bits).values():
            least = min(model.earliest[event], *(model.ready[v] for v in group))
            at_most(rows, least / model.unit + self.journeys(0, group), start)
            for first in dict.fromkeys(model.moving[v].producer for v in group):
                later = {
                    v: bit for v, bit in group.items()
                    if model.moving[v].producer == first or surely(first, model.moving[v].producer)
                }  # fmt: skip
                if surely(first, event) and len(later) > 1:
                    at_most(rows, model.stop(first) + self.journeys(0, later), start)
        for group in self.by_lane(1, bits).values():
            own = model.ticks[event] + model.order.tails[event]
            self.work_after(start, group, min(own, self.tail(group)))
            for last in dict.fromkeys(r for v in group for r in model.moving[v].readers):
                sooner = {
                    v: bit for v, bit in group.items()
                    if any(r == last or surely(r, last) for r in model.moving[v].readers)
                }  # fmt: skip
                if surely(event, last) and len(sooner) > 1:
                    at_most(rows, start + self.journeys(1, sooner), self.m.start[last])

    def work_around_return(self, arriving: str) -> None:
        """The same at the moment when a value starts back; its own journey comes first."""
        model, rows, back = self.model, self.m.truth, self.m.back[arriving]
        bits = {
            v: self.m.away["back", v, arriving] for v in model.moving
            if ("back", v, arriving) in self.m.away
        }  # fmt: skip
        for group in self.by_lane(0, bits).values():
            least = min(model.ready[v] for v in [*group, arriving])
            at_most(rows, least / model.unit + self.journeys(0, group), back)
        lane = model.moving[arriving].lanes[1]
        group = {arriving: model.leave(arriving), **self.by_lane(1, bits).get(lane, {})}
        self.work_after(back, group, self.tail(group))

    def tail(self, values: Iterable[str]) -> int:
        """Least time from the return of the last of some values to the end, ticks."""
        model, moving = self.model, self.model.moving
        tails = model.order.tails
        return int(min(model.ticks[r] + tails[r] for v in values for r in moving[v].readers))

    def work_after(self, start: Any, group: Mapping[str, Any], tail: int) -> None:
        """After a moment, time for all journeys back and what follows the last of them."""
        if self.model.by_time:
            rest = self.journeys(1, group) + tail / self.model.unit
            at_most(self.m.truth, start + rest, self.m.value)

    def alive(self, producer: str, last: str, value: str | None, event: str) -> Any:
        """1 where something lies on the device when a step of it starts."""
        made = 1 if producer == event else self.model.first(producer, event)
        if _zero(made):
            return 0
        there = made - (0 if last == event else self.model.first(last, event))
        stays = value is None or value not in self.model.moving or _zero(there)
        return there if stays else there - self.away(str(value), event)

    def away(self, value: str, event: str) -> Any:
        """1 only where the value has left and not started back when a step starts."""
        m, held = self.m, self.model.moving[value]
        if (value, event) in m.away:
            return m.away[value, event]
        before = [self.model.first(n, event) for n in (held.producer, *held.near)]
        after = [1 if r == event else self.model.first(r, event) for r in held.readers]
        if any(map(_zero, before)) or any(_zero(1 - expression) for expression in after):
            return 0
        least, most = (
            self.model.ready[value] + held.out_ns,
            self.model.last_start[value] - held.back_ns,
        )
        if least > self.model.latest[event] or self.model.earliest[event] > most:
            return 0
        bit = m.away[value, event]
        at_most(m.truth, bit, self.model.leave(value))
        for expression in before:
            at_most(m.truth, bit, expression)
        for expression in after:
            at_most(m.truth, bit, 1 - expression)
        gone, start = self.model.gone(value), m.start[event]
        latest_gone = self.model.last_start[value]
        self.model.after_if(
            m.truth, (gone, latest_gone), (start, self.model.earliest[event]), 1 - bit
        )
        latest = self.model.latest[event]
        self.model.after_if(
            m.truth, (start, latest), (m.back[value], self.model.ready[value]), 1 - bit
        )
        return bit

    def alive_at_return(self, producer: str, last: str, value: str | None, arriving: str) -> Any:
        """1 where something lies on the device when a value starts back."""
        if value == arriving:
            return 1
        there = 1 - self.later(producer, arriving) - self.ended(last, arriving)
        stays = value is None or value not in self.model.moving or _zero(there)
        return there if stays else there - self.away_at_return(str(value), arriving)

    def later(self, step: str, arriving: str) -> Any:
        """1 only where a step starts after a value has started back, or with it and counts it."""
        m, held = self.m, self.model.moving[arriving]
        if step == held.producer or self.model.order.surely(step, held.producer):
            return 0
        if any(step == r or self.model.order.surely(r, step) for r in held.readers):
            return 1
        if self.model.latest[step] < self.model.ready[arriving] + held.out_ns:
            return 0
        if (step, arriving) not in m.later:
            bit = m.later[step, arriving]
            at_most(m.truth, bit, self.model.leave(arriving))
            at_most(m.truth, bit, self.model.first(held.producer, step))
            most = self.model.last_start[arriving]
            back, start = m.back[arriving], m.start[step]
            self.model.after_if(m.truth, (back, most), (start, self.model.earliest[step]), 1 - bit)
            if any(producer == step for _, producer, _, _ in self.makers[held.device]):
                away = self.away(arriving, step)
                at_most(m.truth, bit + away, 1)
        return m.later[step, arriving]

    def ended(self, step: str, arriving: str) -> Any:
        """1 only where a step has stopped when a value starts back."""
        m, held = self.m, self.model.moving[arriving]
        if step == held.producer or self.model.order.surely(step, held.producer):
            return 1
        if any(step == r or self.model.order.surely(r, step) for r in held.readers):
            return 0
        most = self.model.last_start[arriving] - held.back_ns
        if self.model.earliest[step] + self.model.ticks[step] > most:
            return 0
        if (step, arriving) not in m.ended:
            bit = m.ended[step, arriving]
            at_most(m.truth, bit, self.model.leave(arriving))
            for reader in held.readers:
                at_most(m.truth, bit, self.model.first(step, reader))
            back = m.back[arriving]
            stop, latest = self.model.stop(step), self.model.stops(step)
            self.model.after_if(
                m.truth, (stop, latest), (back, self.model.ready[arriving]), 1 - bit
            )
        return m.ended[step, arriving]

    def away_at_return(self, value: str, arriving: str) -> Any:
        """1 only where a value has left and starts back later than another one."""
        m, held, other = self.m, self.model.moving[value], self.model.moving[arriving]
        least = self.model.ready[value] + held.out_ns
        if least > self.model.last_start[arriving] - other.back_ns:
            return 0
        if self.model.ready[arriving] + other.out_ns > self.model.last_start[value] - held.back_ns:
            return 0
        bit = m.away["back", value, arriving]
        at_most(m.truth, bit, self.model.leave(value))
        at_most(m.truth, bit, self.model.leave(arriving))
        for name in held.near:
            at_most(m.truth, bit, self.ended(name, arriving))
        back, latest_gone = m.back[arriving], self.model.last_start[value]
        least_back = self.model.ready[arriving]
        self.model.after_if(
            m.truth, (self.model.gone(value), latest_gone), (back, least_back), 1 - bit
        )
        most = self.model.last_start[arriving]
        self.model.after_if(
            m.truth, (back, most), (m.back[value], self.model.ready[value]), 1 - bit
        )
        return bit

    def encode(self, start: Mapping[str, int], trips: Trips) -> None:
        """Set the bits as the times of a plan say."""
        held, ticks = self.model.moving, self.model.ticks
        gone = {
            v: max(out + held[v].out_ns, *(start[n] + ticks[n] for n in held[v].near), 0)
            for v, (out, _) in trips.items()
        }
        for index in self.m.away:
            value = index[-2]
            moment = trips.get(index[-1], (0, -1))[1] if len(index) == 3 else start[index[-1]]
            truth = value in trips and gone[value] <= moment <= trips[value][1]
            self.m.away[index].set_value(int(truth))
        for step, arriving in self.m.ended:
            truth = arriving in trips and start[step] + ticks[step] <= trips[arriving][1]
            self.m.ended[step, arriving].set_value(int(truth))
        for step, arriving in self.m.later:
            truth = arriving in trips and trips[arriving][1] < start[step]
            self.m.later[step, arriving].set_value(int(truth))

    @staticmethod
    def arcs(
        moving: Mapping[str, Held], ticks: Mapping[str, int], bits: Mapping[str, set[Any]]
    ) -> list[tuple[Any, Any, int]]:
        """Least times between starts that decided bits stand for.

        Nodes are steps and ("out" or "back", value); those of values that stay are not there.
        """
        found: list[tuple[Any, Any, int]] = []
        for *return_, value, event in bits["away"]:
            if value in moving:
                node = ("back", event) if return_ else event
                found.append((("out", value), node, moving[value].out_ns))
                found.append((node, ("back", value), 0))
        found += [(step, ("back", value), ticks[step]) for step, value in bits["ended"]]
        found += [(("back", value), step, 0) for step, value in bits["later"]]
        return found


def _zero(expression: Any) -> bool:
    return isinstance(expression, int) and expression == 0
