"""What pages show happens; and what they only mention exists."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

from milp_plan.cli.main import main
from tests.support.transcripts import (
    ROOT,
    Command,
    NotAsShown,
    WithoutTorch,
    blocks,
    commands,
    has_blocks,
    pages,
    run_page,
)

pytest.importorskip("matplotlib", reason="pages draw: pip install 'milp_plan[plot]'")

FIRST = {"README.md"}
"""Pages that are run every time; ``make docs`` runs those with pictures, ``-m slow`` all."""

WITH_TORCH = {"docs/torch.md"}
"""Pages that ``make test-torch`` runs as they are, and this folder from recorded graphs."""

SHOWN = [page for page in pages() if has_blocks(page)]


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.untraced
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page.name in FIRST else pytest.mark.slow, id=_name(page))
        for page in SHOWN
    ],
)
def test_commands_do_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    if _name(page) in WITH_TORCH:
        run_page(page, tmp_path, WithoutTorch())
    else:
        run_page(page, tmp_path)


def test_what_needs_no_torch_is_run_from_recorded_graphs() -> None:
    (page,) = [page for page in SHOWN if _name(page) in WITH_TORCH]
    reported = [block for block in blocks(page) if block.language == "console"]
    asked = [entry for block in reported for entry in commands(block.text)]
    run = [entry.text for entry in map(WithoutTorch(), asked) if entry is not None]
    captured = [text for text in run if text.startswith("milp-plan capture ")]
    assert len(captured) == 2
    assert all(text.split()[2].startswith("instances/captures/") for text in captured)
    assert len(run) == 8
    assert not any(text.startswith("milp-plan run") for text in run)


def test_cells_of_the_notebook_on_constraints_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last cell read an attribute that no outcome has; other notebooks run in ``make docs``."""
    page = ROOT / "docs" / "notebooks" / "own-constraint.md"
    cells = re.findall(r"^```{code-cell} python\n(.*?)^```$", page.read_text("utf-8"), re.S | re.M)
    assert len(cells) > 4
    monkeypatch.chdir(page.parent)
    names: dict[str, Any] = {}
    for cell in cells:
        exec(compile(re.sub(r"^%.*\n", "", cell, flags=re.M), str(page), "exec"), names)
    runs = names["bound"].to_frame().query("what == 'run'")
    assert sorted(runs["devices"].value_counts()) == [8, 9]


def test_blocks_are_found() -> None:
    names = {_name(page) for page in SHOWN}
    assert {"README.md", "docs/resharding.md"} <= names
    assert sum(block.language == "console" for page in SHOWN for block in blocks(page)) > 10


def test_what_is_shown_is_read() -> None:
    text = "$ a b\none\ntwo ...\n$ c\n$ echo $?\n4\n$ d\n"
    assert commands(text) == [
        Command("a b", ("one", "two ...")),
        Command("c", (), 4),
        Command("d", ()),
    ]


def test_what_is_proved_does_not_hang_on_how_busy_the_machine_is() -> None:
    proved = Command(
        "milp-plan solve f --time-limit 20 --quiet", ("f: height 3 B, proved optimal",)
    )
    assert proved.patient == "milp-plan solve f --time-limit 200 --quiet"
    found = Command("milp-plan solve f --time-limit 0.5", ("f: height 3 B",))
    assert found.patient == found.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("$ milp-plan list kinds\nno such line\n", "not printed"),
        ("$ milp-plan list kinds\n$ echo $?\n4\n", "exit code 0, not 4"),
        ("$ milp-plan list nothing\n", "exit code 2, not 0"),
        ("$ milp-plan list kinds\n schedule ...\n hybrid ...\n", "not printed"),
    ],
)
def test_what_does_not_happen_is_reported(tmp_path: Path, text: str, said: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```console\n{text}```\n", encoding="utf-8")
    with pytest.raises(NotAsShown, match=said):
        run_page(page, tmp_path)


def mentioned() -> Iterator[tuple[str, str]]:
    """Every command of this program that a page names, in a block or in a line."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for line in re.findall(r"^(?:\$ )?milp-plan [^\n]*", text, re.MULTILINE):
            yield _name(page), line.removeprefix("$ ").partition("  #")[0]
        for line in re.findall(r"`milp-plan ([^`\n]*)`", text):
            yield _name(page), f"milp-plan {line}"


def unknown(line: str) -> list[str]:
    """Verbs and options of a command line that do not exist."""
    words = shlex.split(line.replace("'", "").replace('"', ""))[1:]
    command: click.Command = main
    while isinstance(command, click.Group) and words and words[0][0].islower():
        if words[0] not in command.commands:
            return [words[0]]
        command = command.commands[words.pop(0)]
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    asked = [re.match(r"--?[\w-]+", word) for word in words]
    return [
        found[0]
        for found in asked
        if found and found[0] not in known | {"--help", "-h", "--version"}
    ]


def test_commands_that_pages_mention_exist() -> None:
    found = list(mentioned())
    assert len(found) > 40
    wrong = [(page, line, unknown(line)) for page, line in found if unknown(line)]
    assert wrong == []


def test_names_that_pages_import_exist() -> None:
    """Two notebooks imported what had moved; only ``make docs`` runs them."""
    more = (*ROOT.glob("docs/notebooks/*.md"), *ROOT.glob("formulations/*/page.md"))
    found = [
        (_name(page), module, name)
        for page in (*pages(), *more)
        for module, names in re.findall(
            r"^from (milp_plan[\w.]*) import ([\w, ]+)$",
            page.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
        for name in names.split(", ")
    ]
    assert len(found) >= 3
    missing = [
        entry
        for entry in found
        if not hasattr(import_module(entry[1]), name := entry[2].split(" as ")[0])
        and importlib.util.find_spec(f"{entry[1]}.{name}") is None
    ]
    assert missing == []


def test_a_wrong_mention_is_seen() -> None:
    assert unknown("milp-plan sovle FILE") == ["sovle"]
    assert unknown("milp-plan solve FILE --quick") == ["--quick"]
    assert unknown("milp-plan bench run SUITE --jobs 2") == []


def test_every_link_to_a_file_leads_somewhere() -> None:
    links = [
        (page, link)
        for page in pages()
        for link in re.findall(r"\]\((?!https?:)([^)#\s]+)\)", page.read_text(encoding="utf-8"))
    ]
    assert len(links) > 50
    assert [(_name(page), link) for page, link in links if not (page.parent / link).exists()] == []
