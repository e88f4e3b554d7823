"""Sphinx extension: pictures that the commands of a page have drawn.

``picture`` names a file that a command above it writes. As a page with such directives is read, all
its commands are run and held against what the page shows; a difference is a warning.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.parsers.rst.directives.images import Image
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

WORK = "build/pages"
"""Folder below the source folder in which pages are run."""


class Picture(Image):
    """An image that is there once the page has been run."""

    option_spec: ClassVar[dict[str, Any]] = {"alt": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Return the image by its path in the page's folder."""
        document = self.state.document.settings.env.docname
        self.arguments[0] = f"/{WORK}/{document}/{self.arguments[0]}"
        return super().run()


def run_page(app: Sphinx, document: str, content: list[str]) -> None:
    """Run a page that shows pictures."""
    if "```{picture}" not in content[0]:
        return
    root = Path(app.srcdir)
    folder = root / WORK / document
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    page = app.env.doc2path(document)
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.transcripts", str(page), str(folder)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        logger.warning("a command does not do what is shown\n%s", done.stderr, location=document)


def drop_empty(_app: Sphinx, doctree: nodes.document, _document: str) -> None:
    """Remove outputs of notebooks that were cleared, such as lines of progress."""
    for node in list(doctree.findall(nodes.literal_block)):
        if not node.astext().strip():
            node.parent.remove(node)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.add_directive("picture", Picture)
    app.connect("source-read", run_page)
    app.connect("doctree-resolved", drop_empty)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
