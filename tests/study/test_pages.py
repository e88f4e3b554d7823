"""The pages of the formats: every field is there, and the examples are what they say."""

import re
import tomllib

import msgspec
import pytest

from milp_plan.io.known_file import KnownValue
from milp_plan.io.spec_file import COLUMNS, Published, Spec
from milp_plan.io.suite_file import SuiteFile, SuiteGroup, SuiteLimits, SuitePlanner, SuiteVariation

from .cases import INSTANCES

SUITE = (INSTANCES / "formats" / "suite.md").read_text()
SPEC = (INSTANCES / "formats" / "table-spec.md").read_text()


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        (SUITE, SuiteFile),
        (SUITE, SuiteGroup),
        (SUITE, SuiteLimits),
        (SUITE, SuiteVariation),
        (SUITE, SuitePlanner),
        (SUITE, KnownValue),
        (SPEC, Spec),
        (SPEC, Published),
    ],
)
def test_every_field_is_described(page, kind):
    assert [name for name in kind.__struct_fields__ if f"`{name}`" not in page] == []


def test_every_column_is_described():
    assert [name for name in COLUMNS if f"`{name}`" not in SPEC] == []


@pytest.mark.parametrize(("page", "kind"), [(SUITE, SuiteFile), (SPEC, Spec)])
def test_examples_are_of_the_format(page, kind):
    (example,) = re.findall(r"```toml\n(.*?)```", page, flags=re.S)
    msgspec.convert(tomllib.loads(example), kind)
