"""The Agent Identity Document: required members, signature, served form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agtphost.identity import documents, encoding
from agtphost.identity.canonical import canonical
from agtphost.identity.documents import DocumentError
from agtphost.vocabulary.catalog import FLOOR
from tests.identity.samples import document, key_of
from tests.rows import each_row

KEY = key_of("documents key")
ISSUER = "registrar.acme.tld"
SIGNED = documents.sign(document(), ISSUER, KEY)


REQUIRED = (
    *("agtp_version", "document_type", "document_version", "agent_id", "name", "description", "principal"),
    *("principal_id", "issuer", "issued_at", "updated_at", "status", "methods", "capabilities", "scopes_accepted"),
    "trust_score",
)
"""The members that core v08 section 6.3 requires."""


def test_a_complete_document_has_no_fault() -> None:
    """AGTP-136: sixteen members, each by its rule."""
    assert documents.faults_of(document()) == []
    assert len(REQUIRED) == 16 and set(documents.REQUIRED) == set(REQUIRED)


@each_row("name", REQUIRED)
def test_each_required_member_is_required_by_name(name: str) -> None:
    """AGTP-136: the fault names the member that is missing."""
    assert documents.faults_of(document(**{name: None})) == [f"{name}: it is missing"]


@each_row(
    ("name", "value"),
    [
        ("document_type", "agtp-status"),
        ("document_type", None),
        ("agent_id", "AB" * 32),
        ("agent_id", "ab" * 32 + "\n"),
        ("name", ""),
        ("name", "a\r\nb"),
        ("description", "\x1b[31m"),
        ("issued_at", "today"),
        ("updated_at", "2026-05-01T08:59:59Z"),
        ("updated_at", 0),
        ("status", "sleeping"),
        ("status", None),
        ("methods", "QUERY"),
        ("methods", [1]),
        ("capabilities", {}),
        ("scopes_accepted", ["documents"]),
        ("scopes_accepted", "documents:query"),
        ("scopes_accepted", ["a:b"] * 257),
        ("trust_score", 1.2),
        ("trust_score", -0.1),
        ("trust_score", True),
        ("trust_score", "0.5"),
        ("trust_tier", 0),
        ("trust_tier", 1.0),
        ("trust_tier", True),
        ("owner_id", "a b"),
        ("verification_path", "dns\r\nX: y"),
        ("trust_warning", "é"),
        ("requires", []),
    ],
)
def test_members_follow_their_rules(name: str, value: Any) -> None:
    """AGTP-137, 138, 139, 141: a wrong value is a fault that begins with the member's name."""
    faults = documents.faults_of({**document(), name: value})
    assert len(faults) == 1
    assert faults[0].startswith(f"{name}: ")


def test_all_faults_come_at_once() -> None:
    """A document with three faults gets three messages."""
    faults = documents.faults_of({**document(name=None), "status": "x", "trust_score": 2})
    assert [fault.split(":")[0] for fault in faults] == ["name", "status", "trust_score"]


@each_row("octets", [b"", b"[]", b"null", b'{"a":1,"a":2}', b"\xff", b" " * 300_000])
def test_what_is_no_object_is_refused(octets: bytes) -> None:
    """The strict decoder reads documents too (T-CN)."""
    with pytest.raises(DocumentError):
        documents.decode(octets)


@each_row(
    ("word", "meaning"),
    [("active", "active"), ("Active", "active"), ("SUSPENDED", "suspended"), ("Revoked", "retired"),
     ("retired", "retired"), ("Deprecated", "deprecated")],
)  # fmt: skip
def test_status_words_are_read_in_any_case(word: str, meaning: str) -> None:
    """AGTP-139, companion section 6.3: ``Revoked`` means ``retired``; lower case is served."""
    stated = document(status=word)
    assert documents.faults_of(stated) == []
    assert documents.status_of(stated) == meaning
    assert documents.build_served_copy(stated)["status"] == meaning


def test_an_unknown_role_is_an_agent_and_is_remarked() -> None:
    """AGTP-145: ``wizard`` behaves as agent, and the remark names it."""
    assert documents.role_of(document(role="wizard")) == "agent"
    assert any("'wizard'" in remark for remark in documents.remarks_on(document(role="wizard")))
    assert documents.role_of(document(role="merchant")) == "merchant"
    assert documents.role_of(document(role=["merchant"])) == "agent"
    assert documents.remarks_on(document()) == []


def test_declared_scopes_follow_the_companion() -> None:
    """Companion section 3: ``requires.scopes`` if present, even if empty, else ``scopes_accepted``."""
    assert documents.declared_scopes(document()) == {"documents:query", "booking:*"}
    assert documents.declared_scopes(document(requires={"scopes": ["a:b"]})) == {"a:b"}
    assert documents.declared_scopes(document(requires={"scopes": []})) == frozenset()
    assert documents.declared_scopes(document(requires={})) == {"documents:query", "booking:*"}


# Signature


def test_a_signature_covers_all_but_itself() -> None:
    """AGTP-148: Ed25519 over the canonical form without manifest_signature, the other two included."""
    covered = canonical({name: value for name, value in SIGNED.items() if name != "manifest_signature"})
    assert KEY.public.verify(encoding.decode(SIGNED["manifest_signature"]), covered)
    assert SIGNED["manifest_issuer_public_key"] == KEY.public.text
    assert documents.check_signature(SIGNED) == KEY.public


def test_an_unsigned_document_has_no_signer() -> None:
    """AGTP-151: unsigned is a state, not an error; so is one or two of the three members, with a remark."""
    assert documents.check_signature(document()) is None
    for name in documents.SIGNATURE_FIELDS:
        partial = {n: v for n, v in SIGNED.items() if n != name}
        assert documents.check_signature(partial) is None
        assert any("treated as unsigned" in remark for remark in documents.remarks_on(partial))


def altered(value: Any) -> Iterator[Any]:
    if isinstance(value, str):
        yield from (value[:place] + ("A" if mark != "A" else "B") + value[place + 1 :]
                    for place, mark in enumerate(value))  # fmt: skip
        yield value + " "
    elif isinstance(value, list):
        yield from ([*value, "x"], value[1:], value[::-1] if len(value) > 1 else ["x"])
    elif isinstance(value, (int, float)):
        yield value / 2


def test_no_altered_document_is_accepted() -> None:
    """T-GN for documents: every member changed, added or removed under a signature: 0 accepted."""
    count = 0
    for name, value in SIGNED.items():
        variants = [{**SIGNED, name: other} for other in altered(value)]
        if name not in documents.SIGNATURE_FIELDS:
            variants.append({n: v for n, v in SIGNED.items() if n != name})
        for variant in [*variants, {**SIGNED, f"{name}_": value}]:
            count += 1
            with pytest.raises(DocumentError):
                documents.check_signature(variant)
    assert count > 300
    assert documents.check_signature(json.loads(json.dumps(SIGNED))) == KEY.public  # The control.


@each_row(
    ("name", "value"),
    [
        ("manifest_issuer", 1),
        ("manifest_issuer_public_key", "AAAA"),
        ("manifest_issuer_public_key", []),
        ("manifest_signature", "=="),
        ("manifest_signature", 7),
        ("manifest_signature", ""),
    ],
)
def test_an_unreadable_signature_is_a_failed_one(name: str, value: Any) -> None:
    """All three members present means signed: what cannot be verified must not be served (core v08 section 6.3.5)."""
    with pytest.raises(DocumentError, match="manifest_"):
        documents.check_signature({**SIGNED, name: value})


def test_the_registrar_drops_what_the_caller_put_there() -> None:
    """AGTP-150: forged signature members leave no trace in the registrar's output."""
    forged = dict.fromkeys(documents.SIGNATURE_FIELDS, "forged")
    assert documents.sign({**document(), **forged}, ISSUER, KEY) == SIGNED


def test_a_faulty_document_is_not_signed() -> None:
    """The registrar signs nothing that a host would refuse."""
    with pytest.raises(DocumentError, match="trust_score"):
        documents.sign({**document(), "trust_score": 7}, ISSUER, KEY)


def test_the_escaped_form_is_verified_not_made() -> None:
    """Companion section 1.4: a signature over the escaped form verifies; ours covers raw UTF-8."""
    members = {**document(), "manifest_issuer": ISSUER, "manifest_issuer_public_key": KEY.public.pem.decode()}
    covered = json.dumps(members, sort_keys=True, separators=(",", ":")).encode()
    members["manifest_signature"] = encoding.encode(KEY.sign(covered)).decode()
    assert documents.check_signature(members) == KEY.public
    assert covered != canonical(members)


# Served form


def test_what_is_served_unchanged_stays_signed() -> None:
    """A signed document in its own state goes out exactly as the registrar signed it."""
    served = documents.build_served_copy(SIGNED)
    assert served == SIGNED
    assert documents.check_signature(served) == KEY.public


@each_row(
    "changes",
    [
        {"status": "suspended"},
        {"status": "Retired"},
        {"updated_at": "2026-06-01T00:00:00Z"},
        {"methods": ["BOOK"]},
        {"members": {"trust_tier": 2}},
    ],
)
def test_a_changed_copy_goes_out_without_the_signature(changes: dict[str, Any]) -> None:
    """Companion section 3.3: overlaid state drops the three signature members, and never fails them."""
    served = documents.build_served_copy(SIGNED, **changes)
    assert not set(documents.SIGNATURE_FIELDS) & served.keys()
    assert documents.check_signature(served) is None
    assert documents.faults_of(served) == []


def test_an_older_update_does_not_turn_the_clock_back() -> None:
    """updated_at never moves before what the document says (AGTP-138)."""
    assert documents.build_served_copy(SIGNED, updated_at="2026-05-01T00:00:00Z") == SIGNED


def test_methods_always_include_the_floor() -> None:
    """AGTP-140: the served list is a superset of the eighteen, whatever the document says."""
    short = document(methods=["BOOK"])
    assert documents.build_served_copy(short)["methods"] == ["BOOK", *FLOOR]
    assert len(set(FLOOR)) == 18
    assert any("methods lacks" in remark for remark in documents.remarks_on(short))


REFERENCE: dict[str, Any] = {
    "agtp_version": "1.0",
    "document_version": "v2",
    "agent_id": "cd" * 32,
    "name": "desk",
    "principal": "acme.tld",
    "issued_at": "2026-05-01T09:00:00Z",
    "skills": [{"name": "rooms"}, "desks", {"id": 1}, 7],
    "requires": {"methods": ["BOOK"], "scopes": ["booking:room"], "wildcards": False},
    "policies": {},
}


def test_the_shape_of_deployed_implementations_is_served_in_the_core_shape() -> None:
    """Companion section 3: ``v2`` documents get the sixteen members and no further scope."""
    shaped = documents.core_shape(REFERENCE)
    assert documents.faults_of(shaped) == []
    assert shaped["document_type"] == "agtp-identity"
    assert shaped["methods"][-1] == "BOOK"
    assert shaped["capabilities"] == ["rooms", "desks"]
    assert shaped["updated_at"] == REFERENCE["issued_at"]
    assert documents.declared_scopes(shaped) == {"booking:room"} == set(shaped["scopes_accepted"])
    assert documents.build_served_copy(REFERENCE) == shaped


def test_its_first_version_lists_methods_as_capabilities() -> None:
    """Companion section 3: ``v1`` used ``capabilities`` for what is ``methods`` now."""
    first = {**REFERENCE, "document_version": "v1", "capabilities": ["BOOK"]}
    del first["requires"], first["skills"]
    shaped = documents.core_shape(first)
    assert "BOOK" in shaped["methods"]
    assert shaped["capabilities"] == []
    assert documents.declared_scopes(shaped) == frozenset()


@each_row("junk", [7, "x", [1], {"a": 1}, [None], True])
def test_junk_in_that_shape_never_breaks_the_reader(junk: Any) -> None:
    """Whatever the members hold, the answer is a list of faults."""
    for name in (*REFERENCE, "capabilities", "scopes_accepted", "owner_id"):
        for version in ("v1", "v2"):
            shaped = documents.core_shape({**REFERENCE, "document_version": version, name: junk})
            assert isinstance(documents.faults_of(shaped), list)


def test_a_core_document_without_its_type_is_not_taken_for_the_other_shape() -> None:
    """AGTP-136: only the version mark of that shape makes it that shape."""
    lacking = document(document_type=None)
    assert not documents.is_reference_shape(lacking)
    assert documents.core_shape(lacking) == lacking
