"""Sphinx extension: pages made from registers and docstrings, one per thing that can be named.

They are written to ``docs/reference`` before Sphinx looks for pages, and are not committed. Pages
of formulations and of formats lie beside them in the repository; what code knows of them is put
below their text as they are read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import click
from sphinx.application import Sphinx

import milp_plan
from milp_plan.cli import listing
from milp_plan.cli.main import main
from milp_plan.face import verbs
from milp_plan.kinds.schedule import bounds
from milp_plan.models.registry import discover
from milp_plan.run.kinds import formats, kinds

FORMAT_PAGES = {
    "jobs": "jobs",
    "minimalloc": "packing",
    "resharding-layouts": "resharding",
}
"""Pages of formats whose file is not named as they are."""

NOT_BOUNDS = {"all_bounds", "best_bound", "infeasibility"}
"""Functions that collect what others prove."""


def page_of(name: str) -> str:
    """Document that describes a format."""
    return f"/instances/formats/{FORMAT_PAGES.get(name, name)}"


def rst(text: str) -> str:
    """Return reStructuredText as a block of a Markdown page."""
    return f"```{{eval-rst}}\n{text}\n```"


def doc(item: object) -> str:
    """Return a docstring as a block, or nothing."""
    text = inspect.getdoc(item)
    return rst(text) if text else ""


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


def toctree(entries: Iterable[str], *, glob: bool = False) -> str:
    """Return a list of pages that are below this one."""
    flags = ":maxdepth: 1\n" + (":glob:\n" if glob else "")
    return f"```{{toctree}}\n{flags}\n" + "\n".join(entries) + "\n```"


def page(title: str, *parts: str) -> str:
    """Return a page."""
    return "\n\n".join([f"# {title}", *(part for part in parts if part)]) + "\n"


def slug(name: str) -> str:
    """Return a name as a file name."""
    return name.replace(" ", "-").replace("_", "-")


# -- kinds and ways --------------------------------------------------------------------------------


def kind_page(kind: Any) -> str:
    """Page of a kind: problem and plan, formats, options, strategies, planners, exports."""
    module, _, name = kind.handles.partition(":")
    below = [(f"{entry.title}", page_of(entry.name)) for entry in kind.formats()]
    changes = [
        [f"`{c.option}{'' if c.read is None else ' ' + c.form}`", c.help] for c in kind.changes
    ]
    planners = [f"`{name}`" for name in kind.heuristics()]
    exports = [[f"`{name}`", entry.title] for name, entry in kind.exports().items()]
    return page(
        f"Kind `{kind.name}`",
        f"*{kind.title}*",
        doc(inspect.getmodule(type(kind))),
        "## Files",
        "\n".join(f"- [{title}]({target}.md)" for title, target in below),
        f"`--threads` is {kind.threads} unless you say otherwise."
        + (
            f" Not for this kind: {', '.join(f'`{n}`' for n in kind.ignores)}."
            if kind.ignores
            else ""
        ),
        "## Options that change an instance" if changes else "",
        table(["Option", "Says"], changes) if changes else "",
        "## Strategies",
        "The first one that applies is used.",
        "\n".join(
            f"1. [{strategy.name}](../strategies/{slug(strategy.name)}.md)"
            for strategy in kind.strategies()
        ),
        "## Planners that run alone" if planners else "",
        ", ".join(planners) + "." if planners else "",
        "## Plans for other programs" if exports else "",
        table(["`--format`", "What"], exports) if exports else "",
        "## The problem",
        rst(f".. autoclass:: {module}.{name}\n   :members:\n"),
    )


def strategy_page(strategy: Any) -> str:
    """Page of a strategy: when it applies, and its steps."""
    owners = [kind for kind in kinds() if strategy in kind.strategies()]
    return page(
        f"Strategy `{strategy.name}`",
        "For problems of the kind "
        + ", ".join(f"[{k.name}](../kinds/{k.name}.md)" for k in owners)
        + ".",
        doc(inspect.getmodule(strategy)),
        "## When it applies",
        doc(strategy.why_not),
        "## Steps",
        doc(strategy.steps),
        "```python\n" + inspect.cleandoc("\n" + inspect.getsource(strategy.steps)) + "\n```",
    )


def strategies() -> list[Any]:
    """Every strategy, by name."""
    return sorted(
        {strategy for kind in kinds() for strategy in kind.strategies()},
        key=lambda strategy: strategy.name,
    )


# -- bounds ----------------------------------------------------------------------------------------


def bound_functions() -> dict[str, Callable[..., Any]]:
    """Functions that prove a bound or that no plan exists, by name of module and function."""
    found = {}
    for entry in iter_modules(bounds.__path__):
        module = import_module(f"{bounds.__name__}.{entry.name}")
        for name, function in vars(module).items():
            ours = inspect.isfunction(function) and function.__module__ == module.__name__
            if not ours or name.startswith("_") or name in NOT_BOUNDS:
                continue
            returns = str(function.__annotations__.get("return"))
            if "Bound" in returns or "Infeasible" in returns or name.endswith("_obstacle"):
                found[f"{entry.name}.{name}"] = function
    return found


def bound_page(name: str, function: Callable[..., Any]) -> str:
    """Page of a bound: its proof, and the text of its module."""
    module = inspect.getmodule(function)
    return page(
        f"`{name.partition('.')[2]}`",
        rst(f".. autofunction:: {function.__module__}.{function.__name__}\n"),
        f"## Module `{name.partition('.')[0]}`",
        doc(module),
    )


# -- commands --------------------------------------------------------------------------------------


def command_page(name: str, command: click.Command) -> str:
    """Page of a verb with all of its options."""
    parts = command.callback
    assert parts is not None
    path = f"{parts.__module__}:{_attribute(command)}"
    return rst(f".. click:: {path}\n   :prog: milp-plan {name}\n   :nested: full\n") + "\n"


def _attribute(command: click.Command) -> str:
    assert command.callback is not None
    module = import_module(command.callback.__module__)
    return next(name for name, item in vars(module).items() if item is command)


# -- lists -----------------------------------------------------------------------------------------


def list_page(title: str, what: str, *, keys: Sequence[str] = ()) -> str:
    """Page with a table of ``milp-plan list``."""
    rows = listing.LISTS[what]()
    shown = list(keys) or list(rows[0])
    return page(
        title,
        f"What `milp-plan list {what}` prints.",
        table(
            [key.replace("_", " ") for key in shown],
            [[_cell(row[key]) for key in shown] for row in rows],
        ),
    )


def _cell(item: Any) -> str:
    if isinstance(item, list):
        return ", ".join(map(str, item))
    return f"{item:,}" if isinstance(item, int) and not isinstance(item, bool) else str(item)


def inherited(name: str) -> str:
    """Return what shows methods of the builder that lie in its base class."""
    return "   :inherited-members:\n" if name == "Model" else ""


def python_page() -> str:
    """Page of ``import milp_plan as mp``."""
    known = {name: getattr(milp_plan, name) for name in milp_plan.__all__}
    known |= {name: getattr(verbs, name) for name in ("check", "draw")}  # rooms of that name
    homes = {name: item.__module__ for name, item in known.items() if inspect.isfunction(item)}
    nouns = [name for name in milp_plan.__all__ if inspect.isclass(getattr(milp_plan, name))]
    return page(
        "Python",
        "Everything of `import milp_plan as mp`.",
        "## Verbs",
        *(rst(f".. autofunction:: {homes[name]}.{name}\n") for name in sorted(homes)),
        "## Nouns",
        *(
            rst(f".. autoclass:: milp_plan.{name}\n   :members:\n{inherited(name)}")
            for name in sorted(nouns)
        ),
    )


# -- all of them -----------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """Every page by its path below ``docs/reference``, without ending."""
    found: dict[str, str] = {"python": python_page()}
    for kind in kinds():
        found[f"kinds/{kind.name}"] = kind_page(kind)
    for strategy in strategies():
        found[f"strategies/{slug(strategy.name)}"] = strategy_page(strategy)
    for name, function in bound_functions().items():
        found[f"bounds/{slug(name)}"] = bound_page(name, function)
    for name, command in main.commands.items():
        found[f"commands/{name}"] = command_page(name, command)
    found["planners"] = list_page("Planners", "planners")
    found["architectures"] = list_page("Architectures", "architectures")
    found["clusters"] = list_page("Device classes", "clusters")
    folders = {
        "kinds": ("Kinds of problems", "What can be planned."),
        "strategies": ("Strategies", "What `milp-plan solve` does, step by step."),
        "bounds": (
            "Bounds and proofs",
            "Each with its proof. They hold for the problem you asked about.",
        ),
        "commands": ("Commands", "Every verb of `milp-plan` with all of its options."),
    }
    for folder, (title, text) in folders.items():
        below = sorted(name for name in found if name.startswith(f"{folder}/"))
        found[f"{folder}/index"] = page(
            title, text, toctree(name.removeprefix(f"{folder}/") for name in below)
        )
    found["formulations"] = page(
        "Formulations",
        "Mixed-integer models, one page each. `milp-plan list formulations` prints them.",
        toctree(["/formulations/*/page"], glob=True),
    )
    found["formats"] = page(
        "Formats",
        "Files that are read and written, recognised by content.",
        toctree(["/instances/formats/*"], glob=True),
    )
    return found


def write_pages(app: Sphinx) -> None:
    """Write what has changed; remove what is no more."""
    folder = Path(app.srcdir) / "docs" / "reference"
    made = {folder / f"{name}.md": text for name, text in pages().items()}
    if folder.exists():
        for old in set(folder.rglob("*.md")) - set(made):
            old.unlink()
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


# -- pages in the repository -----------------------------------------------------------------------


def formulation_part(name: str) -> str:
    """What code knows of a formulation: its card and its switches."""
    row = next(row for row in listing.formulations() if row["name"] == name)
    formulation = discover()[name].formulation
    options = [
        [f"`{entry['name']}`", f"`{entry['default']}`", entry["help"]] for entry in row["options"]
    ]
    return "\n\n".join(
        part
        for part in (
            "## Switches" if options else "",
            "`milp-plan solve FILE --formulation " + name + " --option NAME=VALUE`"
            if options
            else "",
            table(["Name", "Default", "Says"], options) if options else "",
            "## Its module",
            doc(inspect.getmodule(type(formulation))),
        )
        if part
    )


def format_part(document: str) -> str:
    """Which formats a page is about, and what is done with them."""
    rows = [
        [
            f"`{entry.name}`",
            f"[{kind.name}](/docs/reference/kinds/{kind.name}.md)",
            entry.title,
            _yes(entry.write),
        ]
        for kind, entry in formats()
        if page_of(entry.name) == f"/{document}"
    ]
    if not rows:
        return ""
    return "## In the registry\n\n" + table(["Format", "Kind", "Title", "Written"], rows)


def _yes(item: object) -> str:
    return "no" if item is None else "yes"


def add_parts(_app: Sphinx, document: str, content: list[str]) -> None:
    """Put below a page what code knows of its subject."""
    folders = document.split("/")
    if folders[0] == "formulations":
        content[0] += "\n\n" + formulation_part(folders[1])
    elif folders[:2] == ["instances", "formats"]:
        content[0] += "\n\n" + format_part(document)


def send_to_start(app: Sphinx, error: Exception | None) -> None:
    """Let the site's root lead to its first page."""
    if error is None and app.builder.format == "html":
        target = app.builder.get_target_uri(app.config.root_doc)

        (Path(app.outdir) / "index.html").write_text(
            "<!doctype html><title>milp_plan</title>"
            f'<meta http-equiv="refresh" content="0; url={target}">'
            f'<a href="{target}">milp_plan</a>\n',
            encoding="utf-8",
        )


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", add_parts)
    app.connect("build-finished", send_to_start)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
