"""JSON text that people can read and diff: whatever fits on a line stands on one."""

from __future__ import annotations

import json
from typing import Any

_WIDTH = 120


def lay_out(document: Any) -> bytes:
    """Return a document as UTF-8 JSON; containers longer than a line are broken into lines."""
    return (_laid_out(document, 0) + "\n").encode()


def _laid_out(item: Any, indent: int) -> str:
    flat = json.dumps(item, ensure_ascii=False)
    if indent + len(flat) <= _WIDTH or not isinstance(item, dict | list | tuple):
        return flat
    inner = indent + 1
    if isinstance(item, dict):
        opening, closing = "{}"
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}: {_laid_out(entry, inner)}"
            for key, entry in item.items()
        ]
    else:
        opening, closing = "[]"
        parts = [_laid_out(entry, inner) for entry in item]
    gap = "\n" + " " * inner
    return f"{opening}{gap}{f',{gap}'.join(parts)}\n{' ' * indent}{closing}"
