"""From the keys of ``[store]`` to the location of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from agtphost.stores.location import SQLiteLocation, StoreLocation
from agtphost.stores.postgres.location import PostgresLocation
from agtphost.stores.rows import StoreError
from agtphost.vocabulary import database_url


class RevealedText(Protocol):
    """A secret of the configuration."""

    def reveal(self) -> str:
        """Return the text itself."""


class StoreSettings(Protocol):
    """The keys of ``[store]`` that say where it is."""

    @property
    def url(self) -> str:
        """``sqlite:`` and a path."""

    @property
    def plugin(self) -> str | None:
        """The plugin that provides the store instead."""

    @property
    def password(self) -> RevealedText | None:
        """The password of a database's role."""

    @property
    def require_synchronous_standby(self) -> bool:
        """Whether a database without a synchronous replica is refused."""


def locate_store(settings: StoreSettings) -> StoreLocation:
    """
    Return where the store of a configuration is.

    :raises StoreError: the URL names no store.
    """
    if settings.plugin is not None:
        return StoreLocation(f"the store of the plugin {settings.plugin}")
    password = None if settings.password is None else settings.password.reveal()
    return locate_url(settings.url, password, synchronous=settings.require_synchronous_standby)


def locate_url(url: str, password: str | None = None, *, synchronous: bool = False) -> StoreLocation:
    """
    Return where the store of a URL is.

    :param password: of a database's role.
    :param synchronous: whether a database without a synchronous replica is refused.
    :raises StoreError: the URL names no store.
    """
    scheme, _, path = url.partition(":")
    if database_url.is_postgresql(url):
        return PostgresLocation(url, password, synchronous=synchronous)
    if scheme != "sqlite" or not path:
        raise StoreError(f"{url!r} names no store; write sqlite:PATH or postgresql://USER@HOST/DATABASE")
    return SQLiteLocation(Path(path))
