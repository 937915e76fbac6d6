"""Whether a record is noticed to be false, member by member: companion section 5."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agtphost.client import Reply, VerificationFailed, verification
from agtphost.client.reply import reply_of
from agtphost.client.verification import check_manifest, signing_keys_of
from agtphost.identity import jws
from agtphost.identity.canonical import canonical
from agtphost.identity.key_ring import KeyRing
from agtphost.identity.keys import SigningKey
from agtphost.vocabulary import jsontext
from agtphost.wire import Headers, Request
from tests.client.scripted_host import sealed
from tests.identity.samples import key_of
from tests.rows import each_row

KEY = key_of("verification key")
OTHER = key_of("verification other")
KEYS = {KEY.kid: KEY.public}
AGENT = "ab" * 32
REQUEST = Request(method="QUERY", path="/room", line=b"AGTP/1.0 QUERY /room\r\n", body=b'{"parameters":{}}')


def reply(key: SigningKey | None = KEY, **payload: Any) -> Reply:
    """A sealed reply to REQUEST."""
    response = sealed(REQUEST, key, {"rooms": 3}, **payload)
    return reply_of(response, line=REQUEST.line, body=REQUEST.body, agent_id=None, interims=0)


def with_header(original: Reply, name: str, value: str | None) -> Reply:
    """The reply with one field changed, or left out."""
    fields = [(key, text) for key, text in original.headers if key != name]
    return replace(original, headers=Headers(fields + ([] if value is None else [(name, value)])))


def failed(checked: Reply, **options: Any) -> set[str]:
    """The names of the checks that fail."""
    return {check.name for check in checked.verify(KEYS, **options).failures}


def with_record(original: Reply, text: str) -> Reply:
    """The reply with another record and the Audit-ID of that."""
    changed = with_header(original, "Attribution-Record", text)
    return with_header(changed, "Audit-ID", hashlib.sha256(text.encode()).hexdigest())


def flipped(text: str) -> str:
    """The record with one character of its payload changed."""
    head, payload, signature = text.split(".")
    middle = len(payload) // 2
    other = "A" if payload[middle] != "A" else "B"
    return ".".join((head, payload[:middle] + other + payload[middle + 1 :], signature))


def test_a_genuine_reply_passes_every_check() -> None:
    """The record of this exchange, signed by a known key, is verified; every check says so."""
    result = reply().verify(KEYS)
    assert result.ok and not result.failures
    assert [check.name for check in result.checks] == [
        "audit-id",
        "signature",
        "result-hash",
        "request-hash",
        "status",
        "server-id",
        "response-id",
    ]


def stripped() -> Reply:
    """Signed once, its signature now cut off."""
    return with_record(reply(), (reply().record or "").rpartition(".")[0] + ".")


TAMPERED: list[tuple[str, Callable[[], Reply], set[str]]] = [
    ("no record", lambda: with_header(reply(), "Attribution-Record", None), {"record"}),
    ("no Audit-ID", lambda: with_header(reply(), "Audit-ID", None), {"audit-id"}),
    ("another Audit-ID", lambda: with_header(reply(), "Audit-ID", "0" * 64), {"audit-id"}),
    ("upper case", lambda: with_header(reply(), "Audit-ID", (reply().audit_id or "").upper()), {"audit-id"}),
    ("another record's", lambda: with_header(reply(), "Audit-ID", reply(OTHER).audit_id), {"audit-id"}),
    ("another body", lambda: replace(reply(), body=b'{"result":{"rooms":4}}'), {"result-hash"}),
    ("no body", lambda: replace(reply(), body=b""), {"result-hash"}),
    ("another request body", lambda: replace(reply(), request_body=b"{}"), {"request-hash"}),
    ("another line", lambda: replace(reply(), request_line=b"AGTP/1.0 QUERY /\r\n"), {"request-hash"}),
    ("another status", lambda: replace(reply(), status=202), {"status"}),
    ("a status that is true", lambda: replace(reply(status=True), status=1), {"status"}),
    ("another Server-ID", lambda: with_header(reply(), "Server-ID", "evil"), {"server-id"}),
    ("no Server-ID", lambda: with_header(reply(), "Server-ID", None), {"server-id"}),
    ("another Response-ID", lambda: with_header(reply(), "Response-ID", "x"), {"response-id"}),
    ("another agent", lambda: replace(reply(agent_id="cd" * 32), agent_id=AGENT), {"agent-id"}),
    ("no hashes", lambda: reply(result_hash=None, request_hash=None), {"result-hash", "request-hash"}),
    ("an unknown key", lambda: reply(OTHER), {"signature"}),
    ("no signature", lambda: reply(None), {"signature"}),
    ("a flipped character", lambda: with_record(reply(), flipped(reply().record or "")), {"signature"}),
    ("not a JWS", lambda: with_record(reply(), "x.y"), {"signature"}),
    ("a stripped signature", stripped, {"signature"}),
]

CHANGES = [pytest.param(make, expected, id=name) for name, make, expected in TAMPERED]


@each_row(("make", "expected"), CHANGES)
def test_each_change_is_noticed(make: Callable[[], Reply], expected: set[str]) -> None:
    """Whatever is changed, the verification fails, and the check that is about it says so."""
    changed = make()
    assert not changed.verify(KEYS).ok
    assert expected <= failed(changed)


def test_only_what_was_changed_is_blamed() -> None:
    """A changed body or header fails its own check and no other."""
    assert failed(replace(reply(), body=b"x")) == {"result-hash"}
    assert failed(with_header(reply(), "Audit-ID", "0" * 64)) == {"audit-id"}


def test_a_verifier_that_trusts_the_header_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without the recomputation a false Audit-ID would pass."""
    false = with_header(reply(), "Audit-ID", "0" * 64)
    assert not false.verify(KEYS).ok
    monkeypatch.setattr(verification, "_audit_id", lambda *_: verification.Check(name="audit-id", ok=True, detail=""))
    assert false.verify(KEYS).ok


def test_an_unsigned_record_passes_only_where_allowed() -> None:
    """Development hosts have no key; the check then says that the record proves nothing."""
    unsigned = reply(None)
    result = unsigned.verify(KEYS, require_signature=False)
    assert result.ok
    assert "proves nothing" in result.checks[1].detail
    assert failed(replace(unsigned, body=b"x"), require_signature=False) == {"result-hash"}


def test_the_agent_of_the_uri_is_compared() -> None:
    """Form 1a: the record is the named agent's, or a server-level one without an agent (AGTP-099)."""
    assert replace(reply(agent_id=AGENT), agent_id=AGENT).verify(KEYS).ok
    assert replace(reply(agent_id=""), agent_id=AGENT).verify(KEYS).ok


def test_an_empty_body_has_the_hash_of_nothing() -> None:
    """A 204 is verified as any other response (companion section 5.3)."""
    nothing = hashlib.sha256(b"").hexdigest()
    assert replace(reply(result_hash=nothing), body=b"").verify(KEYS).ok


def test_details_are_safe_to_print() -> None:
    """What a hostile record says reaches a terminal escaped (HAIDIP-047)."""
    result = reply(server_id="\x1b[2J\u202eevil").verify(KEYS)
    text = " ".join(check.detail for check in result.checks)
    assert "\x1b" not in text and "\u202e" not in text


# The manifest's keys


def entry(signer: SigningKey = KEY, **members: object) -> dict[str, object]:
    """One published key; ``members`` replace its own."""
    return {"kid": signer.kid, "alg": "EdDSA", "key": signer.public.text, **members}


def manifest(*entries: object) -> dict[str, Any]:
    """A manifest that publishes ``entries``."""
    return {"server": {"signing_keys": list(entries)}}


def test_published_keys_are_read() -> None:
    """Every Ed25519 key counts by its kid; keys of other algorithms are passed over."""
    published = manifest(entry(), entry(OTHER), entry(kid="es", alg="ES256", key="?"))
    assert signing_keys_of(published) == {KEY.kid: KEY.public, OTHER.kid: OTHER.public}


@each_row(
    "published",
    [
        {},
        {"server": None},
        {"server": {"signing_keys": {}}},
        manifest(),
        manifest("x"),
        manifest(entry(kid=1)),
        manifest(entry(key="not a key")),
        manifest(entry(key="A" * 43)),
        manifest(entry(alg="none")),
        manifest(entry(), entry(OTHER, kid=KEY.kid)),
    ],
)
def test_unusable_keys_are_refused(published: dict[str, Any]) -> None:
    """No key, a malformed one, or two of one name: nothing is verified with that."""
    with pytest.raises(VerificationFailed):
        signing_keys_of(published)


def test_a_manifest_signature_is_checked() -> None:
    """A signed manifest verifies; a changed or unsigned one is flagged (API-081, API-082)."""
    document = {"agtp_version": "1.0", **manifest(entry())}
    header = jws.protected_header(KEY, jws.MANIFEST_TYPE)
    signature = jws.compact(header, canonical(document), KEY)
    assert check_manifest({**document, "manifest_signature": signature}, KEYS).ok
    assert not check_manifest({**document, "manifest_signature": None}, KEYS).ok
    assert not check_manifest({**document, "extra": 1, "manifest_signature": signature}, KEYS).ok
    assert not check_manifest({**document, "manifest_signature": signature}, {OTHER.kid: OTHER.public}).ok
    record = jws.compact(jws.protected_header(KEY), jsontext.encode(document), KEY)
    assert not check_manifest({**document, "manifest_signature": record}, KEYS).ok


def test_a_key_counts_until_the_end_of_its_use() -> None:
    """``not_after`` of a published key: what it signed later, and what says no time, fails as its signature does."""
    entry = {"kid": KEY.kid, "alg": "EdDSA", "key": KEY.public.text, "not_after": "2026-11-21T00:00:00Z"}
    published = {"server": {"signing_keys": [{"kid": OTHER.kid, "alg": "EdDSA", "key": OTHER.public.text}, entry]}}
    keys = signing_keys_of(published)
    assert isinstance(keys, KeyRing) and keys.in_use == [OTHER.public]
    for issued_at, ok in (
        ("2026-11-20T23:59:59.999Z", True),
        ("2026-11-21T00:00:00.000Z", True),
        ("2026-11-21T00:00:00.001Z", False),
        ("2027-01-01T00:00:00.000Z", False),
        ("2026-11-20", False),
        ("yesterday", False),
        (7, False),
        (None, False),
    ):
        result = reply(KEY, issued_at=issued_at).verify(keys)
        assert result.ok is ok, issued_at
        if not ok:
            assert [check.name for check in result.failures] == ["signature"]
            assert "2026-11-21T00:00:00Z" in result.failures[0].detail
    late = reply(OTHER, issued_at="2027-01-01T00:00:00.000Z")
    assert late.verify(keys).ok, "the control: the present key"


@each_row("moment", ["", "soon", "2026-11-21", "2026-11-21T00:00:00", 7, None, {}])
def test_an_end_that_is_no_time_is_refused(moment: object) -> None:
    """Nobody may read a malformed end as none."""
    entry = {"kid": KEY.kid, "alg": "EdDSA", "key": KEY.public.text, "not_after": moment}
    with pytest.raises(VerificationFailed, match="is not a time"):
        signing_keys_of({"server": {"signing_keys": [entry]}})
