"""Resolution of every form of URI, and the checks that an answer is put to: core v08 sections 6.1, 6.2 and 10.2."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from agtphost.client.call_flow import run_to_end
from agtphost.client.errors import CannotConnect, InvalidCall, VerificationFailed
from agtphost.client.location import Ask, locating, question, redirected_to
from agtphost.client.reply import Reply
from agtphost.client.resolution import Resolution, TrustPolicy, check_fresh, check_namespace, verifying
from agtphost.identity import detached, documents, jws
from agtphost.identity.canonical import canonical
from agtphost.identity.encoding import encode
from agtphost.identity.genesis import Genesis
from agtphost.identity.keys import SigningKey
from agtphost.identity.manifest_signature import sign_manifest
from agtphost.identity.trust import TrustedIssuers
from agtphost.vocabulary.uris import AgtpUri, Form, parse
from agtphost.wire.headers import Headers
from tests.identity.samples import document, genesis_octets, key_of
from tests.rows import each_row

HOST = key_of("host")
REGISTRAR = key_of("registrar")
STRANGER = key_of("stranger")
ORIGIN = genesis_octets(REGISTRAR)
AGENT = Genesis.load(ORIGIN).agent_id
OTHER = "cd" * 32
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp()
IDENTITY = documents.sign(document(agent_id=AGENT), "registrar.acme.tld", REGISTRAR)


def reply(body: Any, status: int = 200, signer: SigningKey | None = HOST, **headers: str) -> Reply:
    """An answer, with its document's signature."""
    octets = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
    if signer is not None:
        fields.append((detached.HEADER, detached.sign(octets, signer)))
    return Reply(status=status, text="", headers=Headers(fields), body=octets, request_line=b"")


def manifest() -> dict[str, Any]:
    """A server's manifest."""
    keys = [{"kid": HOST.kid, "alg": "EdDSA", "key": HOST.public.text}]
    found: dict[str, Any] = {"server": {"server_id": "h", "signing_keys": keys}}
    header = jws.protected_header(HOST, jws.MANIFEST_TYPE)
    return {**found, "manifest_signature": jws.compact(header, canonical(found), HOST)}


class Scripted:
    """Hosts that answer from a table, and a list of what they were asked."""

    def __init__(
        self, answers: Mapping[str, Any] | None = None, *, genesis: Any = ORIGIN, identity: Any = IDENTITY
    ) -> None:
        self.answers = dict(answers or {})
        self.asked: list[str] = []
        self.identity, self.genesis = identity, genesis

    async def __call__(self, ask: Ask) -> Reply:
        place = f"{ask.method} {ask.uri}"
        self.asked.append(place)
        for part, answer in self.answers.items():
            if part in place:
                found = answer.pop(0) if isinstance(answer, list) else answer
                if isinstance(found, Exception):
                    raise found
                assert isinstance(found, Reply)
                return found
        if ask.method == "DISCOVER":
            assert ask.anonymous
            return reply(manifest())
        return reply(self.genesis if "format=certificate" in place else self.identity)


def resolve(uri: str, scripted: Scripted, *hosts: str, format: str | None = None, **policy: Any) -> Resolution:
    """Every check of a URI."""
    looking = [parse(host) for host in hosts]
    asked = question(uri, format)
    return run_to_end(verifying(scripted, asked, looking, TrustPolicy(**policy), lambda uri: uri, lambda: NOW))


def failed(found: Resolution) -> set[str]:
    """The names of the checks that failed."""
    return {check.name for check in found.failures}


# Finding


@each_row(
    ("uri", "first"),
    [
        (f"agtp://{AGENT}", f"DESCRIBE agtp://{AGENT}@first.test"),
        (f"agtp://{AGENT}@h.test:99", f"DESCRIBE agtp://{AGENT}@h.test:99"),
        ("agtp://127.0.0.1:99", "DISCOVER agtp://127.0.0.1:99"),
        ("agtp://[::1]", "DISCOVER agtp://[::1]"),
        ("agtp://acme.tld", "DISCOVER agtp://acme.tld"),
        ("agtp://acme.tld/agents/desk", "DESCRIBE agtp://acme.tld/agents/desk"),
        ("agtp://agtp.acme.tld/agents/desk", "DESCRIBE agtp://agtp.acme.tld/agents/desk"),
    ],
)
def test_every_form_is_resolved(uri: str, first: str) -> None:
    """AGTP-097, 098, 100, 101, 102, 121: what is asked, and that everything about the answer holds."""
    scripted = Scripted()
    found = resolve(uri, scripted, "agtp://first.test")
    assert scripted.asked[0] == first
    assert found.ok, found.failures
    agent = parse(uri).form not in (Form.SERVER, Form.DOMAIN)
    assert (found.agent_id == AGENT) is agent


def test_an_agent_id_needs_somewhere_to_ask() -> None:
    """AGTP-097: Form 1 without a resolver is an error that says what to write."""
    with pytest.raises(InvalidCall, match="resolver"):
        run_to_end(locating(Scripted(), question(f"agtp://{AGENT}", None), ()))


def test_hosts_are_asked_in_turn() -> None:
    """AGTP-097: one that cannot be reached, one that does not know, one that lies, one that knows."""
    scripted = Scripted(
        {
            "@a.test": CannotConnect("no"),
            "@b.test": reply({"reason": "agent-not-hosted"}, 404),
            "@c.test": reply({**IDENTITY, "agent_id": OTHER}),
        }
    )
    hosts = [parse(f"agtp://{name}.test") for name in "abcd"]
    found = run_to_end(locating(scripted, question(f"agtp://{AGENT}", None), hosts))
    assert found.uri.host == "d.test"
    with pytest.raises(VerificationFailed, match=OTHER):
        run_to_end(locating(scripted, question(f"agtp://{AGENT}", None), hosts[:3]))
    assert run_to_end(locating(scripted, question(f"agtp://{AGENT}", None), hosts[:2])).reply.status == 404
    with pytest.raises(CannotConnect):
        run_to_end(locating(scripted, question(f"agtp://{AGENT}", None), hosts[:1]))


@pytest.mark.parametrize("member", ["agent_id", "canonical_id"])
def test_another_agents_document_is_refused(member: str) -> None:
    """AGTP-099: the host in a Form 1a URI is a hint, and proves nothing."""
    scripted = Scripted({f"{AGENT}@h.test": reply({member: OTHER})})
    with pytest.raises(VerificationFailed, match=OTHER):
        resolve(f"agtp://{AGENT}@h.test", scripted)


@each_row(
    ("uri", "location", "target"),
    [
        ("agtp://acme.tld/agents/a", "/agents/b", "agtp://acme.tld/agents/b"),
        ("agtp://acme.tld/agents/a?format=json", "/agents/b", "agtp://acme.tld/agents/b?format=json"),
        ("agtp://acme.tld/agents/a", "agtp://agtp.acme.tld/agents/a", "agtp://agtp.acme.tld/agents/a"),
        ("agtp://acme.tld/agents", "agtp://agtp.acme.tld/agents", "agtp://agtp.acme.tld/agents"),
        (f"agtp://{AGENT}@acme.tld", f"agtp://agtp.acme.tld/agents/{AGENT}", f"agtp://{AGENT}@agtp.acme.tld"),
    ],
)
def test_redirects_within_the_authority_are_followed(uri: str, location: str, target: str) -> None:
    """AGTP-109, AGTP-123: once, and the query goes along."""
    assert str(redirected_to(parse(uri), location)) == target


@each_row(
    "location",
    [None, "", "agtp://evil.tld/agents/a", "agtp://acme.tld.evil.tld/agents/a", "https://acme.tld/agents/a",
     "agtp://xagtp.acme.tld/agents/a", "/agents/../x", "/agents/a.agent", "agtp://agtp.acme.agent/agents/a", "//x"],
)  # fmt: skip
def test_other_redirects_are_refused(location: str | None) -> None:
    """A redirect to another authority, or to nothing, ends the resolution."""
    with pytest.raises(VerificationFailed):
        redirected_to(parse("agtp://acme.tld/agents/a"), location)
    with pytest.raises(VerificationFailed):
        redirected_to(parse(f"agtp://{AGENT}@acme.tld"), f"agtp://acme.tld/agents/{OTHER}")


def test_a_second_redirect_is_refused() -> None:
    """No chains, and no circles."""
    moved = reply({}, 301, location="/agents/desk")
    with pytest.raises(VerificationFailed, match="second"):
        resolve("agtp://acme.tld/agents/a", Scripted({"DESCRIBE": moved}))
    scripted = Scripted({"agents/a": moved})
    assert str(resolve("agtp://acme.tld/agents/a", scripted).located) == "agtp://acme.tld/agents/desk"


def test_a_refusal_is_a_failed_check() -> None:
    """AGTP-107, AGTP-117, AGTP-118: what the host answers is told."""
    found = resolve("agtp://acme.tld/agents/x", Scripted({"DESCRIBE": reply({"reason": "agent-retired"}, 410)}))
    assert failed(found) == {"resolved"} and "410" in found.failures[0].detail


# Checking


def test_the_four_steps_of_level_two() -> None:
    """AGTP-310: resolve, verify the signature, match the Agent-ID to the Genesis, read the scopes."""
    found = resolve(f"agtp://{AGENT}@h.test", Scripted())
    names = [check.name for check in found.checks]
    assert names == ["resolved", "signature", "document", "genesis", "issuer", "scopes"]
    assert found.ok and not found.trusted
    assert found.scopes == {"documents:query", "booking:*"}
    assert found.genesis is not None and found.genesis.agent_id == AGENT


FORGED_GENESIS = genesis_octets(STRANGER)
EDITED_GENESIS = ORIGIN.replace(b"executor", b"analyst")


@each_row(
    ("scripted", "names"),
    [
        (Scripted(identity={**IDENTITY, "description": "edited"}), {"document"}),
        (Scripted({"DESCRIBE": reply(IDENTITY, signer=None)}), {"signature", "genesis", "issuer"}),
        (Scripted({"@h.test?": reply(ORIGIN), "DESCRIBE": reply(IDENTITY, signer=STRANGER)}), {"signature"}),
        (Scripted(genesis=EDITED_GENESIS), {"genesis", "issuer"}),
        (Scripted({"format=certificate": reply({}, 404)}), {"genesis", "issuer"}),
        (Scripted({"format=certificate": CannotConnect("no")}), {"genesis", "issuer"}),
        (Scripted(identity=document(agent_id=AGENT, scopes_accepted=["payments:purchase"])), {"scopes"}),
    ],
)
def test_each_fault_is_named(scripted: Scripted, names: set[str]) -> None:
    """AGTP-134, AGTP-148, AGTP-162, API-044: an altered or forged part fails its own check."""
    assert names <= failed(resolve(f"agtp://{AGENT}@h.test", scripted))


def test_a_genesis_of_another_agent_is_an_id_mismatch() -> None:
    """API-044: the Agent-ID is the hash of the Genesis, or it is somebody else's."""
    found = resolve(f"agtp://{AGENT}@h.test", Scripted({"format=certificate": reply({"agent_id": AGENT})}))
    assert "genesis" in failed(found)
    alias = resolve("agtp://acme.tld/agents/desk", Scripted(genesis=FORGED_GENESIS))
    assert any("id mismatch" in check.detail for check in alias.failures)


@each_row(
    ("issuers", "trusted"),
    [
        (TrustedIssuers(everywhere=[REGISTRAR.public]), True),
        (TrustedIssuers(zones={"zone:acme": [REGISTRAR.public]}), True),
        (TrustedIssuers(zones={"*": [REGISTRAR.public]}), True),
        (TrustedIssuers(everywhere=[STRANGER.public]), False),
        (TrustedIssuers(zones={"zone:else": [REGISTRAR.public]}), False),
        (TrustedIssuers(zones={"zone:acme": [STRANGER.public], "*": [REGISTRAR.public]}), False),
    ],
)
def test_a_signature_alone_is_no_trust(issuers: TrustedIssuers, trusted: bool) -> None:
    """AGTP-149, API-044: who issued has to be trusted for the agent's zone; otherwise: untrusted issuer."""
    found = resolve(f"agtp://{AGENT}@h.test", Scripted(), issuers=issuers)
    assert (found.trusted, found.ok) == (trusted, trusted)
    assert trusted or "untrusted issuer" in found.failures[0].detail


@each_row("form", ["yaml", "html", "certificate", "status"])
def test_other_formats_are_checked_by_their_signature(form: str) -> None:
    """AGTP-116: every variant is signed, and the signature is looked at."""
    body = {"canonical_id": AGENT} if form == "status" else ORIGIN
    good = Scripted({f"format={form}": reply(body)})
    assert resolve(f"agtp://{AGENT}@h.test", good, format=form).ok
    bad = Scripted({"format=certificate": reply(ORIGIN), f"format={form}": reply(body, signer=STRANGER)})
    assert failed(resolve(f"agtp://{AGENT}@h.test", bad, format=form)) == {"signature"}


@pytest.mark.parametrize("form", ["yaml", "html", "certificate"])
def test_what_a_page_shows_is_put_to_every_check(form: str) -> None:
    """AGTP-149, AGTP-155: a page, YAML and the Genesis need the trusted registrar as the document does."""
    page = {} if form == "certificate" else {f"format={form}": reply(b"<p>Tier 1: verified</p>")}
    mine, other = (TrustedIssuers(everywhere=[key.public]) for key in (REGISTRAR, STRANGER))
    uri = f"agtp://{AGENT}@h.test"
    found = resolve(uri, Scripted(page), format=form, issuers=mine)
    assert found.ok and found.trusted
    assert found.document["agent_id"] == AGENT
    assert failed(resolve(uri, Scripted(page), format=form, issuers=other)) == {"issuer"}
    assert "genesis" in failed(resolve(uri, Scripted(page, genesis=EDITED_GENESIS), format=form))
    if form != "certificate":
        edited = Scripted(page, identity={**IDENTITY, "description": "edited"})
        assert "document" in failed(resolve(uri, edited, format=form))
        with pytest.raises(VerificationFailed):
            resolve(uri, Scripted(page, identity=documents.sign(document(agent_id=OTHER), "r", REGISTRAR)), format=form)


# The namespace


def namespace(generated_at: str = "2026-06-01T11:58:00Z", key: SigningKey = HOST, **changes: Any) -> dict[str, Any]:
    """A signed Namespace Document."""
    found = {"document_type": "agtp-namespace", "generated_at": generated_at, "agents": [], **changes}
    value = encode(key.sign(canonical(found))).decode()
    return {**found, "signature": {"algorithm": "EdDSA", "key_id": HOST.kid, "value": value}}


def test_a_namespace_is_believed() -> None:
    """AGTP-122, AGTP-134: signed by the host's key, and of this moment."""
    found = resolve("agtp://acme.tld/agents", Scripted(identity=namespace()))
    assert found.ok, found.failures
    assert [check.name for check in found.checks] == ["resolved", "signature", "namespace", "freshness"]


@each_row(
    "altered",
    [
        {**namespace(), "generated_at": "2026-06-01T11:59:00Z"},
        {**namespace(), "agents": [{"agent_label": "more"}]},
        {**namespace(), "more": 1},
        namespace(key=STRANGER),
        {**namespace(), "signature": None},
        {**namespace(), "signature": {**namespace()["signature"], "algorithm": "none"}},
        {**namespace(), "signature": {**namespace()["signature"], "key_id": "another"}},
        {**namespace(), "signature": {**namespace()["signature"], "value": "???"}},
        namespace(document_type="agtp-identity"),
    ],
)
def test_an_altered_namespace_is_refused(altered: dict[str, Any]) -> None:
    """AGTP-134: the signature covers all of it."""
    assert not check_namespace(altered, {HOST.kid: HOST.public}).ok
    assert "namespace" in failed(resolve("agtp://acme.tld/agents", Scripted(identity=altered)))


@pytest.mark.parametrize(("until", "ok"), [("2026-06-01T12:00:00Z", True), ("2026-06-01T11:59:59Z", False)])
def test_an_earlier_key_of_the_host_signs_no_document_of_now(until: str, ok: bool) -> None:
    """It is published for earlier records: whoever got hold of it after its ``not_after`` forges no namespace."""
    old = {"kid": HOST.kid, "alg": "EdDSA", "key": HOST.public.text, "not_after": until}
    present = {"kid": STRANGER.kid, "alg": "EdDSA", "key": STRANGER.public.text}
    found: dict[str, Any] = {"server": {"server_id": "h", "signing_keys": [present, old]}}
    header = jws.protected_header(STRANGER, jws.MANIFEST_TYPE)
    signed = {**found, "manifest_signature": jws.compact(header, canonical(found), STRANGER)}
    scripted = Scripted({"DISCOVER": reply(signed)}, identity=namespace())
    assert resolve("agtp://acme.tld/agents", scripted).ok is ok


def test_a_stale_namespace_is_asked_for_again() -> None:
    """AGTP-135: older than 300 seconds is refused and asked for once more; the threshold is configurable."""
    stale, fresh = namespace("2026-06-01T11:50:00Z"), namespace()
    scripted = Scripted({"DESCRIBE": [reply(stale), reply(fresh)]})
    assert resolve("agtp://acme.tld/agents", scripted).ok
    again = Scripted({"DESCRIBE": [reply(stale), reply(stale)]})
    found = resolve("agtp://acme.tld/agents", again)
    assert failed(found) == {"freshness"}
    assert sum("DESCRIBE" in place for place in again.asked) == 2
    assert resolve("agtp://acme.tld/agents", Scripted(identity=stale), freshness=900).ok


@each_row(
    ("made", "ok"),
    [
        ("2026-06-01T11:55:00Z", True),
        ("2026-06-01T11:54:59Z", False),
        ("2026-06-01T12:00:59Z", True),
        ("2026-06-01T12:02:00Z", False),
        ("2026-06-01", False),
        (None, False),
        (17, False),
    ],
)
def test_freshness_has_exact_bounds(made: Any, ok: bool) -> None:
    """AGTP-135: 300 seconds back, and a clock's difference ahead."""
    assert check_fresh({"generated_at": made}, NOW, 300.0).ok is ok


def test_the_question_keeps_the_rest_of_the_query() -> None:
    """``format`` replaces the one in the URI, and nothing else."""
    asked = question("agtp://acme.tld/agents/desk?x=1&format=json", "yaml")
    assert (asked.uri.query, asked.method) == ("x=1&format=yaml", "DESCRIBE")
    assert question(AgtpUri(form=Form.SERVER, host="h"), None).anonymous


def manifest_parts(broken: int | None = None) -> list[dict[str, Any]]:
    """A manifest in three signed parts, one of them altered behind its signature where one is named."""
    about = {"of": 3, "endpoints": 3}
    found = []
    for number in (1, 2, 3):
        more = {} if number == 3 else {"next": f"token-{number + 1}"}
        endpoint = {"method": "QUERY", "path": f"/p{number}", "input_schema": {}, "output_schema": {}}
        part = {"server": manifest()["server"], "endpoints": [endpoint], "parts": {"number": number, **about, **more}}
        part = sign_manifest({**part, "document_version": "1"}, HOST)
        found.append({**part, **({"x": 1} if number == broken else {})})
    return found


@each_row(("broken", "status", "ok"), [(None, 200, True), (2, 200, False), (None, 422, False)])
def test_every_part_of_a_manifest_is_read_and_checked(broken: int | None, status: int, ok: bool) -> None:
    """The endpoints are those of all parts; one part that is altered or refused counts for all."""
    parts, asked = manifest_parts(broken), list[str]()

    async def answer(ask: Ask) -> Reply:
        asked.append(ask.part)
        number = int(ask.part[-1]) if ask.part else 1
        return reply(parts[number - 1], status=status if number == 3 else 200, signer=None)

    uri = parse("agtp://agents.acme.tld")
    policy = TrustPolicy(keys={HOST.kid: HOST.public})
    found = run_to_end(verifying(answer, question(uri, None), (), policy, lambda place: place, lambda: NOW))
    assert (found.ok, asked) == (ok, ["", "token-2", "token-3"])
    if status == 200:
        assert [each["path"] for each in found.document["endpoints"]] == ["/p1", "/p2", "/p3"]
        assert found.parts == 3 and "parts" not in found.document
