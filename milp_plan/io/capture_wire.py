"""Wire types of captured graphs: what a PyTorch model computes, kernel by kernel.

Class names and first lines go into the published schema
(``instances/formats/capture.schema.json``); the fields are described in
``instances/formats/capture.md``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .wire import Count

MARKER = "milp-plan-capture"


class Frozen(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A JSON object as others, of which nothing changes once it is read."""


class Tensor(Frozen, frozen=True):
    """A tensor that a kernel reads or makes: a view of a storage."""

    storage: Count
    shape: tuple[Count, ...]
    dtype: str
    view: Count | None = None


Scalar = bool | int | float | str | None
Argument = Tensor | tuple[Tensor | Scalar, ...] | Scalar


class Storage(Frozen, frozen=True):
    """Memory that tensors lie in; views share one, and so do tied parameters."""

    name: str
    bytes: Count
    kind: Literal["parameter", "buffer", "input", "constant", "result"]
    dtype: str
    trained: bool = False
    aliases: tuple[str, ...] = ()


class Kernel(Frozen, frozen=True):
    """One call of an operator that makes new memory."""

    name: str
    operator: str
    phase: Literal["forward", "backward"]
    module: str | None
    arguments: tuple[Argument, ...] = ()
    keywords: dict[str, Argument] = msgspec.field(default_factory=dict)
    results: tuple[Tensor | None, ...] = ()
    pointwise: bool = False
    flops: Count | None = None


class View(Frozen, frozen=True):
    """One call of an operator that gives another view of memory that is there."""

    name: str
    operator: str
    arguments: tuple[Argument, ...] = ()
    results: tuple[Tensor, ...] = ()


class Result(Frozen, frozen=True):
    """A storage that the model hands out."""

    storage: Count
    kind: Literal["loss", "output", "gradient", "mutation"]
    of: Count | None = None
    view: Count | None = None


class Profile(Frozen, frozen=True):
    """Times of kernels as they were measured on a device."""

    device: str
    threads: Count
    date: str
    torch: str
    kernels: dict[str, Count]


class Capture(Frozen, frozen=True):
    """A captured graph: kernels in the order in which PyTorch runs them."""

    format: Literal["milp-plan-capture"]
    version: Literal[1]
    name: str
    mode: Literal["training", "inference"]
    torch: str
    nodes: Count
    storages: tuple[Storage, ...]
    kernels: tuple[Kernel, ...]
    results: tuple[Result, ...] = ()
    views: tuple[View, ...] = ()
    profile: Profile | None = None
    onnx: str | None = None
