"""Finds pipelines of two routes through the same devices, one the mirror image of the other."""

from __future__ import annotations

from .shop import Shop


def mirror_image(shop: Shop) -> list[int] | None:
    """Return the image of each kind on the other route; ``None`` if the routes are not mirrored.

    The shop must have two routes with equal kinds in the same order, and a pairing of its machines
    that takes one to the other and leaves no machine in place: limits and arcs are the same on
    both sides.
    """
    first, second = (
        [k for k, kind in enumerate(shop.kinds) if kind.route == route] for route in (0, 1)
    )
    if len(first) != len(second) or len(shop.kinds) != 2 * len(first):
        return None
    image = [0] * len(shop.kinds)
    for a, b in zip(first, second, strict=True):
        image[a], image[b] = b, a
    pairs: dict[int, int] = {}
    for k, other in enumerate(image):
        one, two = shop.kinds[k], shop.kinds[other]
        same = ("role", "duration", "alloc", "free", "count")
        if any(getattr(one, name) != getattr(two, name) for name in same):
            return None
        if pairs.setdefault(one.machine, two.machine) != two.machine:
            return None
    if any(m == n or shop.limits[m] != shop.limits[n] for m, n in pairs.items()):
        return None
    arcs = set(shop.arcs)
    return image if all((image[a], image[b], lag) in arcs for a, b, lag in arcs) else None
