"""The published schemas and pages say what the code does."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from milp_plan.capture.placements import read_placements
from milp_plan.capture.record import read_capture
from milp_plan.capture.stages import read_stages
from milp_plan.io.plan_file import read_plan
from milp_plan.io.schemas import schemas
from milp_plan.kinds.schedule.formats import read

FOLDER = Path(__file__).parents[2] / "instances" / "formats"
UPDATE = "write schemas() of milp_plan.io.schemas into instances/formats"


ROW = r"^\| `(\w+)` \|"


def _documented_elsewhere(name, page, rows, properties):
    """Return the fields that every answer has, and for ``Pipeline`` those of ``Solve``."""
    common = page.partition("\n## Members of every answer\n")[2].partition("\n## ")[0]
    fields = set(re.findall(ROW, common, re.MULTILINE))
    if not fields or not fields <= set(properties):
        return set()
    return fields | set(rows["Solve"]) - {"verb"} if name == "Pipeline" else fields


@pytest.mark.parametrize("name", sorted(schemas()))
def test_committed_schema_is_current(name):
    committed = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert committed == json.loads(schemas()[name]), f"update it: {UPDATE}"


@pytest.mark.parametrize("name", sorted(schemas()))
def test_schema_is_a_schema(name):
    jsonschema.Draft202012Validator.check_schema(json.loads(schemas()[name]))


@pytest.mark.parametrize(
    "stem", ["capture", "native", "plan", "answer", "torch-placements", "torch-stages"]
)
def test_every_field_has_its_line_in_the_page(stem):
    schema = json.loads(schemas()[f"{stem}.schema.json"])
    page = (FOLDER / f"{stem}.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    objects = {name: s["properties"] for name, s in schema["$defs"].items() if "properties" in s}
    assert set(objects) == set(sections)
    rows = {name: re.findall(ROW, text, re.MULTILINE) for name, text in sections.items()}
    for name, properties in objects.items():
        elsewhere = _documented_elsewhere(name, page, rows, properties)
        assert rows[name] == [field for field in properties if field not in elsewhere], name


@pytest.mark.parametrize(
    "name", ["capture.md", "native.md", "plan.md", "torch-placements.md", "torch-stages.md"]
)
def test_the_example_of_the_page_can_be_read(name, tmp_path):
    page = (FOLDER / name).read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "example.json"
    path.write_text(example)
    if name == "plan.md":
        assert read_plan(path).has_schedule
    elif name == "capture.md":
        assert read_capture(path).kernels
    elif name == "torch-placements.md":
        assert read_placements(path).mesh
    elif name == "torch-stages.md":
        assert read_stages(path).stages
    else:
        assert read(path).graph.operators
