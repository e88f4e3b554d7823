"""Wire types of reasons: parts of the answers of ``explain``, ``solve``, ``diff`` and ``sweep``.

Described in ``instances/formats/answer.md``. Amounts are exact: ticks, bytes or costs, as
``counts`` says (``time``, ``size``, ``things``).
"""

from __future__ import annotations

from typing import Literal

import msgspec

Counts = Literal["things", "time", "size"]


class ChainLink(msgspec.Struct, kw_only=True):
    """One task of the chain that a value hangs on."""

    name: str
    block: str | None
    resources: list[str]
    start: int
    stop: int
    waited: int
    cause: str
    behind: str


class Usage(msgspec.Struct, kw_only=True):
    """How much of something a plan uses."""

    name: str
    what: str
    amount: int
    whole: int | None
    counts: Counts


class Block(msgspec.Struct, kw_only=True):
    """Parts that belong together."""

    name: str
    sort: str
    parts: int
    places: list[str]
    amount: int
    on_chain: int | None
    counts: Counts


class Remedy(msgspec.Struct, kw_only=True):
    """What would make a value better."""

    text: str
    at_most: int | None


class Why(msgspec.Struct, kw_only=True):
    """What a valid plan's value hangs on."""

    chain: list[ChainLink]
    usage: list[Usage]
    limits: list[Usage]
    binding: list[str]
    blocks: list[Block]
    remedies: list[Remedy]


class Effect(msgspec.Struct, kw_only=True):
    """A question, and what planning the changed problem gave."""

    question: str
    value: int | None
    value_in_unit: str | None
    bound: int | None
    bound_in_unit: str | None
    change: int | None
    change_in_unit: str | None
    ticks_per_unit: int
    proved: bool
    stop: str
    infeasible_because: str | None
    seconds: float


class Limit(msgspec.Struct, kw_only=True):
    """Something that a problem has so much of."""

    name: str
    what: str
    amount: int | None
    counts: Counts


class Conflict(msgspec.Struct, kw_only=True):
    """Parts and limits that no plan keeps together."""

    noun: str
    parts: list[str]
    limits: list[Limit]
    because: str
    smallest: bool
    open: list[str]


class Raised(msgspec.Struct, kw_only=True):
    """A limit, and an amount of it with which a plan exists."""

    name: str
    amount: int
    enough: int
    counts: Counts


class Relaxation(msgspec.Struct, kw_only=True):
    """More of something with which a checked plan exists."""

    what: str
    percent: int
    raised: list[Raised]
    value: int
    proved_below: int


class Infeasibility(msgspec.Struct, kw_only=True):
    """What is known of a problem without a plan."""

    because: str
    conflict: Conflict | None
    relaxations: list[Relaxation]
    helpless: list[str]


class Move(msgspec.Struct, kw_only=True):
    """Parts that two plans treat differently, in the same way."""

    what: str
    before: str
    after: str
    parts: list[str]
    cost: dict[str, int]
    counts: Counts


class Side(msgspec.Struct, kw_only=True):
    """One of two plans."""

    plan_file: str
    file: str
    fingerprint: str
    verdict: Literal["ok", "violated"]
    value: int | None
    value_in_unit: str | None
    bound: int | None
    components: dict[str, int]
    components_in_unit: dict[str, str]


class Point(msgspec.Struct, kw_only=True):
    """A variant of a sweep, and what planning it gave."""

    settings: dict[str, str]
    fingerprint: str
    value: int | None
    value_in_unit: str | None
    bound: int | None
    bound_in_unit: str | None
    proved: bool
    stop: str | None
    infeasible_because: str | None
    front: bool
    started: bool
    again: bool
    seconds: float | None
    plan_file: str | None
