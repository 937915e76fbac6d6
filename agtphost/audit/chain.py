"""
One record: its place in the chain, its time, its signature.

Pure but for the signature; companion sections 5.1 to 5.4. The payload is written
in the RFC 8785 form: :mod:`agtphost.audit.record_text`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

from agtphost.audit.record_text import encode_payload
from agtphost.identity import cose, envelope
from agtphost.identity.canonical import canonical
from agtphost.identity.jws import protected_header, sign_compact
from agtphost.identity.keys import Signer
from agtphost.stores.rows import HeadRow, RecordFormat
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID


class Head(NamedTuple):
    """The record after which the next record of a chain is appended."""

    chain: int
    """The chain's number in the store."""

    number: int
    """The newest record's number in the store; 0 where there is none."""

    seq: int
    audit_id: str
    issued_at: int
    """Milliseconds since the Unix epoch."""


def first(chain: int) -> Head:
    """Return the head of a chain that has no record yet."""
    return Head(chain, 0, 0, ZERO_AUDIT_ID, 0)


def head_of_row(row: HeadRow) -> Head:
    """Return the head of a chain from its stored row."""
    return Head(row.chain, row.number, row.seq, row.audit_id.hex(), row.issued_at)


class Seconds:
    """Writes RFC 3339 times in UTC; the text up to the second is kept from one call to the next."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def text(self, milliseconds: int) -> str:
        """Return a time as text: ``2027-01-31T00:00:00.000Z``."""
        second, fraction = divmod(milliseconds, 1000)
        if second != self._second:
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._second = second
        return f"{self._text}.{fraction:03d}Z"


class Signature(NamedTuple):
    """A signed record."""

    jws: str
    octets: bytes
    """ASCII of ``jws``."""

    audit_id: bytes
    audit_id_text: str


class RecordSigner:
    """
    Turns payloads into signed records.

    :param signer: None writes ``alg: none``, visibly.
    :param events: the envelope of lifecycle events, ``jws`` or ``cose``; without a signer always ``jws``.
    """

    def __init__(self, signer: Signer | None, events: str = envelope.JWS) -> None:
        self._cose = events == envelope.COSE and signer is not None
        self._with = protected_header(signer), signer

    def adopt(self, signer: Signer) -> None:
        """Sign with another key: header and signature change atomically, for all threads."""
        self._with = protected_header(signer), signer

    def sign(self, payload: Mapping[str, object]) -> Signature:
        """
        Sign a payload that is complete.

        :raises ValueError: if it has no RFC 8785 form.
        :raises TypeError: if it holds what JSON does not have.
        """
        protected, signer = self._with
        octets = sign_compact(protected, encode_payload(payload), signer)
        digest = sha256(octets).digest()
        return tuple.__new__(Signature, (octets.decode("ascii"), octets, digest, digest.hex()))

    def seal(self, octets: bytes) -> bytes:
        """Return the signature over octets other than a record's; without a key the SHA-256, which proves nothing."""
        signer = self._with[1]
        return sha256(octets).digest() if signer is None else signer.sign(octets)

    def sign_event(self, payload: Mapping[str, object]) -> tuple[Signature, RecordFormat]:
        """
        Sign a lifecycle event, in the envelope that was chosen for these.

        :raises ValueError: if it has no RFC 8785 form.
        :raises TypeError: if it holds what JSON does not have.
        """
        signer = self._with[1]
        if not self._cose or signer is None:
            return self.sign(payload), RecordFormat.JWS
        octets = cose.sign1(canonical(payload), signer)
        digest = sha256(octets)
        text = envelope.to_text(envelope.COSE, octets)
        return Signature(text, octets, digest.digest(), digest.hexdigest()), RecordFormat.COSE
