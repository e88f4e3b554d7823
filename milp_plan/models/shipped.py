"""Where the formulations are that come with the package."""

from __future__ import annotations

from pathlib import Path


def shipped_folders() -> tuple[Path, ...]:
    """Folders of formulations that come with the package: a checkout, or the wheel's data."""
    package = Path(__file__).resolve().parent.parent
    return tuple(
        folder
        for folder in (package.parent / "formulations", package / "_data" / "formulations")
        if folder.is_dir()
    )
