"""What is signed of a keyed request, and the digest of a row that counts them."""

from __future__ import annotations

from hashlib import sha256

from agtphost.stores.rows import KeyedRow, ReservationRow

_CLAIM = b"agtphost keyed request, claimed 1\n"
_ANSWER = b"agtphost keyed request, answered 1\n"
_USE = b"agtphost keyed requests, counted 1\n"


def _join_parts(heading: bytes, parts: tuple[bytes, ...]) -> bytes:
    """Join the parts to a heading, each with its length, so that two different lists never give the same octets."""
    return heading + b"".join([len(part).to_bytes(4, "big") + part for part in parts])


def claim_octets(row: ReservationRow) -> bytes:
    """Return what the host signs when a keyed request is claimed; the signature is ``reservation.seal``."""
    return _join_parts(
        _CLAIM, (row.name, row.digest, row.reserved_at.to_bytes(8, "big", signed=True), row.owner or b"")
    )


def answer_digest(row: ReservationRow, result: bytes) -> str:
    """
    Return the digest that the record of the answer signs, in hexadecimal.

    :param row: the reservation.
    :param result: what is stored of the answer.
    """
    return sha256(_join_parts(_ANSWER, (claim_octets(row), row.seal, result))).hexdigest()


def use_digest(row: KeyedRow) -> bytes:
    """Return the digest of a row of ``keyed``."""
    numbers = tuple(number.to_bytes(8, "big", signed=True) for number in (row.keys, row.octets, row.since))
    return sha256(_join_parts(_USE, (row.owner, *numbers))).digest()


def sealed_use(row: KeyedRow) -> KeyedRow:
    """Return the row with its digest."""
    return row._replace(digest=use_digest(row))
