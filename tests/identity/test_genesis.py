"""The Agent Genesis: nothing altered is accepted (T-GN), nothing ambiguous is hashed (T-CN)."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from agtphost.identity import encoding, genesis
from agtphost.identity.genesis import Genesis, GenesisError
from agtphost.identity.keys import SigningKey
from tests.identity.samples import genesis_octets, key_of, reference_genesis, resign
from tests.rows import each_row

KEY = key_of("genesis key")
OCTETS = genesis_octets(KEY)
MEMBERS: dict[str, Any] = json.loads(OCTETS)


def dump(members: Any) -> bytes:
    return json.dumps(members, ensure_ascii=False).encode()


def other_values(value: Any) -> Iterator[Any]:
    """Values near ``value``, none of them equal to it."""
    yield None
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, 0, -value, str(value), True, [value])
    elif isinstance(value, str):
        yield from ("", value + "x", value[:-1], value.upper(), " " + value, value + "\n", [value], 1, {})
        yield from (value[:place] + ("A" if mark != "A" else "B") + value[place + 1 :]
                    for place, mark in enumerate(value))  # fmt: skip
    elif isinstance(value, list):
        yield from ([], [*value, "payments:purchase"], value[:-1], value[::-1], "documents:query", [1])
        for place, item in enumerate(value):
            for other in other_values(item):
                yield [*value[:place], other, *value[place + 1 :]]


def mutations(members: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, value in members.items():
        yield f"without {name}", {n: v for n, v in members.items() if n != name}
        for other in other_values(value):
            if other != value or type(other) is not type(value):
                yield f"{name}={other!r}", {**members, name: other}
    yield "with a further member", {**members, "role": "merchant"}
    yield "with an extra owner", {**members, "Owner": members["owner_id"]}


def test_a_genesis_loads_with_everything_it_says() -> None:
    """AGTP-160, AGTP-168: each member is there for the runtime, the Agent-ID is computed."""
    loaded = Genesis.load(OCTETS)
    assert loaded.octets == OCTETS
    assert loaded.agent_id == MEMBERS["agent_id"]
    assert (loaded.owner, loaded.owner_id) == ("Jürgen & Søn", "acme.tld")
    assert (loaded.trust_tier, loaded.verification_path) == (2, "org-asserted")
    assert loaded.scopes == {"documents:query", "booking:*"}
    assert (loaded.archetype, loaded.governance_zone) == ("executor", "zone:acme")
    assert loaded.issuer_key == KEY.public
    assert loaded.issuer_fingerprint == hashlib.sha256(KEY.public.raw).hexdigest()
    assert not loaded.self_signed
    assert loaded.notes == ()


def test_the_agent_id_is_the_hash_without_three_members() -> None:
    """AGTP-162: sha256 of RFC 8785 without signature, agent_id and log_inclusion_proof."""
    covered = {name: value for name, value in MEMBERS.items() if name not in ("signature", "agent_id")}
    assert MEMBERS["agent_id"] == hashlib.sha256(rfc8785.dumps(covered)).hexdigest()
    assert MEMBERS["agent_id"] == genesis.agent_id_of(MEMBERS)
    assert KEY.public.verify(encoding.decode(MEMBERS["signature"]), rfc8785.dumps(covered))


def test_layout_does_not_matter() -> None:
    """AGTP-164: order and white space change nothing, escapes of the same characters change nothing."""
    backwards = dict(reversed(MEMBERS.items()))
    for text in (dump(backwards), json.dumps(MEMBERS, indent=3).encode(), dump(MEMBERS) + b"\n"):
        loaded = Genesis.load(text)
        assert (loaded.agent_id, loaded.octets) == (MEMBERS["agent_id"], text)


def test_no_altered_genesis_is_accepted() -> None:
    """T-GN-1..40: every member removed, replaced and changed in every character: 0 accepted."""
    accepted = []
    count = 0
    for what, members in mutations(MEMBERS):
        count += 1
        try:
            Genesis.load(dump(members))
        except GenesisError:
            continue
        accepted.append(what)
    assert accepted == []
    assert count > 400


def test_the_control_accepts_what_it_should() -> None:
    """The control: the unaltered members, dumped the same way, load."""
    assert Genesis.load(dump(copy.deepcopy(MEMBERS))).agent_id == MEMBERS["agent_id"]


def test_a_new_hash_needs_a_new_signature() -> None:
    """An attacker who recomputes agent_id after a change still lacks the issuer's key."""
    members = {**MEMBERS, "scope": ["*:*"]}
    members["agent_id"] = genesis.agent_id_of(members)
    with pytest.raises(GenesisError, match="signature"):
        Genesis.load(dump(members))
    with pytest.raises(GenesisError, match="agent_id"):
        Genesis.load(dump({**MEMBERS, "scope": ["*:*"]}))


def test_a_genesis_under_another_key_is_another_agent() -> None:
    """Replacing issuer and signature makes a Genesis of another Agent-ID and issuer."""
    thief = SigningKey.generate()
    stolen = {**MEMBERS, "issuer_public_key": thief.public.text}
    loaded = Genesis.load(resign(thief, stolen))
    assert loaded.agent_id != MEMBERS["agent_id"]
    assert loaded.issuer_fingerprint != KEY.public.fingerprint


AMBIGUOUS: dict[str, bytes] = {
    "owner twice": OCTETS[:-1] + b',"owner":"thief"}',
    "owner twice, escaped": OCTETS[:-1] + b',"\\u006fwner":"thief"}',
    "agent_id twice": OCTETS[:-1] + b',"agent_id":"' + b"a" * 64 + b'"}',
    "signature twice": OCTETS[:-1] + b',"signature":""}',
    "a name twice inside a member": OCTETS[:-1] + b',"x":{"a":1,"a":2}}',
    "tier 2.0": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":2.0'),
    "tier 2e0": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":2e0'),
    "tier 20e-1": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":20e-1'),
    "tier 02": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":02'),
    "tier +2": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":+2'),
    "tier 0x2": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":0x2'),
    "tier true": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":true'),
    "tier text": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":"2"'),
    "tier null": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":null'),
    "tier in other digits": OCTETS.replace(b'"trust_tier":2', '"trust_tier":２'.encode()),
    "tier -0": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":-0'),
    "tier beyond 2**53": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":9007199254740994'),
    "tier of 5,000 digits": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":' + b"1" * 5000),
    "tier NaN": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":NaN'),
    "tier Infinity": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":Infinity'),
    "tier -Infinity": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":-Infinity'),
    "tier 1e400": OCTETS.replace(b'"trust_tier":2', b'"trust_tier":1e400'),
    "a further 1.5": OCTETS[:-1] + b',"x":1.5}',
    "a further -0": OCTETS[:-1] + b',"x":-0}',
    "a further -0.0": OCTETS[:-1] + b',"x":[-0.0]}',
    "a further 1E2": OCTETS[:-1] + b',"x":1E2}',
    "a lone high surrogate": OCTETS[:-1] + b',"x":"\\ud800"}',
    "a lone low surrogate": OCTETS[:-1] + b',"x":"\\udc00"}',
    "surrogates the wrong way round": OCTETS[:-1] + b',"x":"\\udc00\\ud800"}',
    "a lone surrogate in a name": OCTETS[:-1] + b',"\\uD800":1}',
    "a surrogate in UTF-8": OCTETS[:-1] + b',"x":"\xed\xa0\x80"}',
    "overlong UTF-8": OCTETS[:-1] + b',"x":"\xc0\xaf"}',
    "UTF-8 beyond Unicode": OCTETS[:-1] + b',"x":"\xf5\x80\x80\x80"}',
    "Latin-1": OCTETS.replace("ü".encode(), b"\xfc"),
    "a name outside ASCII": OCTETS[:-1] + ',"é":1}'.encode(),
    "the same name decomposed": OCTETS[:-1] + ',"e\u0301":1}'.encode(),
    "names whose order differs": OCTETS[:-1] + ',"\ue000":1,"\U00010000":2}'.encode(),
    "a deep name outside ASCII": OCTETS[:-1] + ',"x":[{"é":1}]}'.encode(),
    "a name with a space": OCTETS[:-1] + b',"owner ":"thief"}',
    "a name with a line feed": OCTETS[:-1] + b',"owner\\n":"thief"}',
    "a name with NUL": OCTETS[:-1] + b',"owner\\u0000":"thief"}',
    "an empty name": OCTETS[:-1] + b',"":"thief"}',
    "a fullwidth name": OCTETS[:-1] + ',"ｏwner":"thief"}'.encode(),
    "owner decomposed": OCTETS.replace("ü".encode(), "u\u0308".encode()),
    "owner with an invisible mark": OCTETS.replace("ü".encode(), "ü\u200b".encode()),
    "owner turned by bidi": OCTETS.replace("ü".encode(), "\u202eü".encode()),
    "a byte order mark": b"\xef\xbb\xbf" + OCTETS,
    "UTF-16": OCTETS.decode().encode("utf-16"),
    "UTF-32": OCTETS.decode().encode("utf-32-le"),
    "trailing comma": OCTETS[:-1] + b",}",
    "comment": OCTETS[:-1] + b"/* x */}",
    "single quotes": OCTETS.replace(b'"', b"'"),
    "two texts": OCTETS + OCTETS,
    "trailing NUL": OCTETS + b"\0",
    "raw line feed in a string": OCTETS.replace(b"zone:acme", b"zone:\nacme"),
    "raw tab in a string": OCTETS.replace(b"zone:acme", b"zone:\tacme"),
    "cut": OCTETS[:-1],
    "empty": b"",
    "array": b"[" + OCTETS + b"]",
    "string": json.dumps(OCTETS.decode()).encode(),
    "null": b"null",
    "nested 33 deep": OCTETS[:-1] + b',"x":' + b"[" * 33 + b"]" * 33 + b"}",
    "nested 100,000 deep": OCTETS[:-1] + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "half a million names": OCTETS[:-1] + b',"x":[' + b"{}," * 170_000 + b"{}]}",
    "too long": OCTETS + b" " * genesis.MAX_OCTETS,
}


@each_row("name", AMBIGUOUS)
def test_ambiguous_texts_are_refused(name: str) -> None:
    """T-CN-1..60: what two readers could take for two documents is refused with GenesisError."""
    assert AMBIGUOUS[name] != OCTETS
    with pytest.raises(GenesisError):
        Genesis.load(AMBIGUOUS[name])


def test_there_are_sixty_of_them() -> None:
    """The count that T-GN-1 to 40 ask for."""
    assert len(AMBIGUOUS) >= 60


@each_row(
    ("member", "message"),
    [
        (b'"x":1.5', "fraction"),
        (b'"x":-0', "-0"),
        (b'"x":{"a b":1}', "name"),
        ('"é":1'.encode(), "name"),
    ],
)
def test_ambiguity_is_refused_even_when_signed(member: bytes, message: str) -> None:
    """The reader refuses these for what they are, not because the hash fails."""
    members = json.loads(b"{" + member + b"}")
    signed = resign(KEY, {**MEMBERS, **members})
    with pytest.raises(GenesisError, match=message):
        Genesis.load(signed.replace(b'"x":0', b'"x":-0'))


def test_minus_zero_inside_text_is_text() -> None:
    """The look for -0 stays out of strings."""
    loaded = Genesis.load(genesis_octets(KEY, owner='say \\"-0\\", -0, "-0'))
    assert "-0" in loaded.owner


@each_row(
    "name",
    [
        *("agent_id", "owner", "archetype", "governance_zone", "scope", "issued_at", "issuer_public_key"),
        *("signature", "trust_tier"),
    ],
)
def test_each_required_member_is_required(name: str) -> None:
    """AGTP-160: a correctly signed Genesis that lacks one is refused, naming it."""
    with pytest.raises(GenesisError, match=f"{name}: it is missing"):
        Genesis.load(resign(KEY, MEMBERS, omit=(name,)))


@each_row(
    ("changes", "message"),
    [
        ({"archetype": "wizard"}, "archetype"),
        ({"trust_tier": 4}, "trust_tier"),
        ({"trust_tier": True}, "trust_tier"),
        ({"scope": ["Documents:Query"]}, "scope"),
        ({"scope": "documents:query"}, "scope"),
        ({"scope": ["a:b"] * 257}, "scope"),
        ({"issued_at": "yesterday"}, "issued_at"),
        ({"issued_at": "2026-05-01T09:00:00"}, "issued_at"),
        ({"issued_at": "2026-13-01T09:00:00Z"}, "issued_at"),
        ({"owner": ""}, "owner"),
        ({"owner": "a\r\nb"}, "owner"),
        ({"owner_id": "acme tld"}, "owner_id"),
        ({"trust_tier": 1}, "verification_path: tier 1"),
        ({"trust_tier": 1, "verification_path": None}, "verification_path: tier 1"),
        ({"verification_path": "log-anchored"}, "log_inclusion_proof"),
        ({"verification_path": "dns-anchored", "org_domain": None}, "org_domain"),
        ({"verification_path": "hybrid", "org_domain": None}, "org_domain"),
        ({"issuer_public_key": "AAAA"}, "issuer_public_key"),
    ],
)
def test_members_follow_their_rules(changes: dict[str, Any], message: str) -> None:
    """AGTP-160, 161, 169: a signature does not excuse a member that breaks its rule."""
    members = {name: value for name, value in {**MEMBERS, **changes}.items() if value is not None}
    with pytest.raises(GenesisError, match=message):
        Genesis.load(resign(KEY, members))


@each_row(
    "changes",
    [
        {"trust_tier": 1, "verification_path": "dns-anchored"},
        {"trust_tier": 1, "verification_path": "hybrid"},
        {"trust_tier": 1, "verification_path": "log-anchored", "log_inclusion_proof": {"leaf": 1}},
        {"trust_tier": 3},
        {"verification_path": "web5-anchored"},
        {"unknown": {"nested": ["kept", 1, None, True]}},
    ],
)
def test_allowed_variations_load(changes: dict[str, Any]) -> None:
    """AGTP-161, 169: every tier with its paths loads; unknown members are hashed and kept."""
    loaded = Genesis.load(resign(KEY, {**MEMBERS, **changes}))
    assert all(loaded.members[name] == value for name, value in changes.items())


def test_the_log_proof_may_come_later() -> None:
    """Companion conflict 2b: a proof added after issue leaves Agent-ID and signature as they were."""
    members = {**MEMBERS, "log_inclusion_proof": {"leaf-index": 7}}
    assert Genesis.load(dump(members)).agent_id == MEMBERS["agent_id"]


def test_a_narrower_exclusion_is_read_and_reported() -> None:
    """Companion conflict 2b: an issuer that hashed the proof is understood, and an operator is told."""
    members = {**MEMBERS, "log_inclusion_proof": {"leaf-index": 7}}
    covered = rfc8785.dumps({n: v for n, v in members.items() if n not in ("signature", "agent_id")})
    members["agent_id"] = hashlib.sha256(covered).hexdigest()
    members["signature"] = encoding.encode(KEY.sign(covered)).decode()
    loaded = Genesis.load(dump(members))
    assert loaded.agent_id == members["agent_id"]
    assert "leaves out signature and agent_id only" in loaded.notes[0]


def test_the_shape_of_deployed_implementations_is_read() -> None:
    """Companion section 2: PEM keys, no agent_id, the escaped form; read, hashed as it stands, reported."""
    members, covered = reference_genesis(KEY)
    loaded = Genesis.load(dump(members))
    assert loaded.agent_id == hashlib.sha256(covered).hexdigest()
    assert (loaded.owner_id, loaded.scopes, loaded.archetype) == ("acme.tld", frozenset(), None)
    assert loaded.self_signed
    assert loaded.issuer_key == KEY.public
    assert any("ascii-escaped" in note for note in loaded.notes)
    assert any("PEM" in note for note in loaded.notes)


def test_the_escaped_form_covers_its_own_octets_only() -> None:
    """Mutations of a Genesis of that shape are refused just the same."""
    members, _ = reference_genesis(KEY)
    del members["agent_public_key"]
    with pytest.raises(GenesisError):
        Genesis.load(dump(members))
    members, _ = reference_genesis(KEY)
    for name in members:
        for value in ("x", None, 1):
            with pytest.raises(GenesisError):
                Genesis.load(dump({**members, name: value}))


def test_issue_never_emits_pem_or_escapes() -> None:
    """Design decision 9: base64url keys and canonical JSON in raw UTF-8 go out."""
    assert rfc8785.dumps(MEMBERS) == OCTETS
    assert b"BEGIN" not in OCTETS
    assert "Jürgen".encode() in OCTETS
    assert MEMBERS["issuer_public_key"] == KEY.public.text
    assert MEMBERS["scope"] == ["booking:*", "documents:query"]


@each_row(
    "changes",
    [{"archetype": "wizard"}, {"scope": ["x"]}, {"trust_tier": 1}, {"owner": ""}, {"owner": "\ud800"}],
)
def test_issue_refuses_what_load_would(changes: dict[str, Any]) -> None:
    """Nothing is signed that could not be read."""
    with pytest.raises(GenesisError):
        genesis_octets(KEY, **changes)


def test_tier_1_is_signed_with_evidence_alone() -> None:
    """AGTP-327: the one function that signs a Genesis signs no Tier 1 that rests on nothing; a foreign one is noted."""
    with pytest.raises(GenesisError, match="evidence"):
        genesis_octets(KEY, trust_tier=1, verification_path="dns-anchored", evidence=None)
    claim = {**MEMBERS, "trust_tier": 1, "verification_path": "dns-anchored"}
    for evidence, noted in ((None, True), ("seen", True), ({"method": "none"}, True), ({"method": "dns"}, False)):
        omit = ("verification_evidence",) if evidence is None else ()
        notes = Genesis.load(resign(KEY, {**claim, "verification_evidence": evidence}, omit=omit)).notes
        assert any("claims tier 1" in note for note in notes) is noted


def test_self_signing_is_for_development() -> None:
    """AGTP-165: issuer key = agent key is marked, and not issued in production."""
    assert Genesis.load(genesis_octets(KEY, agent_key=KEY.public)).self_signed
    assert not Genesis.load(genesis_octets(KEY, agent_key=SigningKey.generate().public)).self_signed
    for changes in ({"agent_key": KEY.public}, {"verification_path": "self-signed"}):
        with pytest.raises(GenesisError, match="development"):
            genesis_octets(KEY, production=True, **changes)


def test_equal_agents_get_their_own_ids() -> None:
    """AGTP-171: the time of issue keeps two documents apart; the same document is the same agent."""
    assert Genesis.load(genesis_octets(KEY)).agent_id == MEMBERS["agent_id"]
    later = Genesis.load(genesis_octets(KEY, issued_at="2026-05-01T09:00:00.000001Z"))
    assert later.agent_id != MEMBERS["agent_id"]


@given(
    st.dictionaries(
        st.from_regex(r"x_[a-z]{1,8}", fullmatch=True),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1)
            | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=5,
        ),
        max_size=4,
    )
)  # fmt: skip
def test_any_further_members_survive_the_round_trip(further: dict[str, Any]) -> None:
    """T-CN round trip: issued, laid out anew and read back, a Genesis is the same agent."""
    octets = genesis_octets(KEY, members=further)
    members = json.loads(octets)
    loaded = Genesis.load(json.dumps(dict(reversed(members.items())), indent=1).encode())
    assert loaded.agent_id == members["agent_id"] == Genesis.load(octets).agent_id


@given(st.binary(max_size=300))
def test_no_octets_break_the_reader(octets: bytes) -> None:
    """Whatever arrives, the answer is GenesisError."""
    with pytest.raises(GenesisError):
        Genesis.load(octets)
