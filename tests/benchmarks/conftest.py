import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest

from milp_plan.cli.exits import Exit
from milp_plan.io.study_file import read_study
from tests.cli.cases import call

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(scope="session")
def script():
    """Import a script of the benchmarks folder by name, as it sees itself when it is run."""
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture
def page(script, tmp_path):
    """Measure cases in this process; return exit code, page and folder of a study with them."""

    def write(name, module, cases):
        study, _ = read_study(ROOT / "results" / name / "study.toml")
        text = (ROOT / "results" / name / "study.toml").read_text()
        head, _, tables = text.partition("\n[[tables]]")
        meant = [
            line for line in head.splitlines() if line.startswith(("title", "labels", "published_"))
        ]
        about = head.partition('about = """')[2].partition('"""')[0] or study.about
        content = "\n".join([*meant, f'about = """{about}"""', f"cases = {_toml(cases)}"])
        content += f'\nscript = "{BENCHMARKS / module}.py"\n[[tables]]{tables}'
        (tmp_path / "study.toml").write_text(content.partition("\n[[cases]]")[0])
        for path in (ROOT / "results" / name).glob("published.csv"):
            shutil.copy(path, tmp_path)
        asked = [{k: v for k, v in case.items() if k not in study.labels} for case in cases]
        rows = [{**case, **script(module).measure(case)} for case in asked]
        made = json.dumps({"versions": {"numpy": "2"}, "machine": {}, "rows": rows})
        (tmp_path / "table.json").write_text(made)
        result = call("table", tmp_path, "--render")
        assert result.exit_code in (Exit.DONE, Exit.NOT_VALID), result.stderr
        return result.exit_code, (tmp_path / "table.md").read_text(), tmp_path

    return write


@pytest.fixture
def page_again(tmp_path):
    """Render a committed study from its stored rows; the page must be the committed one."""

    def write(name):
        folder = ROOT / "results" / name
        copied = tmp_path / "results" / name
        shutil.copytree(folder, copied)
        (tmp_path / "benchmarks").symlink_to(BENCHMARKS)
        result = call("table", copied, "--render")
        assert result.exit_code == Exit.DONE, result.stderr
        text = (copied / "table.md").read_text()
        assert (
            text.replace(copied.as_posix(), f"results/{name}") == (folder / "table.md").read_text()
        )
        return text

    return write


def rows_of(folder):
    """Rows that a study has stored."""
    return json.loads((folder / "table.json").read_text())["rows"]


def _toml(entry):
    if isinstance(entry, dict):
        members = (f"{json.dumps(name)} = {_toml(member)}" for name, member in entry.items())
        return "{ " + ", ".join(members) + " }"
    if isinstance(entry, list):
        return "[" + ", ".join(map(_toml, entry)) + "]"
    return json.dumps(entry)
