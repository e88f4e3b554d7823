"""What keeps a JSON text from being what its schema says: all of it, with JSON paths."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from milp_plan.core import Finding, InputError

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_LONGEST_QUOTE = 60


def _is_integer(_checker: Any, instance: Any) -> bool:
    """JSON Schema takes 3.0 for an integer; we do not, since sizes and ticks are exact."""
    return isinstance(instance, int) and not isinstance(instance, bool)


@cache
def _validator() -> Any:
    import jsonschema  # only on the failing path, so that reading good files need not pay for it

    strict = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer)
    return jsonschema.validators.extend(  # type: ignore[no-untyped-call]
        jsonschema.Draft202012Validator, type_checker=strict
    )


def syntax_finding(data: bytes) -> Finding | None:
    """Return what is wrong with a text as JSON, or ``None`` when it is JSON."""
    remedy = "fetch or write the file again"
    try:
        text = data.decode()
        json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        early = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        found = f"text that ends too early ({error.msg})" if early else error.msg
        return Finding(where, found, "complete JSON" if early else "JSON", remedy)
    except RecursionError:
        return Finding("file", "lists nested too deeply", "JSON as the format describes", remedy)
    except ValueError as error:
        return Finding("file", str(error), "JSON with numbers of usual size", remedy)
    return _lone_surrogate(data)


_ESCAPES = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def _lone_surrogate(data: bytes) -> Finding | None:
    """Find an escape that is half of a character; no text holds it."""
    high: re.Match[bytes] | None = None
    for match in _ESCAPES.finditer(data):
        code = int(match[1], 16) if match[1] else 0
        if high is not None and not (0xDC00 <= code < 0xE000 and match.start() == high.end()):
            return _half(data, high)
        if high is None and 0xDC00 <= code < 0xE000:
            return _half(data, match)
        high = match if 0xD800 <= code < 0xDC00 else None
    return None if high is None else _half(data, high)


def _half(data: bytes, match: re.Match[bytes]) -> Finding:
    line = data.count(b"\n", 0, match.start()) + 1
    column = match.start() - data.rfind(b"\n", 0, match.start())
    found = f"{match[0].decode()}, a lone surrogate: half of a character"
    remedy = "write the character itself, or both halves"
    return Finding(f"line {line} column {column}", found, "whole characters", remedy)


_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")


def toml_finding(data: bytes, error: Exception) -> Finding:
    """Return what is wrong with a text as TOML, from what its parser says."""
    text = str(error)
    place = _PLACE.search(text)
    where = f"line {place[1]} column {place[2]}" if place else "file"
    text = _PLACE.sub("", text).removesuffix(" (at end of document)")
    expected, remedy = "TOML", "correct the line"
    open_line = text in ("Illegal character '\\n'", "Found invalid character '\\n'")
    if open_line or text.startswith(("Unterminated string", "Expected '\"", "Expected \"'")):
        if not open_line:  # it goes on to the end: the last mark opened it
            before = data.count(b"\n", 0, max(data.rfind(b'"'), data.rfind(b"'")))
            where = f"line {before + 1}"
        text = "a quotation mark that is not closed"
        expected, remedy = "text between quotation marks", "close it"
    return Finding(where, text, expected, remedy)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant}, which JSON does not have")


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"{number[:_LONGEST_QUOTE]}, which is beyond the largest number")
    return value


def repeated_members(data: bytes) -> list[Finding]:
    """List the members that an object has more than once; parts without text are skipped.

    A decoded object that lost a member has fewer quotation marks than its text. Only then is the
    text read again with all pairs.
    """
    found: list[Finding] = []
    rest = [data.strip()]
    while rest:
        text = rest.pop()
        if text[:1] == b"[":
            parts = [bytes(part) for part in msgspec.json.decode(text, type=list[msgspec.Raw])]
        else:
            members = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            parts = [bytes(part) for part in members.values()]
            keys = sum(2 + key.count('"') for key in members)
            if keys + sum(part.count(b'"') for part in parts) != text.count(b'"'):
                found += _named_twice(text)
        rest += [part for part in parts if part[:1] in (b"{", b"[") and b'"' in part]
    return found


def _named_twice(text: bytes) -> Iterator[Finding]:
    """Say which members of the outermost object stand there twice."""
    names: list[str] = []

    def pairs(members: list[tuple[str, Any]]) -> None:
        names[:] = [name for name, _ in members]  # the outermost object comes last

    json.loads(text, object_pairs_hook=pairs, parse_int=str)  # of any length: names count alone
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Finding(f"member {name!r}", "it stands there twice", "once", "remove one of them")


def schema_findings(document: Any, schema: Mapping[str, Any]) -> list[Finding]:
    """List every place where a document departs from its JSON Schema."""
    errors = sorted(_validator()(schema).iter_errors(document), key=_order)
    return list(dict.fromkeys(finding for error in errors for finding in _explained(error)))


def json_path(steps: Iterable[str | int]) -> str:
    """Spell a path the way messages quote it: ``operators[3].duration_ns.H100``."""
    spelt = ""
    for step in steps:
        if isinstance(step, int):
            spelt += f"[{step}]"
        elif step.isidentifier():
            spelt += f".{step}" if spelt else step
        else:
            spelt += f"[{step!r}]"
    return spelt or "top level"


@contextmanager
def in_words(words: Mapping[str, str]) -> Iterator[None]:
    """Name what is wrong by the file's own words: ours -> theirs; what is quoted stays.

    Raises
    ------
    InputError
        The one that was raised inside, translated.
    """
    try:
        yield
    except InputError as error:
        raise InputError(
            replace(
                finding,
                where=_in_words(finding.where, words),
                found=_in_words(finding.found, words),
                remedy=_in_words(finding.remedy, words),
            )
            for finding in error.findings
        ) from None


def _in_words(text: str, words: Mapping[str, str]) -> str:
    def spoken(match: re.Match[str]) -> str:
        return words.get(match[0], match[0])

    return re.sub(r"""'[^']*'|"[^"]*"|(?<![-\w])\w+(?![-\w])""", spoken, text)


def nearest(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return a remedy that names the known word closest to a mistyped one."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise


def quoted(item: Any) -> str:
    """Return an item as short JSON."""
    text = json.dumps(item, ensure_ascii=False)
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "..."


def _order(error: ValidationError) -> list[tuple[bool, int, str]]:
    steps = error.absolute_path
    return [(isinstance(s, str), s if isinstance(s, int) else 0, str(s)) for s in steps]


def _explained(error: ValidationError) -> Iterator[Finding]:
    steps = list(error.absolute_path)
    instance: Any = error.instance
    rule: Any = error.validator_value
    schema: Any = error.schema
    if error.validator == "required":
        for name in rule:
            if name not in instance:
                yield Finding(json_path([*steps, name]), "nothing", "this field", "add the field")
    elif error.validator == "additionalProperties":
        known = schema["properties"]
        for name in instance:
            if name not in known:
                remedy = nearest(name, known, "remove the field")
                expected = f"one of the fields {', '.join(known)}"
                yield Finding(json_path([*steps, name]), "an unknown field", expected, remedy)
    elif error.validator == "anyOf":
        yield from _best_branch(error)
    elif error.validator == "enum":
        expected = " or ".join(quoted(choice) for choice in rule)
        choices = [choice for choice in rule if isinstance(choice, str)]
        remedy = nearest(str(instance), choices, "choose one of these")
        yield Finding(json_path(steps), quoted(instance), expected, remedy)
    else:
        expected = _described(schema)
        if error.validator in _FILLED and not instance:
            expected += ", not empty"
        number = schema.get("type") == "number" and isinstance(instance, float)
        remedy = "correct it" if number else _type_remedy(instance)
        yield Finding(json_path(steps), quoted(instance), expected, remedy)


def _best_branch(error: ValidationError) -> Iterator[Finding]:
    """Explain the alternative of the right type; the others only say that the type differs."""
    nearer = [entry for entry in error.context or () if entry.validator != "type" or entry.path]
    if any(_type_in(entry.schema) == "number" for entry in nearer):  # it stands for integers too
        nearer = [entry for entry in nearer if _type_in(entry.schema) != "integer"]
    if nearer:
        for entry in nearer:
            yield from _explained(entry)
        return
    expected = _described({"anyOf": error.validator_value})
    remedy = _type_remedy(error.instance)
    yield Finding(json_path(error.absolute_path), quoted(error.instance), expected, remedy)


def _type_in(schema: Any) -> str | None:
    return schema.get("type") if isinstance(schema, Mapping) else None


def _type_remedy(instance: Any) -> str:
    if isinstance(instance, float) and instance.is_integer():
        return f"write {int(instance)}"
    if isinstance(instance, str) and instance.strip().lstrip("-").isdigit():
        return "remove the quotation marks"
    return "correct it"


_TYPES = {
    "integer": "an integer",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}

_FILLED = ("minProperties", "minLength")
"""Members of a schema that ask for something inside, which its description does not say."""

_LIMITS = {"minimum": "of at least", "exclusiveMinimum": "above", "maximum": "at most"}
"""Members of a schema that limit a number, and their words."""


def _described(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        branches: Sequence[Mapping[str, Any]] = schema["anyOf"]
        if any(branch.get("type") == "number" for branch in branches):
            branches = [branch for branch in branches if branch.get("type") != "integer"]
        return " or ".join(_described(branch) for branch in branches)
    kind = _TYPES.get(schema.get("type", "object"), "an object")
    if schema.get("minItems"):
        kind += f" of at least {schema['minItems']}"
    limits = [
        f"{words} {schema[name]:g}"
        if isinstance(schema[name], float)
        else f"{words} {schema[name]}"
        for name, words in _LIMITS.items()
        if name in schema
    ]
    return f"{kind} {' and '.join(limits)}" if limits else kind


def refuse_other(
    plan: str, problem: str, file: str | Path, instance_file: str | Path | None = None
) -> None:
    """Refuse a plan for another problem.

    Raises
    ------
    InputError
        The names differ; names both files, as either may be the wrong one.
    """
    if plan == problem:
        return
    expected = f"a plan for {problem!r}"
    if instance_file is not None:
        expected += f" ({instance_file})"
    remedy = "name the instance and the plan that belong together"
    raise InputError([Finding("problem", f"a plan for {plan!r}", expected, remedy, str(file))])
