"""Delegation tokens by themselves: companion section 8.1, T-JW."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc import jws as foreign
from joserfc.jwk import OKPKey

from agtphost.identity import delegation
from agtphost.identity.delegation import DelegationError
from tests.identity.samples import key_of
from tests.rows import each_row

KEY = key_of("delegation key")
KEYS = {KEY.kid: KEY.public}
NOW = 1_800_000_000


def good(**changes: Any) -> str:
    return delegation.issue(
        KEY,
        **{
            "issuer": "a" * 64, "delegator": "a" * 64, "delegatee": "b" * 64, "scope": ["x:y", "x:z"],
            "task_id": "t", "now": NOW, **changes,
        },
    )  # fmt: skip


def test_what_is_issued_is_read() -> None:
    """Every claim comes back, and two tokens are never one."""
    text = good()
    token = delegation.read(text, KEYS, NOW)
    assert (token.delegator, token.delegatee, token.scope) == ("a" * 64, "b" * 64, {"x:y", "x:z"})
    assert (token.expires_at - token.issued_at, token.depth, token.parent) == (300, 1, None)
    assert token == delegation.show(text)
    assert delegation.read(good(), KEYS, NOW).token_id != token.token_id
    second = delegation.read(good(depth=2, parent=text), KEYS, NOW)
    assert second.parent == token.digest


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
def test_another_library_verifies_it() -> None:
    """Interoperability: joserfc verifies the signature and reads the same claims."""
    text = good()
    key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": KEY.public.text})
    claims = json.loads(foreign.deserialize_compact(text, key, algorithms=["EdDSA"]).payload)
    assert claims["aud"] == "b" * 64
    head = text.split(".")[0]
    header = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    assert header == {"alg": "EdDSA", "kid": KEY.kid, "typ": delegation.DELEGATION_TYPE}


@each_row(
    "changes",
    [
        {"delegator": "a"}, {"delegatee": "B" * 64}, {"scope": ["X"]}, {"task_id": ""}, {"task_id": "a b"},
        {"lifetime": 0}, {"lifetime": 3601}, {"depth": 0}, {"depth": 2}, {"parent": "0" * 64}, {"issuer": ""},
        {"depth": 101, "parent": "0" * 64}, {"scope": [f"x:y{n}" for n in range(257)]},
    ],
    ids=str,
)  # fmt: skip
def test_what_nobody_would_accept_is_not_issued(changes: dict[str, Any]) -> None:
    """The issuer finds out, not whoever presents it."""
    with pytest.raises(DelegationError) as caught:
        good(**changes)
    assert caught.value.reason == "claims"


def test_times() -> None:
    """T-TM: a minute of skew both ways, and no more."""
    text = good()
    for now in (NOW - 60, NOW, NOW + 359):
        assert delegation.read(text, KEYS, now)
    for now in (NOW - 61, NOW + 360, NOW + 3600):
        with pytest.raises(DelegationError, match=r"valid yet|expired"):
            delegation.read(text, KEYS, now)


@cache
def one_token() -> str:
    """The same for every example, as what is drawn depends on it."""
    return good()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_one_changed_character_is_noticed(data: st.DataObject) -> None:
    """T-JW: whichever character of the token changes, it is not believed."""
    text = one_token()
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("ABab01-_.=é").filter(lambda char: char != text[at]))
    with pytest.raises(DelegationError):
        delegation.read(text[:at] + other + text[at + 1 :], KEYS, NOW)
