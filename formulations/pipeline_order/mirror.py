"""Two ways through the same devices, one the mirror image of the other."""

from __future__ import annotations

from collections.abc import Sequence

from milp_plan.api import Neighbourhood
from milp_plan.kinds.pipeline.mirror import mirror_image
from milp_plan.kinds.pipeline.shop import Shop
from milp_plan.kinds.pipeline.timing import words_of

from .graph import free_tasks


def image_around(shop: Shop, neighbourhood: Neighbourhood | None = None) -> list[int] | None:
    """Kind -> its image on the other route, if exchanging the two routes changes nothing.

    A neighbourhood's plan and its free tasks must be their own images as well.
    """
    image = mirror_image(shop)
    if image is None or neighbourhood is None:
        return image
    free = free_tasks(shop, neighbourhood.plan, neighbourhood.free)
    whole = is_mirrored(shop, image, words_of(shop, neighbourhood.plan))
    return image if whole and {(image[k], j) for k, j in free} == free else None


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
