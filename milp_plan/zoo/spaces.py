"""Loops and tensors of layers of single architectures, for one sample.

Common ones are in :mod:`milp_plan.cost.mesh.kinds`; the conventions are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from milp_plan.cost.mesh import Dim, Exchange, MeshOperator, Tensor
from milp_plan.cost.mesh.kinds import STATISTIC_BYTES
from milp_plan.cost.mesh.operators import Loop, loops, tensor

CONTRASTIVE_FLOPS = 10
LOSS_WORDS = 3


def dispatch_space(tokens: int, width: int, experts: int, served: int) -> MeshOperator:
    """Tokens to their experts: any token may go anywhere, so all tokens are needed whole."""
    routes = Tensor("routes", (Dim(1, ("b",)), Dim(tokens), Dim(experts)), 2, False, False)
    return MeshOperator(
        "dispatch",
        loops(b=1, e=width),
        (tensor("x", (1, "b"), (tokens, ""), (width, "e")), routes),
        tensor("y", (1, "b"), (served * experts, ""), (width, "e")),
        0,
        linear=True,
    )


def combine_space(tokens: int, width: int, experts: int, served: int) -> MeshOperator:
    """Weighted sums of the experts' outputs: sums pending in all of them stay pending."""
    returned = tuple(
        tensor(f"x{number}", (1, "b"), (served, ""), (width, "e")) for number in range(experts)
    )
    factors = Tensor("weights", (Dim(1, ("b",)), Dim(tokens), Dim(experts)), 2, True, False)
    return MeshOperator(
        "combine",
        loops(b=1, e=width),
        (*returned, factors),
        tensor("y", (1, "b"), (tokens, ""), (width, "e")),
        2 * experts * served * width,
        linear=True,
    )


def patches_space(patches: int, per_patch: int, width: int) -> MeshOperator:
    """Embed patches of an image, put a class token in front, add positions."""
    return MeshOperator(
        "patches",
        loops(b=1, n=width),
        (Tensor("image", (Dim(1, ("b",)), Dim(patches * per_patch)), 2, False),),
        tensor("y", (1, "b"), (patches + 1, ""), (width, "n")),
        2 * patches * per_patch * width,
        parameters=(
            tensor("weights", (per_patch, ""), (width, "n")),
            tensor("class and positions", (patches + 2, ""), (width, "n")),
        ),
        moved_elements=patches * width,
    )


def projection_space(tokens: int, width: int, made: int) -> MeshOperator:
    """Product of the features of one token."""
    return MeshOperator(
        "projection",
        loops(b=1, n=made, k=width),
        (tensor("x", (1, "b"), (tokens, ""), (width, "k")),),
        tensor("y", (1, "b"), (1, ""), (made, "n")),
        2 * width * made,
        parameters=(tensor("weights", (width, "k"), (made, "n")),),
        backward_passes=2,
    )


def contrastive_space(width: int, batch: int) -> MeshOperator:
    """Compare each pair with all others: samples stay together; by ``e`` scores are sums."""
    features = tuple(tensor(name, (1, "b"), (1, ""), (width, "e")) for name in ("images", "texts"))
    return MeshOperator(
        "contrastive",
        (Loop("b", 1, whole=True), Loop("e", width)),
        features,
        Tensor("loss", (), STATISTIC_BYTES),
        2 * width * batch + CONTRASTIVE_FLOPS * batch,
        parameters=(tensor("temperature", (1, "")),),
        exchanges=(Exchange("all_reduce", "e", batch, STATISTIC_BYTES, ("b",), backward=0),),
        backward_passes=2,
        moved_elements=4 * batch,
    )


def concat_space(channels: Sequence[int], size: tuple[int, int]) -> MeshOperator:
    """Concatenate maps; the concatenated channels cannot be split."""

    def maps(name: str, count: int) -> Tensor:
        return tensor(name, (1, "b"), (count, ""), (size[0], "y"), (size[1], "x"))

    return MeshOperator(
        "concat",
        loops(b=1, y=size[0], x=size[1]),
        tuple(maps(f"x{number}", count) for number, count in enumerate(channels)),
        maps("y", sum(channels)),
        0,
        linear=True,
    )


def loss_space(read: tuple[int, int, int]) -> MeshOperator:
    """Softmax and cross entropy per pixel, from (classes, height, width).

    By ``v``: largest, sum and the logit of the label are exchanged, three words per pixel.
    """
    classes, height, width = read
    words = LOSS_WORDS * height * width
    return MeshOperator(
        "cross_entropy",
        loops(b=1, v=classes),
        (tensor("x0", (1, "b"), (classes, "v"), (height, ""), (width, "")),),
        Tensor("loss", (), STATISTIC_BYTES),
        0,
        exchanges=(Exchange("all_reduce", "v", words, STATISTIC_BYTES, ("b",), backward=0),),
    )
