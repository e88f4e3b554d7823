import pytest


@pytest.fixture(autouse=True)
def _uncounted_processes(monkeypatch):
    """Runs import copies of the sources: coverage of those means nothing, and they go away."""
    for name in ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"):
        monkeypatch.delenv(name, raising=False)
