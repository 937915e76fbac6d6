"""The PostgreSQL store: the contract of every store, and what it alone has to show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zope.interface import implementer

from agtphost.iagtp import IPluggableStore, IRecordReader
from agtphost.stores.postgres.location import PostgresLocation
from agtphost.stores.settings import locate_url
from agtphost.testing.stores import DurableStoreCases
from tests import postgres

pytestmark = postgres.needed


def place_of(url: str) -> PostgresLocation:
    """Return the location of a store in the test's server."""
    found = locate_url(url)
    assert isinstance(found, PostgresLocation)
    return found


@implementer(IPluggableStore)
class Database:
    """A store in a database in the shape of a plugin: ``agtp store init`` is part of its first opening."""

    def __init__(self, url: str, holder: str) -> None:
        self._place = place_of(url)
        self._holder = holder
        self._store: Any = None

    def open(self, create: bool) -> None:
        if create:
            self._place.create("agtp.test")
        self._store = self._place.open_store(create=create, holder=self._holder)

    def reader(self) -> IRecordReader:
        return self._place.open_reader()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class TestPostgresStore(DurableStoreCases):
    """The contract."""

    hosts = 0

    def make(self, folder: Path) -> IPluggableStore:
        server = postgres.server()
        self.hosts += 1
        return Database(server.url(server.schema(folder)), f"host {self.hosts}")
