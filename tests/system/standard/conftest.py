"""One host for all modules here, which are on one worker: see ``tests/conftest.py``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.standard.hosted import Standard


@pytest.fixture(scope="session")
def standard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standard]:
    """A running host; who restarts it leaves it running."""
    made = Standard(tmp_path_factory.mktemp("standard"))
    made.host.wait()
    yield made
    made.close()
