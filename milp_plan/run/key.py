"""The key of a run: equal for the same problem, settings, sources and versions."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from .identity import installed, sources

MAX_NAME_LENGTH = 100
"""Maximum number of characters of an instance's name in a file name."""


def run_key(
    name: str, fingerprint: str, settings: Mapping[str, Any], formulation_hash: str | None = None
) -> str:
    """Return the content key of a run.

    Parameters
    ----------
    name, fingerprint
        Name and fingerprint of the problem.
    settings
        Everything else on which the result may depend, as plain data.
    formulation_hash
        Hash of the formulation's file or folder; ``None`` where the run has no formulation, or
        where it is part of :func:`~.identity.sources`.

    Returns
    -------
    str
        SHA-256 of the arguments, the sources that plan, and the versions of packages.
    """
    content = [name, fingerprint, dict(settings), formulation_hash, sources(), installed()]
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def file_name(name: str, key: str) -> str:
    """Return a readable, unique file name for a run."""
    readable = re.sub(r"[^\w.+-]", "_", name)[:MAX_NAME_LENGTH]
    return f"{readable}-{key[:12]}"
