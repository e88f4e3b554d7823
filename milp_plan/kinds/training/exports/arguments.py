"""Arguments in a shell script."""

from __future__ import annotations

import re
import shlex

from .findings import Findings

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}]*))?\})")
_ASSIGNMENT = re.compile(r"(\w+)=(.*)", re.DOTALL)
_COMMAND = frozenset({"pretrain_gpt.py", "torchrun"})


def arguments_of(text: str, file: str) -> dict[str, str]:
    """Return options and their values; variables of the script are put in."""
    try:
        lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars="()")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError as error:
        findings = Findings(file)
        findings.add("quotation marks", str(error), "a shell script", "close what is open")
        findings.fail()
    variables: dict[str, str] = {}
    made: dict[str, list[str]] = {}
    values: list[str] | None = None
    for word in words:
        assigned = _ASSIGNMENT.fullmatch(word)
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            values = made[name] = [_filled(value, variables)] if equals else []
        elif assigned and not word.startswith("-"):
            variables[assigned[1]] = _filled(assigned[2], variables)
            values = None
        elif word.strip("()") == "" or word in _COMMAND:
            values = None
        elif values is not None:
            values.append(_filled(word, variables))
    return {name: " ".join(found) for name, found in made.items()}


def _filled(word: str, variables: dict[str, str]) -> str:
    return _VARIABLE.sub(
        lambda match: variables.get(match[1] or match[2], match[3] or match[0]), word
    )
