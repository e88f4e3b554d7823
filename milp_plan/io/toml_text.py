"""TOML as it is written: assignments, inline tables and lists."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


def assignments(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each member that is not ``None``."""
    for name, content in entry.items():
        if content is not None:
            yield f"{name} = {_toml(content)}"


def _toml(content: Any) -> str:
    if isinstance(content, Mapping):
        pairs = (f"{_key(k)} = {_toml(v)}" for k, v in content.items() if v is not None)
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(content, list | tuple):
        return "[" + ", ".join(map(_toml, content)) + "]"
    return str(content) if isinstance(content, int) else json.dumps(content, ensure_ascii=True)


def _key(name: str) -> str:
    return json.dumps(name, ensure_ascii=True)
