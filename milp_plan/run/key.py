"""The key of a run: equal for the same problem, settings, sources and versions."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from .identity import installed, sources

LONGEST_NAME = 100
"""Characters of an instance's name that stand in the name of a file."""


def run_key(
    name: str, fingerprint: str, asked: Mapping[str, Any], formulation_hash: str | None = None
) -> str:
    """Content key of a run.

    Parameters
    ----------
    name, fingerprint
        Of the problem.
    asked
        Plain data: everything else the answer may depend on.
    formulation_hash
        Over the formulation's file, or its folder; ``None`` where the run has none, or it is one
        of :func:`~.identity.sources`.

    Returns
    -------
    str
        SHA-256, over the sources that plan and the versions of packages as well.
    """
    content = [name, fingerprint, dict(asked), formulation_hash, sources(), installed()]
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def file_name(name: str, key: str) -> str:
    """Return a readable, unique file name for a run."""
    readable = re.sub(r"[^\w.+-]", "_", name)[:LONGEST_NAME]
    return f"{readable}-{key[:12]}"
