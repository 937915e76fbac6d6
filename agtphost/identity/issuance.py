"""
Issuing an agent: what is checked before, and the registrar's statement of it (core v08 section 6.5.6).

The statement, ``issue.jws`` next to the Genesis, is signed by the key that
issued the Genesis. The host that takes the agent up records it in the agent's
chain as its first event: the genesis audit entry.

A ``.nomo`` package carries what says who made it: ``chain.pem``, the author's
certificate and those above it, and ``signature``, the author's Ed25519
signature in base64url over the canonical JSON object that gives the SHA-256 of
every other file. A package in the ``.agent`` format has neither.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.identity import jws, packages
from agtphost.identity.canonical import canonical
from agtphost.identity.encoding import decode
from agtphost.identity.genesis import Genesis
from agtphost.identity.jws import JWSError
from agtphost.identity.keys import SigningKey
from agtphost.identity.packages import PackageError
from agtphost.vocabulary.foreign_errors import explain

STATEMENT = "issue.jws"
"""The file next to an agent's Genesis."""

STATEMENT_TYPE = "agtp-issue"
"""``typ`` of a statement."""

CHAIN = "chain.pem"
SIGNATURE = "signature"
LONGEST_CHAIN = 5
MOST_UNPACKED = 256 * 1024 * 1024
"""Octets of all files of a package together: more is an attack on the program that unpacks it."""


class IssueError(ValueError):
    """An agent that must not be issued, or a statement that is not to be believed; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """A package that may be issued."""

    path: Path
    octets: bytes
    manifest: Mapping[str, Any]
    author: str = ""
    """Subject of the certificate that signed a ``.nomo`` package, RFC 4514; empty for ``.agent``."""

    chain: tuple[str, ...] = ()
    """SHA-256, hex, of each certificate from the author's to the trusted authority's."""

    @property
    def reference(self) -> str:
        """``package_ref`` for the Genesis."""
        return f"sha256:{hashlib.sha256(self.octets).hexdigest()}"

    def evidence(self) -> dict[str, Any]:
        """Return the members that describe the package in a statement."""
        found: dict[str, Any] = {"format": packages.FORMATS[self.path.suffix], "integrity_hash": self.reference}
        return {**found, "author": self.author, "chain": list(self.chain)} if self.chain else found


def inspect_package(
    path: Path, *, expected_hash: str | None, authorities: Sequence[x509.Certificate], now: datetime
) -> Inspected:
    """
    Check a package that an agent is to be issued with.

    :param expected_hash: what its author says its SHA-256 is, ``sha256:`` and hex; None if it is not given.
    :param authorities: whose certificates authors of ``.nomo`` packages have.
    :param now: UTC.
    :raises PackageError: naming what is wrong with it.
    """
    if path.suffix not in packages.FORMATS:
        raise PackageError(f"its name ends in none of {', '.join(packages.FORMATS)}")
    try:
        if path.stat().st_size > packages.MAX_OCTETS:
            raise PackageError(f"it has more than {packages.MAX_OCTETS} octets")
        octets = path.read_bytes()
    except OSError as error:
        raise PackageError(f"it cannot be read: {explain(error)}") from error
    reference = f"sha256:{hashlib.sha256(octets).hexdigest()}"
    if expected_hash is not None and expected_hash.lower() != reference:
        raise PackageError(f"its SHA-256 is not the one given, but {reference}")
    manifest = packages.manifest_of(octets)
    if packages.FORMATS[path.suffix] != "nomo":
        return Inspected(path=path, octets=octets, manifest=manifest)
    contents = _files(octets)
    chain = _chain(contents.pop(CHAIN, None), authorities, now)
    _check_signature(contents.pop(SIGNATURE, None), contents, chain[0])
    return Inspected(
        path=path,
        octets=octets,
        manifest=manifest,
        author=chain[0].subject.rfc4514_string(),
        chain=tuple(hashlib.sha256(one.public_bytes(Encoding.DER)).hexdigest() for one in chain),
    )


def covered_octets(files: Mapping[str, bytes]) -> bytes:
    """Return the octets that the author of a ``.nomo`` package signs, made from its other files."""
    return canonical({name: hashlib.sha256(content).hexdigest() for name, content in files.items()})


def _files(octets: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(octets)) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            if len({entry.filename for entry in entries}) != len(entries):
                raise PackageError("two of its files have one name")
            if sum(entry.file_size for entry in entries) > MOST_UNPACKED:
                raise PackageError(f"its files have more than {MOST_UNPACKED} octets together")
            return {entry.filename: archive.read(entry) for entry in entries}
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise PackageError(f"it is not a readable ZIP file: {explain(error)}") from error


def _chain(pem: bytes | None, authorities: Sequence[x509.Certificate], now: datetime) -> list[x509.Certificate]:
    """Return the certificates from the author's up to a trusted authority's, each valid and issued by the next."""
    if pem is None:
        raise PackageError(f"it has no {CHAIN}: a .nomo package names its author by certificate")
    try:
        chain = list(x509.load_pem_x509_certificates(pem))
    except ValueError as error:
        raise PackageError(f"{CHAIN} has no certificates: {explain(error)}") from error
    if len(chain) > LONGEST_CHAIN:
        raise PackageError(f"{CHAIN} has more than {LONGEST_CHAIN} certificates")
    if chain[-1] not in authorities:
        above = next((one for one in authorities if _is_issued_by(chain[-1], one)), None)
        if above is None:
            raise PackageError(f"{CHAIN} does not lead to a trusted authority: name it by --package-ca")
        chain.append(above)
    for below, above in pairwise(chain):
        if not _is_issued_by(below, above):
            raise PackageError(f"{CHAIN}: {below.subject.rfc4514_string()} was not issued by the certificate after it")
    for one in chain:
        if not one.not_valid_before_utc <= now <= one.not_valid_after_utc:
            raise PackageError(f"{CHAIN}: the certificate of {one.subject.rfc4514_string()} is not valid now")
    return chain


def _is_issued_by(below: x509.Certificate, above: x509.Certificate) -> bool:
    try:
        below.verify_directly_issued_by(above)
        constraints = above.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return constraints.ca


def _check_signature(signature: bytes | None, files: Mapping[str, bytes], author: x509.Certificate) -> None:
    if signature is None:
        raise PackageError(f"it has no {SIGNATURE} of its author")
    key = author.public_key()
    if not isinstance(key, Ed25519PublicKey):
        raise PackageError(f"{CHAIN}: the author's key is not Ed25519")
    try:
        key.verify(decode(signature.decode("ascii").strip()), covered_octets(files))
    except (ValueError, InvalidSignature):
        raise PackageError(f"its {SIGNATURE} is not its author's over these files") from None


# Statements


def state(genesis: Genesis, registrar: SigningKey, *, label: str, issued_at: str, package: Inspected | None) -> bytes:
    """
    Sign what was checked when an agent was issued.

    :param issued_at: RFC 3339.
    :return: a JWS Compact.
    """
    payload: dict[str, Any] = {
        "agent_id": genesis.agent_id,
        "label": label,
        "label_unique": True,
        "issued_at": issued_at,
        "genesis_sha256": hashlib.sha256(genesis.octets).hexdigest(),
        "verification_path": genesis.verification_path,
    }
    if package is not None:
        payload["package"] = package.evidence()
    return jws.compact(jws.protected_header(registrar, STATEMENT_TYPE), canonical(payload), registrar).encode("ascii")


def read_statement(octets: bytes, genesis: Genesis) -> Mapping[str, Any]:
    """
    Verify a statement about a Genesis, and return its payload.

    :raises IssueError: it is not the Genesis issuer's, or of another Genesis.
    """
    key = genesis.issuer_key
    try:
        payload = jws.verify(octets.decode("ascii").strip(), {key.kid: key}, typ=STATEMENT_TYPE)
    except (JWSError, UnicodeDecodeError) as error:
        raise IssueError(f"it is not the registrar's statement: {error}") from None
    if payload.get("genesis_sha256") != hashlib.sha256(genesis.octets).hexdigest():
        raise IssueError("it is about another Genesis")
    return payload
