"""
Bad input: every field of every signed thing, changed, removed or added to; none is accepted.

Each case is named for what it mutates (``/endpoints/0/path removed``), so a
failure lists what was let through. Interoperability is the control: what is
not mutated verifies here and with libraries of others.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from joserfc import jws as joserfc_jws
from joserfc.jwk import OKPKey

from agtphost.audit import checkpoint, cosignature
from agtphost.audit.checkpoint import CheckpointError
from agtphost.audit.export import ExportError, Prover, verify_export, write_export
from agtphost.audit.merkle import Tree
from agtphost.audit.tree import TreeKeeper
from agtphost.identity import documents, encoding, jws
from agtphost.identity.documents import DocumentError
from agtphost.identity.genesis import Genesis, GenesisError
from agtphost.identity.manifest_signature import sign_manifest, verify_manifest
from agtphost.stores import Selection
from agtphost.vocabulary import jsontext
from tests.audit.drafting import ALICE, KEY, KEYS, draft, group_writer, sealed, sqlite_store, transition
from tests.contract.test_manifest import manifest
from tests.identity.samples import document, genesis_octets, key_of
from tests.rows import each_row

OTHER = key_of("mutations other")

Case = tuple[str, Any]
"""What is mutated, in words, and the outcome."""


def others(value: Any) -> Iterator[tuple[str, Any]]:
    """Other values than ``value``: close ones, and ones of another type."""
    if isinstance(value, str):
        yield "first character changed", ("b" if value[:1] == "a" else "a") + value[1:]
        yield "last character changed", value[:-1] + ("B" if value[-1:] == "A" else "A")
        yield "lengthened", value + "A"
        yield "emptied", "" if value else " "
        if value.swapcase() != value:
            yield "in other case", value.swapcase()
    elif isinstance(value, bool):
        yield "inverted", not value
    elif isinstance(value, int):
        yield "one more", value + 1
        yield "one less", value - 1
    elif isinstance(value, float):
        yield "doubled", value * 2 + 1
    elif isinstance(value, list):
        yield "with an element more", [*value, value[0] if value else "x"]
        if value:
            yield "with an element less", value[1:]
        if value != value[::-1]:
            yield "reversed", value[::-1]
    elif isinstance(value, dict):
        yield "with a member more", {**value, "unheard-of": 1}
    yield "another type", [value] if not isinstance(value, list) else {"0": value}
    if value is not None:
        yield "null", None


def each_mutation(whole: Any, here: Any = None, pointer: str = "") -> Iterator[Case]:
    """Every mutation of every field of a document, at any depth, by JSON pointer."""
    root = here is None
    here = whole if root else here
    places = list(here.items()) if isinstance(here, dict) else list(enumerate(here)) if isinstance(here, list) else []
    for key, value in places:
        name = f"{pointer}/{key}"
        for what, other in others(value):
            here[key] = other
            yield f"{name} {what}", copy.deepcopy(whole)
        here[key] = value
        if isinstance(here, dict):
            del here[key]
            yield f"{name} removed", copy.deepcopy(whole)
            here[key] = value
        if isinstance(value, (dict, list)):
            yield from each_mutation(whole, value, name)
    if root:
        yield "a member more", {**whole, "unheard-of": 1}


GENESIS = json.loads(genesis_octets(KEY))
DOCUMENT = documents.sign(document(), "registrar.acme.tld", KEY)
MANIFEST = json.loads(json.dumps(sign_manifest(manifest(), KEY)))
RECORD = {
    **draft(extra={"mcp_tool": "list", "depth": 2}).payload,
    "issued_at": "2026-11-21T00:00:00.000Z",
    "previous_audit_id": "0" * 64,
}
SIGNED = jws.compact(jws.protected_header(KEY), rfc8785.dumps(RECORD), KEY)


def accepts_genesis(members: Any) -> bool:
    try:
        return Genesis.load(rfc8785.dumps(members)).agent_id == GENESIS["agent_id"]
    except (GenesisError, rfc8785.CanonicalizationError):
        return False


def accepts_document(members: Any) -> bool:
    """Unsigned is no error, but no signature of the registrar's either: production refuses it."""
    try:
        return documents.check_signature(members) == KEY.public
    except DocumentError:
        return False


def accepts_manifest(members: Any) -> bool:
    try:
        verify_manifest(members, KEYS)
    except jws.JWSError:
        return False
    return True


def accepts_record(members: Any) -> bool:
    """Another payload under the header and signature of the record."""
    header, _, signature = SIGNED.split(".")
    try:
        payload = encoding.encode(rfc8785.dumps(members)).decode()
        jws.verify(f"{header}.{payload}.{signature}", KEYS)
    except (jws.JWSError, rfc8785.CanonicalizationError):
        return False
    return True


def accepts_header(members: Any) -> bool:
    """Another protected header over the record; for one with a key of its own, that key's real signature."""
    _, payload, signature = SIGNED.split(".")
    try:
        header = encoding.encode(rfc8785.dumps(members)).decode()
        jws.verify(f"{header}.{payload}.{signature}", KEYS)
    except (jws.JWSError, rfc8785.CanonicalizationError):
        return False
    return True


HEADER = {"alg": "EdDSA", "kid": KEY.kid, "typ": "JWT"}
TABLE: dict[str, tuple[dict[str, Any], Callable[[Any], bool], int]] = {
    "Genesis": (GENESIS, accepts_genesis, 90),
    "Identity Document": (DOCUMENT, accepts_document, 120),
    "manifest": (MANIFEST, accepts_manifest, 500),
    "record": (RECORD, accepts_record, 90),
    "header of a record": (HEADER, accepts_header, 15),
}


@each_row("kind", TABLE)
def test_no_mutated_field_is_accepted(kind: str) -> None:
    """T-GN, T-CN, T-JW: each field at any depth; the list of what was accepted is empty, and the original is not."""
    original, accepts, least = TABLE[kind]
    assert accepts(copy.deepcopy(original)), "the control"
    cases = list(each_mutation(copy.deepcopy(original)))
    assert len(cases) >= least
    changed = [(what, members) for what, members in cases if members != original]
    assert len(changed) == len(cases)
    assert [what for what, members in changed if accepts(members)] == []


def test_a_header_cannot_bring_its_own_key_or_algorithm() -> None:
    """T-JW: each of these is a real signature of somebody else's, or none, under a header that asks to be believed."""
    payload = rfc8785.dumps(RECORD)
    accepted = []
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": OTHER.public.text}
    for what, header in {
        "alg none": {"alg": "none", "typ": "JWT"},
        "alg none with our kid": {**HEADER, "alg": "none"},
        "alg HS256 with the public key as secret": {**HEADER, "alg": "HS256"},
        "jwk": {**HEADER, "jwk": jwk},
        "jku": {**HEADER, "jku": "https://evil.example/keys"},
        "x5u": {**HEADER, "x5u": "https://evil.example/cert"},
        "crit": {**HEADER, "crit": ["exp"]},
        "b64 false": {**HEADER, "b64": False, "crit": ["b64"]},
        "our kid, another key": HEADER,
        "kid of another key": {**HEADER, "kid": OTHER.kid},
        "no kid": {"alg": "EdDSA", "typ": "JWT"},
        "typ of manifests": {**HEADER, "typ": jws.MANIFEST_TYPE},
    }.items():
        protected = encoding.encode(rfc8785.dumps(header))
        signer = KEY if what == "typ of manifests" else OTHER
        for signed in (jws.compact(protected, payload, signer), jws.compact(protected, payload, None)):
            try:
                jws.verify(signed, KEYS)
            except jws.JWSError:
                continue
            accepted.append(what)
    assert accepted == []
    jws.verify(SIGNED, KEYS)


# Checkpoints


def note_mutations(note: str) -> Iterator[tuple[str, str]]:
    """Every character changed in two ways, every character and line removed."""
    for place, character in enumerate(note):
        for other in ("A" if character != "A" else "B", chr(ord(character) ^ 1)):
            yield f"character {place} ({character!r}) as {other!r}", note[:place] + other + note[place + 1 :]
        yield f"character {place} ({character!r}) removed", note[:place] + note[place + 1 :]
    lines = note.splitlines(keepends=True)
    for number, line in enumerate(lines):
        yield f"line {number} removed", "".join(lines[:number] + lines[number + 1 :])
        if number < 4:
            yield f"line {number} twice", "".join(lines[: number + 1]) + line + "".join(lines[number + 1 :])


def test_no_mutated_checkpoint_is_accepted() -> None:
    """Origin, size, root and signature, character by character, white space included."""
    note = checkpoint.issue("agtp.test", 1_234, bytes(range(32)), KEY).note
    checkpoint.verify(note, [KEY.public])
    accepted = []
    for what, changed in note_mutations(note):
        try:
            checkpoint.verify(changed, [KEY.public])
        except (CheckpointError, UnicodeEncodeError):
            continue
        accepted.append(what)
    assert accepted == []


def test_no_mutated_cosignature_is_accepted() -> None:
    """The same for the line of a witness."""
    note = checkpoint.issue("agtp.test", 1_234, bytes(range(32)), KEY).note
    line = cosignature.cosign(note, "witness.test", OTHER, 1_795_000_000)
    cosignature.verify(note, line, [OTHER.public])
    accepted = []
    for what, changed in note_mutations(line):
        try:
            cosignature.verify(note, changed, [OTHER.public])
        except (CheckpointError, UnicodeEncodeError):
            continue
        accepted.append(what)
    assert [what for what in accepted if "'\\n') removed" not in what and "twice" not in what] == []


# Exports


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Two chains, records and an event, with proofs."""
    return export_lines(tmp_path_factory.mktemp("mutations"))


def export_lines(folder: Path) -> list[bytes]:
    store = sqlite_store(folder)
    tree = TreeKeeper(store, "agtp.test", KEY)
    writer = group_writer(store, tree=tree)
    sealed(writer, draft(), draft(), transition(None, "suspended"), draft(""))
    issued = tree.catch_up()
    assert issued is not None
    reader = store.reader()
    covered = Tree(reader.tile, issued.size)
    prover = Prover(note=issued.note, tree=covered, number_of=reader.number_of, newest=issued.size)
    records = reader.records(Selection())
    return list(write_export(records, server_id="agtp.test", keys=KEYS.items(), prover=prover))


def test_what_is_sealed_while_an_export_is_made_is_not_in_it(tmp_path: Path) -> None:
    """The file is of the moment at which it began, so that every record in it is proven; the chain stays whole."""
    store = sqlite_store(tmp_path)
    tree = TreeKeeper(store, "agtp.test", KEY)
    writer = group_writer(store, tree=tree)
    sealed(writer, *(draft() for _ in range(3)))
    issued = tree.catch_up()
    assert issued is not None
    sealed(writer, draft())
    reader = store.reader()
    covered = Tree(reader.tile, issued.size)
    reports = []
    for newest in (3, 4):
        prover = Prover(note=issued.note, tree=covered, number_of=reader.number_of, newest=newest)
        lines = write_export(reader.records(Selection()), server_id="agtp.test", keys=KEYS.items(), prover=prover)
        reports.append(verify_export(list(lines), KEYS))
    assert [(report.ok, report.whole, report.records, report.proven) for report in reports] == [
        (True, True, 3, 3),
        (True, True, 4, 3),
    ]


def accepts_export(lines: list[bytes], proven: int) -> bool:
    """Whether a reader who knows the host's key would take it for the whole and proven export that it was."""
    try:
        report = verify_export(lines, KEYS)
    except ExportError:
        return False
    return report.ok and report.whole and report.proven == proven and bool(report.log)


def with_new_digest(lines: list[bytes]) -> list[bytes]:
    """With the digest of its last line made again: whoever changes a file can do that."""
    *kept, end = lines
    members = json.loads(end)
    if isinstance(members, dict) and "sha256" in members:
        members["sha256"] = sha256(b"".join(kept)).hexdigest()
    return [*kept, jsontext.encode(members) + b"\n"]


def test_no_mutated_field_of_an_export_is_accepted(export: list[bytes]) -> None:
    """Every member of the first line, of each record and of the last line, the file's digest made anew each time."""
    proven = len(export) - 2
    assert accepts_export(export, proven) and accepts_export(with_new_digest(export), proven), "the control"
    accepted, count = [], 0
    for number, line in enumerate(export):
        for what, members in each_mutation(json.loads(line)):
            if what.startswith("/sha256"):
                changed = [*export[:number], jsontext.encode(members) + b"\n"]
            else:
                changed = with_new_digest([*export[:number], jsontext.encode(members) + b"\n", *export[number + 1 :]])
            count += 1
            if accepts_export(changed, proven):
                accepted.append(f"line {number + 1}: {what}")
    assert count > 400
    assert accepted == []


def test_a_stripped_proof_does_not_pass_for_a_proven_record(export: list[bytes]) -> None:
    """Without index and proof a record still verifies, but is not counted as a member of the log."""
    members = json.loads(export[1])
    del members["index"], members["proof"]
    report = verify_export(with_new_digest([export[0], jsontext.encode(members) + b"\n", *export[2:]]), KEYS)
    assert report.ok and report.proven == len(export) - 3


def test_a_proof_of_another_record_is_refused(export: list[bytes]) -> None:
    """Each record's proof under each other record."""
    lines = [json.loads(line) for line in export]
    for at in range(1, len(lines) - 1):
        for other in range(1, len(lines) - 1):
            swapped = {**lines[at], "index": lines[other]["index"], "proof": lines[other]["proof"]}
            changed = with_new_digest([*export[:at], jsontext.encode(swapped) + b"\n", *export[at + 1 :]])
            assert accepts_export(changed, len(export) - 2) == (at == other)


# AGTP-307


def test_records_of_another_host_are_marked(export: list[bytes]) -> None:
    """AGTP-307: with a key that is not the signer's, each record is ``signature_unverified``, and none counts."""
    report = verify_export(export, {OTHER.kid: OTHER.public})
    assert not report.ok
    assert set(report.unverified_ids) == {json.loads(line)["audit_id"] for line in export[1:-1]}
    assert report.proven == 0
    assert "signature_unverified" in str(next(fault for fault in report.faults if fault.signature_unverified))


def test_one_tampered_record_among_good_ones_is_marked(export: list[bytes]) -> None:
    """AGTP-307: the others are not."""
    lines = [json.loads(line) for line in export]
    header, payload, signature = lines[1]["signed"].split(".")
    forged = {**json.loads(encoding.decode(payload)), "status": 403}
    lines[1]["signed"] = f"{header}.{encoding.encode(rfc8785.dumps(forged)).decode()}.{signature}"
    lines[1]["audit_id"] = sha256(lines[1]["signed"].encode()).hexdigest()
    report = verify_export(with_new_digest([jsontext.encode(line) + b"\n" for line in lines]), KEYS)
    assert report.unverified_ids == [lines[1]["audit_id"]]


# Interoperability: the control with the libraries of others


def test_other_libraries_verify_all_of_them(export: list[bytes]) -> None:
    """joserfc the records, rfc8785 and cryptography the documents: none of this program's verifiers takes part."""
    key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": encoding.encode(KEY.public.raw).decode()})
    registry = joserfc_jws.JWSRegistry(algorithms=["EdDSA"], strict_check_header=False)
    for signed in [SIGNED, *(json.loads(line)["signed"] for line in export[1:-1])]:
        payload = joserfc_jws.deserialize_compact(signed, key, registry=registry).payload
        assert rfc8785.dumps(json.loads(payload)) == payload
    parsed = joserfc_jws.deserialize_compact(MANIFEST["manifest_signature"], key, registry=registry)
    unsigned = {name: value for name, value in MANIFEST.items() if name != "manifest_signature"}
    assert parsed.payload == rfc8785.dumps(unsigned)
    public = Ed25519PublicKey.from_public_bytes(KEY.public.raw)
    for members, name, excluded in (
        (DOCUMENT, "manifest_signature", ()),
        (GENESIS, "signature", ("agent_id",)),
    ):
        covered = {each: value for each, value in members.items() if each not in (name, *excluded)}
        public.verify(encoding.decode(members[name]), rfc8785.dumps(covered))
    assert ALICE in {json.loads(line).get("chain") for line in export}
