"""Documentation site: pages of the repository where they lie, and pages made from the code.

The source folder is the repository's root, so that links between Markdown files mean the same here
and on a code host. ``make docs`` builds it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_ext")]
os.environ.setdefault("MPLBACKEND", "Agg")

from milp_plan import __version__  # noqa: E402

project = "milp_plan"
version = release = __version__
html_title = f"milp_plan {__version__}"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "pictures",
    "reference",
]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "formulations/*/page.md",
    "instances/*.md",
    "instances/formats/*.md",
    "examples/*/README.md",
    "results/*.md",
    "results/**/*.md",
    "benchmarks/README.md",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
]
exclude_patterns = [".*", "build", "docs/_ext", "docs/_static", "results/runs", "results/store"]
suppress_warnings = ["myst.header", "config.cache"]

smartquotes = False  # "--option" is no dash

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 900
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sourcelink = False
