"""``show-versions``: lists versions for reports of defects."""

from __future__ import annotations

import click

from .output import say_json, say_table

PACKAGES = (
    "highspy",
    "pyomo",
    "numpy",
    "scipy",
    "pandas",
    "networkx",
    "msgspec",
    "jsonschema",
    "click",
    "rich",
    "matplotlib",
)
"""Packages on which results can depend."""


def installed() -> dict[str, str | None]:
    """Return versions by name, without imports; ``None`` for packages that are not installed."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from milp_plan import __version__

    versions: dict[str, str | None] = {
        "milp_plan": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


@click.command("show-versions")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show_versions(as_json: bool) -> None:
    """Show which versions are installed."""
    versions = installed()
    if as_json:
        say_json(versions, pretty=True)
    else:
        rows = [[name, version or "not installed"] for name, version in versions.items()]
        say_table(["package", "version"], rows)
