"""Wire types of reasons: parts of the answers of ``explain``, ``solve``, ``diff`` and ``sweep``.

Described in ``instances/formats/answer.md``. Amounts are exact: ticks, bytes or costs, as
``counts`` says (``time``, ``size``, ``things``).
"""

from __future__ import annotations

from typing import Literal

import msgspec

Counts = Literal["things", "time", "size"]


class ChainLink(msgspec.Struct, kw_only=True):
    """One task of the critical chain."""

    name: str
    block: str | None
    resources: list[str]
    start: int
    stop: int
    waited: int
    cause: str
    behind: str


class Usage(msgspec.Struct, kw_only=True):
    """An amount that a plan uses, and the available amount."""

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
    """A change that would improve a value."""

    text: str
    at_most: int | None


class Why(msgspec.Struct, kw_only=True):
    """The reasons for the value of a valid plan."""

    chain: list[ChainLink]
    usage: list[Usage]
    limits: list[Usage]
    binding: list[str]
    blocks: list[Block]
    remedies: list[Remedy]


class Effect(msgspec.Struct, kw_only=True):
    """A change, and the result of planning the changed problem."""

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
    """A limited resource of a problem."""

    name: str
    what: str
    amount: int | None
    counts: Counts


class Conflict(msgspec.Struct, kw_only=True):
    """A conflicting set of parts and limits."""

    noun: str
    parts: list[str]
    limits: list[Limit]
    because: str
    smallest: bool
    open: list[str]


class Raised(msgspec.Struct, kw_only=True):
    """A limit, its amount, and an amount with which a plan exists."""

    name: str
    amount: int
    enough: int
    counts: Counts


class Relaxation(msgspec.Struct, kw_only=True):
    """Larger limits with which a checked plan exists."""

    what: str
    percent: int
    raised: list[Raised]
    value: int
    proved_below: int


class Infeasibility(msgspec.Struct, kw_only=True):
    """Explanation of an infeasible problem."""

    because: str
    conflict: Conflict | None
    relaxations: list[Relaxation]
    helpless: list[str]


class Move(msgspec.Struct, kw_only=True):
    """Parts with the same difference between two plans."""

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
    """A variant of a sweep, and the result of planning it."""

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
