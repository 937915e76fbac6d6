"""Blocks of a few records, so that a small store has some."""

from __future__ import annotations

import pytest


def set_block(monkeypatch: pytest.MonkeyPatch, records: int, most_sums: int) -> None:
    """
    Change how large a block is.

    :param most_sums: facets of a block with sums.
    """
    for name in ("agtphost.stores.block_writer", "agtphost.audit.block_check"):
        monkeypatch.setattr(f"{name}.MOST_SUMS", most_sums)
        monkeypatch.setattr(f"{name}.BLOCK", records)
    for name in ("agtphost.stores.record_blocks", "agtphost.stores.record_hashes"):
        monkeypatch.setattr(f"{name}.BLOCK", records)
