"""Blocks in PostgreSQL: :mod:`agtphost.stores.block_writer`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from agtphost.stores.block_writer import lacks_blocks, write_blocks
from agtphost.stores.facet_rows import FacetNumbers

INDEXED_RECORDS: Final = (
    "(SELECT number, i.facet, p.issued_at, i.session, i.task, p.path FROM record_index i JOIN record p USING (number))"
)
"""Records that have a row of the index: those that an earlier version wrote last get theirs later."""


class BlockWriting(ABC):
    """The part of a store that writes blocks."""

    _execute: Callable[..., Any]
    _facets: FacetNumbers

    @abstractmethod
    def _own_transaction(self) -> AbstractContextManager[None]:
        """Run statements under the lock of the store."""

    def index_blocks(self) -> bool:
        if not lacks_blocks(self._execute, INDEXED_RECORDS):
            return False
        with self._own_transaction():
            return write_blocks(self._execute, self._facets.recent, INDEXED_RECORDS)
