"""Lower bound on the makespan from how long activations must lie in a device's memory.

Proof. Cut a device's memory into slots of one byte. What lies there at any instant fits, so every
byte of every interval can be given a slot of its own for its whole time (intervals are a perfect
graph). Let T be the makespan. A value lies there for at least ``least``: from the start of its
producer to the stop of its last reader if it stays; with journeys, until it is gone, and from the
start of its journey back. In a slot nothing lies before the first producer can start (``head``).
After the last interval of a slot nothing lies until T. If that interval ends with a last reader,
its length and the empty rest together are no less than the longest chain from its beginning to T;
if it ends with a departure, the rest holds a journey back and what follows it. Either way the slot
loses at least ``after`` beside the least lengths, so::

    sum of bytes * least <= memory * (T - head - after)
"""

from __future__ import annotations

from dataclasses import dataclass

from .holds import Held, OffloadShop
from .precedence import Precedence


@dataclass(frozen=True, slots=True)
class _Stay:
    """Ticks a value must lie there, and what its slot loses if it is the last one there."""

    bytes: int
    least: int
    after: int
    head: int


def residence_bound(shop: OffloadShop, order: Precedence, *, travel: bool = True) -> int:
    """Largest bound over the devices with a memory limit, ticks.

    Parameters
    ----------
    shop, order
        A problem and orders that hold in some best plan.
    travel
        Without, nothing travels.

    Returns
    -------
    int
        0 where no device has a limit; meaningless where something does not fit at all.
    """
    return max((_device(shop, order, d, travel) for d in shop.limits), default=0)


def _device(shop: OffloadShop, order: Precedence, device: str, travel: bool) -> int:
    limit = shop.limits[device]
    found = [
        _Stay(i.bytes, least, order.after(i.producer) - least, order.heads[i.producer])
        for i in shop.items if i.device == device and i.bytes
        for least in (_from_to(order, i.producer, i.last),)
    ]  # fmt: skip
    for held in shop.held.values():
        if held.device == device and held.bytes:
            found.append(_held(shop, order, held, travel))
    if not found or limit <= 0:
        return 0
    total = sum(stay.bytes * stay.least for stay in found)
    head = min(stay.head for stay in found)
    return head + min(stay.after for stay in found) + -(-total // limit)


def _held(shop: OffloadShop, order: Precedence, held: Held, travel: bool) -> _Stay:
    stays = _from_to(order, held.producer, held.last)
    begun = order.after(held.producer)
    head = order.heads[held.producer]
    if not travel:
        return _Stay(held.bytes, stays, begun - stays, head)
    made = shop.steps[held.producer].ticks
    near = [_from_to(order, held.producer, name) for name in held.near]
    out = max([made + held.out_ns, *near])
    back = held.back_ns + max(_from_to(order, r, held.last) for r in held.readers)
    rest = held.back_ns + max(order.after(reader) for reader in held.readers)
    least = min(stays, out + back)
    return _Stay(held.bytes, least, min(begun - least, out + rest - least, rest), head)


def _from_to(order: Precedence, first: str, last: str) -> int:
    """Least time from the start of one step to the stop of another that it precedes."""
    return order.between(first)[last]
