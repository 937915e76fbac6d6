"""
Verify what an AGTP host recorded, without the host and without its software.

``agtp-verify --key signing.pub records.jsonl`` reads an export of ``agtp audit export``. Take the host's key from
elsewhere; its first key is enough, because each names its successor. This one file needs only ``cryptography``.

For each record: its Audit-ID is the SHA-256 of its bytes; a known key of the host signed it while that key was in use,
and for this place (chain, kind, record before); no record is missing before it, and time does not go back. For the
file: it was not truncated or changed. For proofs: they lead to the root that the host's signed checkpoint commits to.

A file cannot show which newer or unselected records it leaves out. Exit status: 0 verified, 1 not, 2 not readable.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

__version__ = "1.0.0"
FORMAT = "agtp-audit-export/1"
ROTATION = "signing-key-rotated"
STATED = ("server_id", "old_kid", "old_key", "new_kid", "new_key", "rotated_at")
ZERO = "0" * 64
LONGEST = 1 << 20  # Bytes of a line; a record has a few thousand.
DAMAGE = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError)  # From hostile text.


def fail(why: str) -> NoReturn:
    raise ValueError(why)


class Fault(NamedTuple):
    """A fault of the export; ``chain`` is an Agent-ID, and empty for the host's own chain."""

    line: int
    chain: str
    audit_id: str
    why: str


@dataclass
class Chain:
    """The end of a chain, as far as it was read."""

    records: int = 0
    seq: int = 0
    audit_id: str = ZERO
    issued_at: str = ""
    signer: str = ""  # The key of its last record.


@dataclass
class Verdict:
    """The result of a verification; an export without faults is valid."""

    source: str
    server_id: str = ""
    whole: bool = False  # Chains are complete; otherwise a selection, whose gaps cannot be detected.
    records: int = 0
    proven: int = 0  # Records that are proven to be in the log.
    log: str = ""  # Origin and size of the log; empty without a checkpoint.
    chains: dict[str, Chain] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)  # The end of use of each; empty if it is in use.
    faults: list[Fault] = field(default_factory=list)


def octets_of(text: object, what: str, *, padded: bool = False) -> bytes:
    """Decode base64url in its only canonical spelling, so that no record has two Audit-IDs."""
    bare = str(text).rstrip("=") if padded else str(text)
    try:
        octets = base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except ValueError:
        octets = b""
    return octets if base64.urlsafe_b64encode(octets).rstrip(b"=").decode() == bare else fail(f"{what} is malformed")


def unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    return names if len(names) == len(pairs) else fail("it repeats a name")


def object_of(octets: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(octets, object_pairs_hook=unique_members, parse_constant=fail)
    except (ValueError, RecursionError) as error:
        fail(f"{what} is not JSON: {error}")
    return value if isinstance(value, dict) else fail(f"{what} is not a JSON object")


def key_id(raw: bytes) -> str:
    """Return the identifier that a host gives to an Ed25519 key of 32 bytes."""
    return f"ed25519-{sha256(raw).hexdigest()[:16]}"


def read_key(octets: bytes) -> bytes:
    """Return the 32 bytes of a public key in PEM, base64url, or ``name+hash+key`` of ``agtp audit checkpoint``."""
    if b"-----BEGIN" in octets:
        key = load_pem_public_key(octets)
        return key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else fail("the key is not Ed25519")
    text = octets.decode("ascii").strip()
    name, mark, noted = text.split("+", 2) if text.count("+") > 1 else ("", "", "")
    raw = base64.b64decode(noted, validate=True)[1:] if noted else octets_of(text, "the key", padded=True)
    if noted and sha256(f"{name}\n\x01".encode() + raw).hexdigest()[:8] != mark:
        fail("the verifier key is damaged")
    return raw if len(raw) == 32 else fail("the key is not Ed25519")


def moment(text: object) -> datetime:
    found = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    return found if found.tzinfo is not None else fail(f"{str(text)[:40]} has no time zone")


class KeyChain:
    """The trusted keys; statements in which a key names its successor add more."""

    def __init__(self, raw: Iterable[bytes]) -> None:
        self.raw = {key_id(each): each for each in raw}
        self.until: dict[str, str] = {}
        self.next: dict[str, str] = {}

    def check(self, kid: str, signature: bytes, covered: bytes) -> None:
        if kid not in self.raw:
            fail("no known key signed it")
        try:
            Ed25519PublicKey.from_public_bytes(self.raw[kid]).verify(signature, covered)
        except (InvalidSignature, ValueError):
            fail("its signature is wrong")

    def follow(self, said: Any, server_id: str) -> tuple[str, str] | None:
        """Trust the key that a trusted one names in a statement signed by both; return None for unknown keys."""
        content = {"type": ROTATION, **{name: said[name] for name in STATED}}
        covered = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        raw = {which: octets_of(said[f"{which}_key"], "a key", padded=True) for which in ("old", "new")}
        for which in raw:
            if key_id(raw[which]) != said[f"{which}_kid"]:
                fail("a statement of two keys has a wrong key identifier")
            signature = octets_of(said[f"{which}_signature"], "a signature", padded=True)
            KeyChain([raw[which]]).check(said[f"{which}_kid"], signature, covered)
        old, new, end = said["old_kid"], said["new_kid"], moment(said["rotated_at"])
        if self.raw.get(old) != raw["old"]:
            return None
        if said["server_id"] != server_id or self.next.get(old, new) != new or new == old or self.precedes(new, old):
            fail(f"the statement on the successor of {old} contradicts others")
        self.raw[new], self.next[old] = raw["new"], new
        if old not in self.until or moment(self.until[old]) < end:
            self.until[old] = said["rotated_at"]
        return old, new

    def precedes(self, early: str, late: str) -> bool:
        while (early := self.next.get(early, "")) not in ("", late):
            pass
        return early == late != ""


def open_signed(form: object, text: object) -> tuple[bytes, bytes, bytes, str, dict[str, Any]]:
    """Return the hashed and the signed bytes of a JWS or COSE_Sign1, the signature, the key's name, the payload."""
    if not isinstance(text, str) or form not in ("jws", "cose"):
        fail("its format is neither jws nor cose")
    if form == "jws":
        first, second, third = text.split(".")
        head = object_of(octets_of(first, "the header"), "the header")
        if head.keys() != {"alg", "kid", "typ"} or (head["alg"], head["typ"]) != ("EdDSA", "JWT"):
            fail("it is not signed, proving nothing" if head.get("alg") == "none" else "its header is malformed")
        payload = object_of(octets_of(second, "the payload"), "the payload")
        return text.encode(), f"{first}.{second}".encode(), octets_of(third, "the signature"), str(head["kid"]), payload
    octets = octets_of(text.removeprefix("cose:"), "the message")
    protected, at = byte_string(octets, 2)
    body, end = byte_string(octets, at + 1)
    (signature, last), (named, _) = byte_string(octets, end), byte_string(protected, 4)
    if octets[:2] + octets[at : at + 1] + protected[:4] + octets[last:] != b"\xd2\x84\xa0\xa3\x01\x27\x04":
        fail("it is not a COSE_Sign1 in the form that hosts write")
    covered = b"\x84\x6aSignature1" + octets[2:at] + b"\x40" + octets[at + 1 : end]
    return octets, covered, signature, named.decode("ascii", "replace"), object_of(body, "the payload")


def byte_string(octets: bytes, at: int) -> tuple[bytes, int]:
    """Return a CBOR byte string, and the position after it."""
    first = octets[at] if at < len(octets) else 0
    wide = {0x58: 1, 0x59: 2, 0x5A: 4}.get(first, 0)
    start = at + 1 + wide
    end = start + (int.from_bytes(octets[at + 1 : start], "big") if wide else first - 0x40)
    if not (0x40 <= first <= 0x57 or wide) or end > len(octets):
        fail("it is not CBOR in the form that hosts write")
    return octets[start:end], end


def root_of(index: int, size: int, leaf: bytes, path: list[bytes]) -> bytes:
    """Return the root that an inclusion proof leads to (RFC 9162 section 2.1.3)."""
    if not 0 <= index < size or (size == 1) != (not path):
        fail("its proof does not fit the size of the log")
    if size == 1:
        return leaf
    split = 1 << (size - 1).bit_length() - 1
    if index < split:
        return sha256(b"\x01" + root_of(index, split, leaf, path[:-1]) + path[-1]).digest()
    return sha256(b"\x01" + path[-1] + root_of(index - split, size - split, leaf, path[:-1])).digest()


class ExportReader:
    def __init__(self, source: str, keys: Iterable[bytes]) -> None:
        self.verdict = Verdict(source)
        self.keys = KeyChain(keys)
        self.line = 1
        self.tree: tuple[int, bytes] | None = None
        self.noted: set[str] = set()  # Keys that signed the checkpoint.
        self.linked: set[tuple[str, str]] = set()  # Successions that the host's own chain records.
        self.places: dict[str, list[int]] = {}  # First and last index in the log of each key's records.
        self.servers: set[str] = set()

    def fault(self, why: str) -> None:
        self.verdict.faults.append(Fault(self.line, "", "", why))

    def checkpoint(self, note: Any) -> None:
        """Accept a checkpoint that a known key signed under its own origin (C2SP tlog-checkpoint)."""
        text, _, marks = note.partition("\n\n")
        lines = text.split("\n")
        if len(lines) < 3 or not lines[0] or not re.fullmatch(r"0|[1-9][0-9]{0,18}", lines[1], re.ASCII):
            fail("the checkpoint does not have origin, size and root")
        known = {sha256(f"{lines[0]}\n\x01".encode() + raw).digest()[:4]: kid for kid, raw in self.keys.raw.items()}
        for _, name, mark in (mark.split(" ") for mark in marks.splitlines() if mark.count(" ") == 2):
            octets = base64.b64decode(mark)
            if name == lines[0] and octets[:4] in known:
                self.keys.check(known[octets[:4]], octets[4:], f"{text}\n".encode())
                self.noted.add(known[octets[:4]])
        root = base64.b64decode(lines[2], validate=True) if self.noted else fail("no known key signed the checkpoint")
        self.tree = int(lines[1]), root
        self.verdict.log = f"{lines[0]} of {lines[1]} records"

    def member(self, digest: bytes, index: Any, proof: Any, signer: str) -> None:
        """Verify that a record is in the log."""
        if self.tree is None or type(index) is not int or not isinstance(proof, list):
            fail("its proof has no index or path, or the checkpoint was not accepted")
        leaf = sha256(b"\x00" + digest).digest()
        path = [base64.b64decode(str(each), validate=True) for each in proof[:64]]
        if root_of(index, self.tree[0], leaf, path) != self.tree[1]:
            fail("it is not proven to be in the log: its path leads to another root")
        self.verdict.proven += 1
        first, last = self.places.get(signer, (index, index))
        self.places[signer] = [min(first, index), max(last, index)]

    def record(self, entry: dict[str, Any]) -> None:
        """Verify one record; note every fault, and continue."""
        verdict, name, said, seq = self.verdict, str(entry["chain"]), str(entry["audit_id"]), int(entry["seq"])
        chain = verdict.chains.setdefault(name, Chain())
        known = verdict.whole or chain.records > 0
        verdict.records, chain.records, found, issued = verdict.records + 1, chain.records + 1, [], chain.issued_at
        if (known and seq <= chain.seq) or (verdict.whole and seq != chain.seq + 1):
            found.append(f"it follows record {chain.seq}: a record is missing or repeated")
        if (verdict.whole or (known and seq == chain.seq + 1)) and entry["previous_audit_id"] != chain.audit_id:
            found.append(f"the record before it is {chain.audit_id}")
        try:
            hashed, covered, signature, kid, payload = open_signed(entry["format"], entry["signed"])
            if sha256(hashed).hexdigest() != said:
                found.append("its Audit-ID is not the hash of the signed record")
            self.keys.check(kid, signature, covered)
            kind = "event" if "event_type" in payload else "record"
            place = (payload["agent_id"], payload["previous_audit_id"], kind, False)
            if place != (name, entry["previous_audit_id"], entry["kind"], "durable" in payload):
                found.append("it was signed for another place, or as a summary")
            self.servers.add(str(payload.get("server_id", verdict.server_id)))
            issued = str(payload["issued_at"])
            if chain.issued_at and moment(issued) < moment(chain.issued_at):
                found.append(f"the record before it is later: {chain.issued_at}")
            self.in_time(kid, payload, name, chain)
            if "proof" in entry or "index" in entry:
                self.member(sha256(hashed).digest(), entry["index"], entry["proof"], kid)
        except DAMAGE as error:
            found.append(f"it lacks {error}" if isinstance(error, KeyError) else str(error))
        verdict.faults += [Fault(self.line, name, said, why) for why in found]
        chain.seq, chain.audit_id, chain.issued_at = seq, said, issued

    def in_time(self, kid: str, payload: dict[str, Any], name: str, chain: Chain) -> None:
        """Verify that the key was in use; the last record of a key names its successor."""
        if self.keys.precedes(kid, chain.signer):
            fail(f"{kid} signed it after its successor {chain.signer} had signed")
        until = self.keys.until.get(kid, "")
        late = until and moment(payload.get("issued_at")) > moment(until)
        if payload.get("event_type") == ROTATION and name == "":
            if payload.get("old_kid") != kid or (late and payload.get("rotated_at") != until):
                fail("it names a successor of a key that did not sign it or was retired")
            self.linked.add(self.keys.follow(payload, self.verdict.server_id) or ("", ""))
            return
        if late:
            fail(f"the key {kid} was retired at {until}, before this record")
        chain.signer = kid

    def export(self, lines: BinaryIO) -> None:
        """Verify a whole export."""
        first = lines.readline(LONGEST)
        head = object_of(first, "the first line")
        if head.get("format") != FORMAT:
            fail(f"it does not have the format {FORMAT}")
        self.verdict.server_id, self.verdict.whole = str(head["server_id"]), head["whole"] is True
        stated: set[tuple[str, str] | None] = set()
        digest, end = sha256(first), None
        try:
            stated = {self.keys.follow(said, self.verdict.server_id) for said in head.get("links", [])[:256]}
            if "checkpoint" in head:
                self.checkpoint(head["checkpoint"])
        except DAMAGE as error:
            self.fault(f"the first line: {error}")
        while end is None and (line := lines.readline(LONGEST)):
            self.line += 1
            try:
                entry = object_of(line, "the line")
                if "end" in entry:
                    end = entry
                    continue
                self.record(entry)
            except DAMAGE as error:
                self.fault(f"it is not a record: {error}")
            digest.update(line)
        heads = {name: chain.audit_id for name, chain in self.verdict.chains.items()}
        wanted = {"end": FORMAT, "records": self.verdict.records, "heads": heads, "sha256": digest.hexdigest()}
        if end != wanted or lines.read(1):
            self.fault("the last line does not match the lines before it: the file was truncated or changed")
        if self.servers and self.verdict.server_id not in self.servers:
            self.fault(f"no record was signed for {self.verdict.server_id}")
        self.successions(stated - {None})

    def successions(self, stated: Iterable[Any]) -> None:
        """Verify that keys followed each other in the log as stated, regardless of the records' times."""
        if self.verdict.whole and "" in self.verdict.chains:
            for early, late in set(stated) - self.linked:
                self.fault(f"no record of the host's own chain names {late} as successor of {early}")
        for early, (_, last) in self.places.items():
            for late, (first, _) in self.places.items():
                if self.keys.precedes(early, late) and last > first:
                    self.fault(f"{early} signed record {last} of the log after its successor {late} had signed")
        for late in self.places:
            if any(self.keys.precedes(kid, late) for kid in self.noted):
                self.fault(f"the checkpoint is signed with a key whose successor {late} was in use")


def verify(lines: BinaryIO, keys: Iterable[bytes], source: str = "") -> Verdict:
    """
    Verify an export with public keys of the host, of 32 bytes each; its first key is enough.

    :raises ValueError: the file is not an export.
    """
    reading = ExportReader(source, keys)
    try:
        reading.export(lines)
    except DAMAGE as error:
        raise ValueError(f"the file is not an export: {error}") from None
    reading.verdict.keys = {kid: reading.keys.until.get(kid, "") for kid in reading.keys.raw}
    return reading.verdict


def text_of(verdict: Verdict) -> Iterator[str]:
    """Yield a verdict as lines for people."""
    for name, chain in sorted(verdict.chains.items()):
        yield f"{name or 'host':64}  {chain.records:>8} records, the last {chain.audit_id} of {chain.issued_at}"
    yield from (f"line {fault.line}: {fault.chain or 'host'} {fault.audit_id}: {fault.why}" for fault in verdict.faults)
    if verdict.log:
        yield f"{verdict.proven} of {verdict.records} records are proven to be in the log {verdict.log}"
    if not verdict.whole:
        yield "this is a selection of records; whether it is complete cannot be checked"
    outcome = "VERIFIED" if not verdict.faults else f"NOT VERIFIED, {len(verdict.faults)} faults"
    yield f"{outcome}: {verdict.records} records of {verdict.server_id or 'an unknown host'}, {verdict.source}"


def main(arguments: list[str] | None = None) -> int:
    """Verify the given export; return 0 if it is valid, 1 if it has faults, 2 if the file or a key is unreadable."""
    parser = argparse.ArgumentParser("agtp-verify", description=str(__doc__).replace("``", ""))
    parser.add_argument("file", type=Path, help="file that agtp audit export wrote")
    parser.add_argument("--key", action="append", required=True, help="public key of the host, or its file; repeatable")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    given = parser.parse_args(arguments)
    try:
        keys = [read_key(key.encode() if key.count("+") > 1 else Path(key).read_bytes()) for key in given.key]
        with given.file.open("rb") as lines:
            verdict = verify(lines, keys, str(given.file))
    except (OSError, ValueError) as error:
        print(f"agtp-verify: {error}", file=sys.stderr)
        return 2
    if given.json:
        faults = [fault._asdict() for fault in verdict.faults]
        print(json.dumps({**asdict(verdict), "faults": faults, "verified": not verdict.faults}, indent=2))
    else:
        print(*text_of(verdict), sep="\n")
    return 0 if not verdict.faults else 1


if __name__ == "__main__":
    sys.exit(main())
