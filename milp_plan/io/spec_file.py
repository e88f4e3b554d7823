"""Specs of tables over suites as TOML, with published figures. See ``table-spec.md``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from milp_plan.core import Finding, InputError

from .csv_text import csv_records
from .defects import nearest, schema_findings
from .files import read_document
from .pipeline_file import Amount, decode_toml, endless
from .suite_file import above
from .wire import Strict, schema_of

COLUMNS = (
    "instance",
    "file",
    "variation",
    "planner",
    "seed",
    "operators",
    "devices",
    "value",
    "bound",
    "added_time_percent",
    "added_time_percent_bound",
    "gap",
    "proved",
    "seconds",
    "seconds_to_best",
    "stop",
    "verdict",
    "found_by",
    "best_published",
    "ratio",
    "standing",
)
"""Columns that a table can show of a run and of the best published figure."""


class Published(Strict):
    """A published figure of an instance in a variation, in the unit of the instance's file.

    Where the spec compares another member than the value, ``value`` is that.

    ``seconds`` may be text such as ``"> 600"``. A figure with ``counts = false`` is shown, but is
    no rival: it keeps other rules.
    """

    instance: str
    method: str
    source: str
    value: Amount | None = None
    seconds: Amount | str | None = None
    variation: str = ""
    proved: bool = False
    counts: bool = True
    note: str = ""


class Spec(Strict):
    """A table over a suite."""

    title: str
    about: str
    suite: str
    ours: tuple[str, ...] = ()
    columns: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = (
        "instance",
        "value",
        "bound",
        "gap",
        "proved",
        "seconds",
        "seconds_to_best",
        "best_published",
        "ratio",
        "standing",
    )
    headings: dict[str, str] = msgspec.field(default_factory=dict)
    group: Literal["variation", "objective", "none"] = "variation"
    compare: Literal["value", "added_time_percent"] = "value"
    digits: Annotated[int, msgspec.Meta(ge=2, le=17)] = 8
    tolerance: Annotated[float, msgspec.Meta(ge=0)] = 1e-6
    notes: tuple[str, ...] = ()
    published: tuple[Published, ...] = ()
    published_file: str | None = None


def read_spec(path: str | Path) -> Spec:
    """Read a spec, with the published figures of the CSV file it names.

    Raises
    ------
    InputError
        With every defect of the files.
    """
    document = read_document(path, "a table's spec (TOML)")
    spec = decode_toml(document, Spec)
    if spec.published_file is not None:
        spec.published += _read_csv(Path(path).parent / spec.published_file)
    findings = list(_findings(spec))
    if findings:
        raise InputError(findings).in_file(document.file)
    return spec


def suite_of(spec: Spec, path: Path) -> Path:
    """Return the file of the suite that a spec names: a path, or a name in instances/suites."""
    name = spec.suite if spec.suite.endswith(".toml") else f"instances/suites/{spec.suite}.toml"
    return above(path, name)


def methods(spec: Spec) -> list[str]:
    """Return the names of the methods with published figures, in order of appearance."""
    return list(dict.fromkeys(entry.method for entry in spec.published))


def _findings(spec: Spec) -> Iterator[Finding]:
    known = [*COLUMNS]
    known += [f"{kind}:{name}" for name in methods(spec) for kind in ("value", "seconds")]
    for place, column in enumerate(spec.columns):
        if column not in known and not column.startswith("planner:"):
            remedy = nearest(column, known, "leave it out")
            expected = "a column that table-spec.md names, or value:METHOD, seconds:METHOD"
            yield Finding(f"columns[{place}]", repr(column), expected, remedy)
    seen: set[tuple[str, str, str]] = set()
    for entry in spec.published:
        case = (entry.instance, entry.variation, entry.method)
        if case in seen:
            found = f"{entry.method!r} twice for {entry.instance!r} {entry.variation}".rstrip()
            yield Finding("published", found, "one figure per method", "remove one")
        seen.add(case)


def _read_csv(path: Path) -> tuple[Published, ...]:
    """Read published figures: columns like the fields of :class:`Published`, empty for defaults."""
    what = "published figures (CSV)"
    document = read_document(path, what)
    content = [_plain(row) for row in csv_records(document.data.decode(), what, document.file)]
    kind: dict[str, Any] = {"type": "array", "items": {"$ref": "#/$defs/Published"}}
    schema = {**kind, "$defs": schema_of(Published)["$defs"]}
    findings = [*schema_findings(content, schema), *endless({"rows": content})]
    if findings:
        raise InputError(findings).in_file(document.file)
    return tuple(msgspec.convert(entry, Published) for entry in content)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    known = {str(name): text for name, text in row.items() if text not in (None, "")}
    for name in ("value", "seconds"):
        if name in known:
            known[name] = _number(known[name])
    for name in ("proved", "counts"):
        if name in known:
            known[name] = {"true": True, "false": False}.get(str(known[name]).lower(), known[name])
    return known


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def unmatched(spec: Spec, cases: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return instances and variations of published figures that a suite does not have."""
    known = set(cases)
    named = dict.fromkeys((entry.instance, entry.variation) for entry in spec.published)
    return [case for case in named if case not in known]
