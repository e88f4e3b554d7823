"""Pipeline files and recipes: every field, every defect at once."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from milp_plan.core import InputError
from milp_plan.io.pipeline_file import PipelineFile, PipelinePiece, exact, read_pipeline_file
from milp_plan.io.recipe_file import Peer, Recipe, RecipeCase, read_recipe

PAGES = Path(__file__).parents[2] / "instances" / "formats"


def example(page: str) -> str:
    text = (PAGES / page).read_text(encoding="utf-8")
    found = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("page", "kinds"),
    [("pipeline.md", (PipelineFile, PipelinePiece)), ("recipe.md", (Recipe, RecipeCase, Peer))],
)
def test_every_field_has_its_line_in_the_page(page: str, kinds: tuple[type, ...]) -> None:
    text = (PAGES / page).read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(sections) == [kind.__name__ for kind in kinds]
    for kind in kinds:
        documented = re.findall(r"^\| `(\w+)` \|", sections[kind.__name__], re.MULTILINE)
        assert documented == [field.name for field in msgspec.structs.fields(kind)]


def test_the_examples_of_the_pages_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "model.toml"
    path.write_text(example("pipeline.md"))
    model = read_pipeline_file(path)
    assert [piece.repeat for piece in model.pieces] == [1, 12, 1]
    assert exact(model.transfer) == Fraction(1, 2)
    path.write_text(example("recipe.md"))
    recipe = read_recipe(path)
    assert recipe.cases[0].peers[0].value == 1300000


def test_all_defects_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('transfer = -1\n[[pieces]]\nforward = "1"\nbackward = 2\nwieght = 3\n')
    with pytest.raises(InputError) as caught:
        read_pipeline_file(path)
    places = {finding.where for finding in caught.value.findings}
    assert places == {"transfer", "pieces[0].forward", "pieces[0].weight", "pieces[0].wieght"}
    assert all(str(path) in str(finding) for finding in caught.value.findings)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"pieces = [", "TOML"),
        (b"\xff\xfe", "UTF-8"),
        (b"transfer = inf\npieces = []\n", "pieces"),
        (b"transfer = inf\n[[pieces]]\nforward = 1\nbackward = 1\nweight = nan\n", "finite"),
    ],
)
def test_what_is_no_toml_is_reported(tmp_path: Path, content: bytes, found: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=found):
        read_pipeline_file(path)


def test_the_figure_of_a_recipe_is_one_of_its_cases(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("figure = 2\n" + example("recipe.md"))
    with pytest.raises(InputError, match="figure"):
        read_recipe(path)


RECIPES = sorted((PAGES.parents[1] / "results" / "paper").glob("*/recipe.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.parent.name)
def test_committed_recipes_can_be_read(path: Path) -> None:
    recipe = read_recipe(path)
    assert all(peer.source for case in recipe.cases for peer in case.peers)
