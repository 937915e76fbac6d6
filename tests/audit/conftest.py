"""The store that the tests of this directory open: a SQLite file, or a PostgreSQL database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests import postgres
from tests.programmes import CHOSEN


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that opens a store a second time, on PostgreSQL: some in the suite, all with ``--programmes``."""
    from tests.audit.on_postgres import APART, SHORT

    name = metafunc.function.__name__
    if not hasattr(metafunc.module, "sqlite_store") or not (CHOSEN.whole or name in SHORT):
        return
    marks: list[Any] = [pytest.mark.programme, postgres.needed]
    if name in APART:
        marks.append(pytest.mark.skip(reason=APART[name]))
    metafunc.parametrize("audit_store", ["sqlite", pytest.param("postgres", marks=marks)], indirect=True)


@pytest.fixture(autouse=True)
def audit_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Provide the store that a module's ``sqlite_store`` opens."""
    if getattr(request, "param", "sqlite") != "postgres":
        yield
        return
    from tests.audit.on_postgres import Opener

    opener = Opener()
    for name, module in list(sys.modules.items()):
        if name.startswith("tests.audit.") and hasattr(module, "sqlite_store"):
            opener.substitute(module, monkeypatch.setattr)
    yield
    opener.close()
