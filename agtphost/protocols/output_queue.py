"""Octets that wait for a peer, where a long answer is referred to instead of copied."""

from __future__ import annotations

from collections import deque

LONG = 65_536
"""Octets of an answer from which on it is referred to; shorter ones are copied together."""


class OutputQueue:
    """
    A queue of octets, taken piece by piece.

    A bytearray would have a copy of each answer besides the answer itself, and another one while it grows: an OpenAPI
    document of 5,000 endpoints has 41 MB.
    """

    __slots__ = ("_chunks", "_first", "_held", "_length")

    def __init__(self) -> None:
        self._chunks: deque[bytes | bytearray] = deque()
        self._first = 0  # octets of the first chunk that were taken
        self._length = 0
        self._held = 0

    def __len__(self) -> int:
        """Return the number of octets that were not taken yet."""
        return self._length

    @property
    def octets_in_memory(self) -> int:
        """The octets in memory; a long answer counts as a whole until its last octet is taken."""
        return self._held

    def append(self, octets: bytes) -> None:
        """Put octets at the end; long ones must not change afterwards."""
        size = len(octets)
        last = self._chunks[-1] if self._chunks else None
        if size >= LONG:
            self._chunks.append(octets)
        elif type(last) is bytearray and len(last) < LONG:
            last += octets
        elif size:
            self._chunks.append(bytearray(octets))
        self._length += size
        self._held += size

    def take(self, most: int) -> bytes:
        """Remove and return the first octets, at most ``most``."""
        chunks = self._chunks
        if self._length <= most and len(chunks) == 1 and not self._first:
            only = bytes(chunks[0])
            self.clear()
            return only
        pieces, missing = [], most
        while chunks and missing:
            chunk = chunks[0]
            piece = bytes(memoryview(chunk)[self._first : self._first + missing])
            pieces.append(piece)
            missing -= len(piece)
            self._first += len(piece)
            if self._first == len(chunk):
                self._held -= len(chunk)
                self._first = 0
                chunks.popleft()
        self._length -= most - missing
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def clear(self) -> None:
        """Drop all octets."""
        self._chunks.clear()
        self._first = self._length = self._held = 0
