"""Plans that decide how a model lies on a cluster, as JSON, and texts of their fields.

Files of training plans are described in ``instances/formats/training.md``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_origin

import msgspec

from milp_plan.core import Finding, InputError
from milp_plan.io.defects import refuse_other
from milp_plan.io.files import read_document
from milp_plan.io.wire import Count, Positive, Strict, decode, mirror

from .configuration import COUNTS, Configuration
from .problem import TrainingPlan

ALIASES = {
    "tp": "tensor",
    "cp": "context",
    "ep": "expert",
    "etp": "expert_tensor",
    "pp": "pipeline",
    "dp": "data",
    "vpp": "virtual",
    "mbs": "micro_batch",
}
"""Short names of degrees."""

VALUES = {("recompute", "selective"): "attention"}
"""Names that frameworks have for a value of a field."""


@dataclass(frozen=True)
class PlanFormat:
    """The file of a plan, and values of the fields that it decides.

    Parameters
    ----------
    title
        What a file is, in a few words.
    marker
        Member ``format`` of a file.
    plan
        Class of plans: name and fingerprint of the problem, decision, value, planner, parent.
    decision
        Class of what a plan decides.
    wire
        The same as a file has it.
    member
        Where a plan and its file have the decision.
    claim
        Member of the value that its maker claims.
    """

    title: str
    marker: str
    plan: type[Any]
    decision: type[Any]
    wire: type[msgspec.Struct]
    member: str
    claim: str

    @cached_property
    def _file(self) -> type[msgspec.Struct]:
        members: list[Any] = [
            ("format", Literal[self.marker]),
            ("version", Literal[1]),
            ("problem", str),
            (self.member, self.wire),
            ("fingerprint", str | None, None),
            (self.claim, Count | None, None),
            ("planner", str, ""),
            ("parent", str | None, None),
        ]
        return msgspec.defstruct("WirePlan", members, bases=(Strict,))

    @cached_property
    def _fields(self) -> dict[str, Any]:
        """Type of each field of the decision."""
        return {entry.name: entry.type for entry in msgspec.structs.fields(self.wire)}

    def text(self, plan: Any) -> bytes:
        """Return the text of a plan's file."""
        content = {
            "format": self.marker,
            "version": 1,
            "problem": plan.problem,
            "fingerprint": plan.fingerprint or None,
            self.member: asdict(getattr(plan, self.member)),
            self.claim: plan.value,
            "planner": plan.planner,
            "parent": plan.parent,
        }
        return json.dumps(content, indent=2, default=int).encode() + b"\n"  # integers of numpy

    def read(
        self, path: str | Path, problem: str | None = None, instance_file: Path | None = None
    ) -> Any:
        """Read a plan, of the problem of a name if one is given.

        Raises
        ------
        InputError
            The file is no plan of this format, or one for another problem; with every defect.
        """
        document = read_document(path, self.title)
        wire: Any = decode(document.data, self._file, document.file, self.marker)
        if problem is not None:
            refuse_other(wire.problem, problem, document.file, instance_file)
        decision = self.decision(**msgspec.structs.asdict(getattr(wire, self.member)))
        known = (wire.fingerprint, decision, getattr(wire, self.claim), wire.planner, wire.parent)
        return self.plan(wire.problem, *known)

    def rows(self, plan: Any) -> Iterator[tuple[str, Any]]:
        """List the fields that a plan decides, and their values as plain data."""
        for name, value in asdict(getattr(plan, self.member)).items():
            yield name, msgspec.to_builtins(value)

    # -- fixed fields ------------------------------------------------------------------------

    def fixed_field(self, text: str) -> tuple[str, object]:
        """Read ``field=value``; degrees have short names too.

        Raises
        ------
        InputError
            No field of that name, or no value of its kind.
        """
        name, _, value = text.partition("=")
        name = ALIASES.get(name.strip().lower(), name.strip().lower().replace("-", "_"))
        plain: object = value.strip()
        kind = self._fields.get(name)
        try:
            if get_origin(kind) is tuple:
                plain = tuple(int(number) for number in value.split(",") if number.strip())
            elif kind is bool:
                plain = {"true": True, "false": False}.get(value.strip().lower(), value)
            elif kind is not None and not _is_word(kind):
                plain = int(value)
            else:
                plain = VALUES.get((name, value.strip().lower()), plain)
        except ValueError:
            pass  # it is no number: said below
        return name, self._value(f"--fix {name}" if kind else "--fix", name, plain, text)

    def _value(self, where: str, name: str, value: object, text: str) -> object:
        if name not in self._fields:
            expected = f"one of {', '.join(self._fields)}, with =value"
            raise InputError([Finding(where, repr(text), expected, "correct it")])
        kind = self._fields[name]
        try:
            return msgspec.convert(value, kind)
        except ValueError:  # as msgspec's own errors are
            raise InputError([Finding(where, repr(value), _expected(kind), "correct it")]) from None

    def fixed_fields(self, texts: Iterable[str]) -> dict[str, Any]:
        """Return the value of each field of ``field=value``, read one by one.

        Raises
        ------
        InputError
            A field that is wrong, or that has two values.
        """
        fixed: dict[str, Any] = {}
        for text in texts:
            name, value = self.fixed_field(text)
            if fixed.setdefault(name, value) != value:
                found = f"{fixed[name]} and {value}"
                raise InputError([Finding(f"--fix {name}", found, "one value", "leave one out")])
        return fixed

    def fixed_values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return fields with the values that a problem fixes.

        Raises
        ------
        InputError
            Every field that there is not, and every value of another kind.
        """
        findings: list[Finding] = []
        fixed = {}
        for name, value in given.items():
            try:
                fixed[name] = self._value(f"fixed.{name}", name, value, name)
            except InputError as error:
                findings += error.findings
        if findings:
            raise InputError(findings)
        return fixed


def _is_word(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _expected(kind: Any) -> str:
    """Say what a field's value may be."""
    if _is_word(kind):
        return f"one of {', '.join(str(member.value) for member in kind)}"
    if get_origin(kind) is tuple:
        return "whole numbers from 0, joined by commas"
    if kind is bool:
        return "true or false"
    return f"a whole number from {0 if kind == Count else 1}"


PLANS = PlanFormat(
    "a training plan (JSON)",
    "milp-plan-training-plan",
    TrainingPlan,
    Configuration,
    mirror(
        Configuration,
        **dict.fromkeys(COUNTS, Positive),
        **dict.fromkeys(("recomputed_by_chunk", "layers"), tuple[Count, ...]),
    ),
    "configuration",
    "step_ns",
)
"""Training plans."""
