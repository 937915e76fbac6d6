"""Trust posture: precedence, warnings, anchors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.identity import trust
from agtphost.identity.genesis import PATHS, Genesis
from agtphost.identity.keys import KeyFormatError, SigningKey, VerifyingKey
from agtphost.identity.trust import TrustedIssuers, resolve_posture, trusted_issuers
from tests.identity.samples import genesis_octets, key_of
from tests.rows import each_row

KEY = key_of("trust key")


def loaded(**changes: Any) -> Genesis:
    return Genesis.load(genesis_octets(KEY, **changes))


TIER_1 = loaded(trust_tier=1, verification_path="dns-anchored", members={"org_domain": "acme.tld"})
TIER_3 = loaded(trust_tier=3)


def test_explicit_then_genesis_then_default() -> None:
    """AGTP-143: each field has its own first hit."""
    explicit = resolve_posture({"trust_tier": 3, "verification_path": "hybrid", "owner_id": "stated"}, TIER_1)
    assert (explicit.trust_tier, explicit.verification_path, explicit.owner_id) == (3, "hybrid", "stated")
    lifted = resolve_posture({}, TIER_1)
    assert (lifted.trust_tier, lifted.verification_path, lifted.owner_id) == (1, "dns-anchored", "acme.tld")
    default = resolve_posture({}, None)
    assert (default.trust_tier, default.verification_path, default.owner_id) == (2, "org-asserted", None)
    mixed = resolve_posture({"owner_id": "stated"}, TIER_1)
    assert (mixed.trust_tier, mixed.owner_id) == (1, "stated")


def test_where_each_field_came_from_is_noted() -> None:
    """AGTP-TRUST section 3.6: what came from the Genesis or by default is there for the log at start."""
    assert resolve_posture({}, TIER_1).sources == (
        "trust_tier 1 from the Genesis",
        "verification_path dns-anchored from the Genesis",
        "owner_id acme.tld from the Genesis",
    )
    assert resolve_posture({}, None).sources == (
        "trust_tier 2 by default",
        "verification_path org-asserted by default",
    )
    assert any("outdoes" in note for note in resolve_posture({"trust_tier": 1}, TIER_3).notes)


@each_row(
    ("document", "warning"),
    [
        ({"trust_tier": 1}, None),
        ({"trust_tier": 3}, None),
        ({"trust_tier": 2}, "verification-incomplete"),
        ({}, "verification-incomplete"),
        ({"trust_tier": 2, "trust_warning": "under-review"}, "under-review"),
        ({"trust_tier": 1, "trust_warning": "under-review"}, "under-review"),
        ({"trust_tier": 1, "trust_score": 0.39}, "trust-score-degraded"),
        ({"trust_tier": 1, "trust_score": 0.4}, None),
        ({"trust_tier": 2, "trust_score": 0.1}, "verification-incomplete"),
        ({"trust_tier": 1, "verification_path": "web5"}, "verification-path-unsupported"),
        ({"trust_tier": 3, "verification_path": "web5"}, "verification-path-unsupported"),
    ],
)
def test_warnings(document: dict[str, Any], warning: str | None) -> None:
    """AGTP-147, AGTP-TRUST section 3.4 and 3.6.1: when a warning is set, and never without an explanation."""
    posture = resolve_posture(document, None)
    assert posture.trust_warning == warning
    assert (posture.trust_explanation is None) is (warning is None)
    assert ("trust_explanation" in posture.fields()) is (warning is not None)


def test_an_operators_explanation_is_kept() -> None:
    """What the document explains, this host does not explain anew."""
    stated = {"trust_tier": 2, "trust_explanation": "Audit pending."}
    assert resolve_posture(stated, None).trust_explanation == "Audit pending."


def test_unknown_paths_are_tier_2_at_best() -> None:
    """AGTP-TRUST section 3.4: a path this host cannot follow vouches for nothing; tier 3 does not rise by it."""
    assert resolve_posture({"trust_tier": 1, "verification_path": "web5"}, None).trust_tier == 2
    assert resolve_posture({"trust_tier": 3, "verification_path": "web5"}, None).trust_tier == 3


def test_self_signed_is_org_asserted() -> None:
    """Companion section 3.1: the value of deployed implementations is normalised."""
    assert resolve_posture({"verification_path": "self-signed"}, None).verification_path == "org-asserted"


def test_a_logged_genesis_without_log_is_tier_2() -> None:
    """Companion section 2: log-anchored without ``log_uri`` cannot be verified; with it, the tier stands."""
    proof = {"log_inclusion_proof": {"leaf": 1}}
    bare = loaded(trust_tier=1, verification_path="log-anchored", members=proof)
    full = loaded(trust_tier=1, verification_path="log-anchored", members={**proof, "log_uri": "https://log.example"})
    assert resolve_posture({}, bare).trust_tier == 2
    assert resolve_posture({}, bare).trust_warning == "verification-incomplete"
    assert resolve_posture({}, full).trust_tier == 1


def test_an_unvouched_issuer_caps_the_tier() -> None:
    """Companion section 4: with anchors configured and none matching, nothing is better than tier 2."""
    capped = resolve_posture({}, TIER_1, issuer_known=False)
    assert (capped.trust_tier, capped.trust_warning) == (2, "verification-incomplete")
    assert resolve_posture({}, TIER_3, issuer_known=False).trust_tier == 3


def test_contradictions_between_document_and_genesis() -> None:
    """AGTP-144: another path than the Genesis's is a fault, a normalised one is not."""
    assert "hybrid" in trust.contradiction({"verification_path": "hybrid"}, TIER_1)
    assert trust.contradiction({"verification_path": "dns-anchored"}, TIER_1) == ""
    assert trust.contradiction({}, TIER_1) == ""
    assert trust.contradiction({"verification_path": "hybrid"}, None) == ""
    assert trust.contradiction({"verification_path": "self-signed"}, TIER_3) == ""


def test_trusted_issuers_are_keys_or_files(tmp_path: Path) -> None:
    """Interface section 3: base64url text, or ``file:PATH`` relative to the configuration."""
    other = SigningKey.generate().public
    other.save(tmp_path / "issuer.pub")
    found = trust.issuer_keys([KEY.public.text, "file:issuer.pub"], tmp_path)
    assert found == {KEY.public, other}
    with pytest.raises(KeyFormatError):
        trust.issuer_keys(["not a key"], tmp_path)
    with pytest.raises(FileNotFoundError):
        trust.issuer_keys(["file:missing"], tmp_path)


# Registrars by zone, and precedence for any documents

HERE, THERE, ANYWHERE, EVERYWHERE = (key_of(name).public for name in ("here", "there", "anywhere", "everywhere"))
ISSUERS = TrustedIssuers(everywhere=[EVERYWHERE], zones={"zone:here": [HERE], "*": [ANYWHERE]})


@pytest.mark.parametrize(
    ("zone", "trusted"),
    [("zone:here", {HERE, EVERYWHERE}), ("zone:there", {ANYWHERE, EVERYWHERE}), (None, {ANYWHERE, EVERYWHERE})],
)
def test_each_zone_has_its_registrars(zone: str | None, trusted: set[VerifyingKey]) -> None:
    """AGTP-149: a zone with registrars of its own has no others; the default ones stand in elsewhere."""
    assert ISSUERS.keys_for(zone) == trusted
    assert not ISSUERS.knows(THERE, zone)


def test_issuers_are_read_from_what_is_configured(tmp_path: Path) -> None:
    """AGTP-149: keys in base64url and in files, by zone, and anchors."""
    (tmp_path / "k.pem").write_bytes(HERE.pem)
    found = trusted_issuers([], {"zone:here": ["file:k.pem"]}, tmp_path, anchored=[THERE.text], awaited=True)
    assert found.keys_for("zone:here") == {HERE, THERE}
    assert found.awaited and not TrustedIssuers()


_TIERS = st.none() | st.sampled_from([1, 2, 3])
_PATHS = st.none() | st.sampled_from(sorted(PATHS) + ["self-signed", "web5"])
_OWNERS = st.none() | st.sampled_from(["acme.tld", "else.tld"])


@given(
    tier=_TIERS, path=_PATHS, owner=_OWNERS, warning=st.none() | st.just("audit-pending"),
    score=st.floats(0, 1), origin=st.sampled_from([None, TIER_1, TIER_3]), known=st.booleans(),
)  # fmt: skip
def test_precedence_holds_for_every_document(
    tier: int | None, path: str | None, owner: str | None, warning: str | None, score: float,
    origin: Genesis | None, known: bool,
) -> None:  # fmt: skip
    """AGTP-143, AGTP-147: document, then Genesis, then default; never upwards; tier 2 always warns, and says why."""
    given_members = {"trust_tier": tier, "verification_path": path, "owner_id": owner, "trust_warning": warning}
    document = {name: value for name, value in given_members.items() if value is not None}
    posture = resolve_posture({**document, "trust_score": score}, origin, issuer_known=known)
    first = tier or (origin.trust_tier if origin is not None else 2)
    assert posture.trust_tier >= first
    stated = path or (origin.verification_path if origin is not None else "") or "org-asserted"
    expected = "org-asserted" if stated == "self-signed" else stated
    assert posture.verification_path == expected
    if known and expected in PATHS and not (tier is None and origin is not None):
        assert posture.trust_tier == first
    if not known:
        assert posture.trust_tier >= 2
    assert posture.owner_id == (owner or (origin.owner_id if origin is not None else None))
    if posture.trust_tier == 2:
        assert posture.trust_warning
    assert bool(posture.trust_warning) == bool(posture.trust_explanation)
