"""Tests of this folder need PyTorch: ``make test-torch``."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def _needs_torch():
    pytest.importorskip("torch", reason="needs torch: make test-torch")
