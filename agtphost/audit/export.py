"""
Records as JSON lines, to be kept and verified anywhere.

The first line says what follows and has the public keys; then one line per
record, chain by chain, oldest first; the last line has the number of records,
where each chain ended, and the SHA-256 of all lines before it, so that a file
cut short or damaged anywhere is noticed. The keys in the file prove nothing by
themselves: who verifies should know them, or their fingerprints, from
elsewhere. With proofs, the first line has a signed checkpoint and each record
the path to its root: then a selection proves membership in the log as well.
Of a host that changed its signing key, the first line has the statements by
which each key names the next, so that one key is enough for any selection of records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from agtphost.audit import checkpoint
from agtphost.audit.checkpoint import Checkpoint, CheckpointError
from agtphost.audit.drafts import HOST_CHAIN, StoredRecord
from agtphost.audit.merkle import ProofError, Tree, leaf_hash, proof_from_texts, proof_to_texts, verify_inclusion
from agtphost.audit.verify import FaultKind, Report, Verifier
from agtphost.identity import envelope
from agtphost.identity.jws import JWSError
from agtphost.identity.key_history import Succession
from agtphost.identity.key_ring import MOST_LINKS, KeyRing
from agtphost.identity.keys import KeyFormatError, VerifyingKey
from agtphost.vocabulary import jsontext

FORMAT = "agtp-audit-export/1"


class ExportError(ValueError):
    """The text is not an export that this program reads."""


@dataclass(frozen=True, kw_only=True)
class Prover:
    """The checkpoint and tree that prove records to be in the log."""

    note: str
    """The checkpoint that all proofs lead to."""

    tree: Tree
    """Of that checkpoint's size."""

    number_of: Callable[[str], int | None]
    """The place of a record among all, counted from 1."""

    newest: int
    """The last place when the export began: records that are sealed later do not belong to it."""

    def members(self, audit_id: str) -> dict[str, object] | None:
        """
        Return the members that a line has besides the record; empty for a record that the checkpoint does not cover
        yet.

        :return: None for a record that was sealed since the export began.
        """
        number = self.number_of(audit_id)
        if number is not None and number > self.newest:
            return None
        if number is None or number > self.tree.size:
            return {}
        return {"index": number - 1, "proof": proof_to_texts(self.tree.inclusion(number - 1))}


def write_export(
    records: Iterable[StoredRecord],
    *,
    server_id: str,
    keys: Iterable[tuple[str, VerifyingKey]],
    links: Iterable[Mapping[str, str]] = (),
    whole: bool = True,
    prover: Prover | None = None,
) -> Iterator[bytes]:
    """
    Yield the lines of an export, each with its line feed.

    :param records: each chain oldest first.
    :param keys: the host's public keys, as (kid, key).
    :param links: the statements that lead from each of them to the next, the oldest first.
    :param whole: whether no record of a chain is left out.
    :param prover: adds the checkpoint and the proofs of membership.
    """
    writing = ExportWriter(server_id, keys, links, whole=whole, note=None if prover is None else prover.note)
    yield writing.first
    for record in records:
        proof = {} if prover is None else prover.members(record.audit_id)
        if proof is not None:
            yield writing.line({**_members(record), **proof})
    yield writing.last()


class ExportWriter:
    """
    Writes the lines of an export one after the other, as its records come.

    :param note: the checkpoint that proofs lead to; None where there are none.
    """

    def __init__(
        self,
        server_id: str,
        keys: Iterable[tuple[str, VerifyingKey]],
        links: Iterable[Mapping[str, str]] = (),
        *,
        whole: bool,
        note: str | None = None,
    ) -> None:
        first: dict[str, object] = {
            "format": FORMAT,
            "server_id": server_id,
            "whole": whole,
            "keys": [{"kid": kid, "alg": "EdDSA", "key": key.text} for kid, key in keys],
        }
        if stated := [dict(statement) for statement in links]:
            first["links"] = stated
        if note is not None:
            first["checkpoint"] = note
        self.first = _line(first)
        """The first line."""

        self._digest = sha256(self.first)
        self._count = 0
        self._heads: dict[str, str] = {}

    def line(self, members: Mapping[str, object]) -> bytes:
        """
        Return the line of the next record of its chain.

        :param members: :data:`_MEMBERS`, without ``index`` and ``proof`` where it is not proven.
        """
        self._count += 1
        self._heads[str(members["chain"])] = str(members["audit_id"])
        line = _line(members)
        self._digest.update(line)
        return line

    def last(self) -> bytes:
        """Return the last line of the export, which shows that the file is whole."""
        end = {"end": FORMAT, "records": self._count, "heads": self._heads, "sha256": self._digest.hexdigest()}
        return _line(end)


def _line(members: Mapping[str, object]) -> bytes:
    return jsontext.encode(members) + b"\n"


def _members(record: StoredRecord) -> dict[str, object]:
    return {
        "chain": record.chain,
        "seq": record.seq,
        "audit_id": record.audit_id,
        "previous_audit_id": record.previous_audit_id,
        "kind": record.kind,
        "format": record.format,
        "signed": envelope.to_text(record.format, record.signed),
    }


_HEADER = {"format", "server_id", "whole", "keys", "links", "checkpoint"}
_MEMBERS = {"chain", "seq", "audit_id", "previous_audit_id", "kind", "format", "signed", "index", "proof"}
_TEXTS = ("chain", "audit_id", "previous_audit_id", "kind", "format")


def _record(members: Any) -> StoredRecord:
    try:
        if not members.keys() <= _MEMBERS:
            raise ExportError("a record has a member that is not known")
        fields = {name: members[name] for name in _TEXTS}
        seq, signed = members["seq"], members["signed"]
        if type(seq) is not int or not all(isinstance(text, str) for text in (signed, *fields.values())):
            raise ExportError("a member of a record has the wrong type")
        return StoredRecord(seq=seq, signed=envelope.from_text(fields["format"], signed), **fields)
    except JWSError as error:
        raise ExportError(f"{error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise ExportError(f"a record lacks a member: {error}") from None


def keys_of(header: Mapping[str, Any]) -> dict[str, VerifyingKey]:
    """
    Return the public keys in an export's first line.

    :raises ExportError: for a text that is not a key.
    """
    try:
        keys = {entry["kid"]: VerifyingKey.from_text(entry["key"]) for entry in header["keys"]}
        if any(entry["alg"] != "EdDSA" or len(entry) != 3 for entry in header["keys"]):
            raise ExportError("the export has a key of another kind than EdDSA")
        if any(key.kid != kid for kid, key in keys.items()) or len(keys) != len(header["keys"]):
            raise ExportError("the kid of a key in the export is not that key's fingerprint, or occurs twice")
        return keys
    except (KeyError, TypeError, AttributeError, KeyFormatError) as error:
        raise ExportError(f"the export's keys cannot be read: {error}") from None


def read_header(line: bytes) -> dict[str, Any]:
    """
    Read the first line of an export, which has the host, the selection and the keys.

    :raises ExportError: it is none.
    """
    try:
        header = jsontext.decode(line)
    except jsontext.JSONTextError as error:
        raise ExportError(f"the first line is not JSON: {error}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ExportError(f"the first line does not have the format {FORMAT}")
    if not isinstance(header.get("whole"), bool) or not isinstance(header.get("server_id"), str):
        raise ExportError("the first line does not say whose export it is, or whether chains are whole")
    if not header.keys() <= _HEADER:
        raise ExportError("the first line has a member that is not known")
    return header


def verify_export(
    lines: Iterable[bytes], keys: Mapping[str, VerifyingKey] | None = None, *, allow_unsigned: bool = False
) -> Report:
    """
    Verify an export without the host.

    :param lines: of the file, in order.
    :param keys: the host's keys by ``kid``, known from elsewhere: its first is enough, or any that all in the
        file was signed with or follows. None takes those in the file, which tells damage from no damage, but not
        who signed.
    :raises ExportError: it is not an export.
    """
    return _Reading(iter(lines), keys, allow_unsigned=allow_unsigned).report()


class _Reading:
    """A reader of one export, line by line."""

    def __init__(
        self, lines: Iterator[bytes], keys: Mapping[str, VerifyingKey] | None, *, allow_unsigned: bool
    ) -> None:
        first = next(lines, b"")
        header = read_header(first)
        listed = keys_of(header)
        self._lines = lines
        self._digest = sha256(first)
        self._server_id: str = header["server_id"]
        self._count = 0
        keys = listed if keys is None else keys
        self._verifier = Verifier(keys, allow_unsigned=allow_unsigned, whole=header["whole"])
        self._links = self._follow_links(header)
        self._places: dict[str, list[int]] = {}
        if keys and not set(listed.values()) & set(keys.values()):
            self._verifier.note(FaultKind.FORM, "", "", "the export names none of the keys that are known")
        self._signers: tuple[VerifyingKey, ...] = ()
        self._checkpoint = self._covering(header, self._verifier.keys)

    def _follow_links(self, header: Mapping[str, Any]) -> list[Succession]:
        """Return the statements in the first line that lead on from a known key."""
        statements = header.get("links", [])
        if not isinstance(statements, list) or len(statements) > MOST_LINKS:
            raise ExportError("the links of the first line are not a list of statements")
        links = [self._verifier.follow(statement, self._server_id) for statement in statements]
        return [link for link in links if link is not None]

    def _covering(self, header: Mapping[str, Any], keys: KeyRing) -> Checkpoint | None:
        """Return the checkpoint that the proofs lead to; None if there is none with a valid signature."""
        note = header.get("checkpoint")
        if note is None:
            return None
        try:
            if not isinstance(note, str):
                raise CheckpointError("it is not a text")
            signed, self._signers = checkpoint.verify_signers(note, keys.values())
            if signed.origin != checkpoint.key_name(self._server_id):
                raise CheckpointError(f"it is of the log {signed.origin}, not of {self._server_id}")
        except CheckpointError as error:
            self._verifier.note(FaultKind.PROOF, "", "", f"the checkpoint does not verify: {error}")
            return None
        self._verifier.proves(f"{signed.origin} of {signed.size}")
        return signed

    def report(self) -> Report:
        """Read to the end."""
        for number, line in enumerate(self._lines, 2):
            try:
                members = jsontext.decode(line)
                if isinstance(members, dict) and "end" in members:
                    return self._end(members)
                self._digest.update(line)
                self._count += 1
                self._add(members)
            except (jsontext.JSONTextError, ExportError) as error:
                self._verifier.note(FaultKind.FORM, "", "", f"line {number}: {error}")
        self._verifier.note(FaultKind.HEAD, "", "", "the export was cut short: its last line is missing")
        return self._verifier.finish()

    def _add(self, members: Any) -> None:
        record = _record(members)
        signer = self._verifier.add(record)
        if "proof" in members or "index" in members:
            why_not = self._unproven(record, members)
            self._verifier.proven(record, why_not)
            if signer and not why_not:
                place = self._places.setdefault(signer, [members["index"], members["index"]])
                place[:] = min(place[0], members["index"]), max(place[1], members["index"])

    def _unproven(self, record: StoredRecord, members: Mapping[str, Any]) -> str:
        """Return why a record's proof does not hold; empty where it does."""
        signed, index = self._checkpoint, members.get("index")
        if signed is None:
            return "it has a proof, but the export has no valid checkpoint"
        if type(index) is not int:
            return "its proof has no index"
        try:
            digests = proof_from_texts(members.get("proof"))
            # Of what was signed, and not of what the line says of it.
            leaf = leaf_hash(sha256(record.signed).digest())
            verify_inclusion(index, signed.size, leaf, digests, signed.root)
        except ProofError as error:
            return f"it is not proven to be in the log: {error}"
        return ""

    def _end(self, members: Mapping[str, Any]) -> Report:
        verifier, heads = self._verifier, members.get("heads")
        if members["end"] != FORMAT or members.keys() != {"end", "records", "heads", "sha256"}:
            verifier.note(FaultKind.FORM, "", "", "the last line is not one of this format")
        if members.get("records") != self._count or not isinstance(heads, dict):
            verifier.note(FaultKind.HEAD, "", "", f"the last line does not count {self._count} records")
        if members.get("sha256") != self._digest.hexdigest():
            verifier.note(FaultKind.HASH, "", "", "the lines before the last are not those that were written")
        if next(self._lines, None) is not None:
            verifier.note(FaultKind.FORM, "", "", "something follows the last line")
        self._check_successions()
        report = verifier.finish(heads if isinstance(heads, dict) else None)
        for chain in report.heads.keys() - (heads if isinstance(heads, dict) else report.heads).keys():
            verifier.note(FaultKind.HEAD, chain, "", "the last line does not name this chain")
        if report.servers and self._server_id not in report.servers:
            verifier.note(FaultKind.PLACE, "", "", f"no record in it was signed for {self._server_id}")
        return report

    def _check_successions(self) -> None:
        """
        Check that the log has the key rotations that the export's links state.

        A log has one order, in which all that a key signed comes before all that its successor signed; the times that
        records claim do not matter. So a key that was stolen after its use had ended cannot have signed any of it.
        """
        verifier, ring = self._verifier, self._verifier.keys
        stated = {(link.old.kid, link.new.kid) for link in verifier.stated_successions}
        for link in self._links:
            early, late = link.old.kid, link.new.kid
            if verifier.complete(HOST_CHAIN) and (early, late) not in stated:
                why = f"no record in the host's own chain says that {late} follows {early}"
                verifier.note(FaultKind.KEY, HOST_CHAIN, "", why)
        for early, (_, last) in self._places.items():
            for late, (first, _) in self._places.items():
                if ring.precedes(early, late) and last > first:
                    why = f"{early} signed record {last} of the log, after {late} that followed it"
                    verifier.note(FaultKind.KEY, "", "", why)
        for late in self._places:
            if any(ring.precedes(key.kid, late) for key in self._signers):
                why = f"the checkpoint is signed with a key that {late} had followed"
                verifier.note(FaultKind.PROOF, "", "", why)
