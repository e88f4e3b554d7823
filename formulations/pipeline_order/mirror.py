"""Two ways through the same devices, one the mirror image of the other."""

from __future__ import annotations

from collections.abc import Sequence

from milp_plan.api import Neighbourhood
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.timing import words_of

from .graph import free_tasks


def mirror_image(shop: Shop, neighbourhood: Neighbourhood | None = None) -> list[int] | None:
    """Kind -> its image on the other route, if exchanging the two routes changes nothing.

    Kinds correspond by name. Machines must correspond one to one and none to itself: durations,
    bytes, limits, numbers of micro-batches and arcs are the same on both sides. A neighbourhood's
    plan and its free tasks must be their own images as well.
    """
    image = _image(shop)
    if image is None or neighbourhood is None:
        return image
    free = free_tasks(shop, neighbourhood.plan, neighbourhood.free)
    whole = is_mirrored(shop, image, words_of(shop, neighbourhood.plan))
    return image if whole and {(image[k], j) for k, j in free} == free else None


def _image(shop: Shop) -> list[int] | None:
    by_name = {(kind.route, kind.name): k for k, kind in enumerate(shop.kinds)}
    if {kind.route for kind in shop.kinds} != {0, 1}:
        return None
    image = []
    for kind in shop.kinds:
        other = by_name.get((1 - kind.route, _renamed(shop, kind.name)))
        if other is None:
            return None
        image.append(other)
    machines = machine_image(shop, image)
    for k, other in enumerate(image):
        one, two = shop.kinds[k], shop.kinds[other]
        alike = (one.duration, one.alloc, one.free, one.count)
        if alike != (two.duration, two.alloc, two.free, two.count) or image[other] != k:
            return None
        if machines.get(one.machine) != two.machine or machines.get(two.machine) != one.machine:
            return None
        if one.machine == two.machine:
            return None
        if shop.limits[one.machine] != shop.limits[two.machine]:
            return None
    arcs = set(shop.arcs)
    return image if {(image[a], image[b], lag) for a, b, lag in arcs} == arcs else None


def machine_image(shop: Shop, image: Sequence[int]) -> dict[int, int]:
    """Machine -> its image, as the first of its kinds has it."""
    return {
        machine: shop.kinds[image[kinds[0]]].machine
        for machine, kinds in enumerate(shop.on_machine)
        if kinds
    }


def is_mirrored(shop: Shop, image: Sequence[int], words: Sequence[Sequence[int]]) -> bool:
    """Whether the words of each machine's image are the images of its words."""
    return all(
        [image[k] for k in words[machine]] == list(words[other])
        for machine, other in machine_image(shop, image).items()
    )


def _renamed(shop: Shop, name: str) -> str:
    """Name of the image: transfers are named after the device they go to."""
    value, to, device = name.partition(" to ")
    if not to or device not in shop.machines[: shop.num_devices]:
        return name
    place = shop.machines.index(device)
    return f"{value}{to}{shop.machines[shop.num_devices - 1 - place]}"
