"""Pipelines as TOML: costs per piece of a model. Described in ``instances/formats/pipeline.md``."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from milp_plan.core import Finding, InputError

from .defects import json_path, quoted, schema_findings, toml_finding
from .files import Document, read_document
from .wire import Positive, Strict, schema_of

Amount = Annotated[int, msgspec.Meta(ge=0)] | Annotated[float, msgspec.Meta(ge=0)]
"""A time or a size in the file's own unit; decimals stay exact."""


_Wire = TypeVar("_Wire", bound=msgspec.Struct)

LARGEST = 10**18
"""Maximum of times and sizes."""

MOST_PIECES = 100_000
"""Maximum number of pieces of a model, with repetitions: hundreds of times any known model."""


class PipelinePiece(Strict):
    """A part of the model that is not split: times and sizes for one micro-batch."""

    forward: Amount
    backward: Amount
    weight: Amount
    held_to_backward: Amount = 0
    held_to_weight: Amount = 0
    gradient: Amount = 0
    parameters: Amount = 0
    repeat: Positive = 1
    name: str = ""

    @property
    def amounts(self) -> tuple[float, ...]:
        """Times and sizes as arguments of :class:`Piece`."""
        times = self.forward, self.backward, self.weight
        sizes = self.held_to_backward, self.held_to_weight, self.gradient, self.parameters
        return (*times, *sizes)


class PipelineFile(Strict):
    """A model as a list of pieces, in the order of the forward pass."""

    pieces: Annotated[tuple[PipelinePiece, ...], msgspec.Meta(min_length=1)]
    transfer: Amount = 0
    time_unit: str = "unspecified"
    size_unit: str = "unspecified"
    memory: Amount | None = None


def exact(number: float | int) -> Fraction:
    """Return the decimal as which a number was written: 0.1 is one tenth."""
    return Fraction(Decimal(repr(number)))


def read_pipeline_file(path: str | Path) -> PipelineFile:
    """Read a pipeline file.

    Raises
    ------
    InputError
        With every defect of the file: no TOML, each field that is not what it should be, a number
        above :data:`LARGEST`, or more than :data:`MOST_PIECES` pieces.
    """
    document = read_document(path, "a pipeline file (TOML)")
    read = decode_toml(document, PipelineFile)
    numbers = {f"pieces[{place}]": piece for place, piece in enumerate(read.pieces)}
    for where, item in {**numbers, "transfer": read.transfer, "memory": read.memory or 0}.items():
        amounts = [item] if isinstance(item, int | float) else item.amounts
        if max(amounts) > LARGEST:
            found, most = quoted(max(amounts)), f"at most {LARGEST:.0e}"
            raise InputError([Finding(where, found, most, "use a larger unit", document.file)])
    count = sum(piece.repeat for piece in read.pieces)
    if count > MOST_PIECES:
        found, remedy = f"{count} pieces in all", "make some of them one"
        most = f"at most {MOST_PIECES}"
        raise InputError([Finding("pieces, repeat", found, most, remedy, document.file)])
    return read


def endless(item: Any, path: tuple[str | int, ...] = ()) -> Iterator[Finding]:
    """Report numbers that TOML allows and plans do not: ``inf`` and ``nan``."""
    if isinstance(item, float) and not math.isfinite(item):
        yield Finding(json_path(path), str(item), "a finite number", "correct it")
    if isinstance(item, dict | list):
        entries: Iterable[tuple[str | int, Any]]
        entries = item.items() if isinstance(item, dict) else enumerate(item)
        for step, entry in entries:
            yield from endless(entry, (*path, step))


def decode_toml(document: Document, kind: type[_Wire]) -> _Wire:
    """Decode a TOML document into a wire type.

    Raises
    ------
    InputError
        It is no TOML; or with every departure from the type, and every number that is not finite.
    """
    content = toml_content(document)
    findings = [*schema_findings(content, schema_of(kind)), *endless(content)]
    if findings:
        raise InputError(findings).in_file(document.file)
    return msgspec.convert(content, kind)


def toml_content(document: Document) -> dict[str, Any]:
    """Parse a TOML document.

    Raises
    ------
    InputError
        It is not TOML; says where.
    """
    try:
        return tomllib.loads(document.data.decode())
    except (
        ValueError,
        RecursionError,
    ) as error:  # a number of thousands of digits is no TOML error
        raise InputError([toml_finding(document.data, error)]).in_file(document.file) from None
