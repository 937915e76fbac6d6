"""The acting principal at the gate: remembered verdicts, inner calls, and nothing that outlives its token."""

from __future__ import annotations

import pytest

from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.principal import ActingPrincipalGate
from agtphost.errors import Refusal
from agtphost.identity.bearer import BearerTokens, TokenIssuer, read_keys
from agtphost.identity.peer import Peer
from agtphost.wire.events import Request
from agtphost.wire.headers import Headers
from tests.identity.tokens import ISSUER, NOW, public, token
from tests.rows import each_row


class Counting(BearerTokens):
    """Counts how often a token is really looked at."""

    looked = 0

    def validate(self, text: str, now: float) -> object:  # type: ignore[override]
        self.looked += 1
        return super().validate(text, now)


def counting() -> Counting:
    return Counting(
        [TokenIssuer(issuer=ISSUER, audiences=("agtphost",), algorithms=("EdDSA",), keys=read_keys(public()))]
    )


def exchange(credential: str | None, *, at: float = NOW, method: str = "BOOK", peer: Peer | None = None) -> Exchange:
    headers = Headers([] if credential is None else [("Authorization", credential)])
    made = Exchange(Request(method=method, headers=headers), peer or Peer(address="127.0.0.1"), at)
    made.method = method
    return made


def refusal_of(gate: ActingPrincipalGate, asked: Exchange) -> Refusal:
    with pytest.raises(Refusal) as caught:
        gate.check(asked)
    assert asked.acting_principal is None
    return caught.value


def test_a_verdict_is_remembered_until_the_token_expires() -> None:
    """The signature is checked once; the expiry at each request."""
    tokens = counting()
    gate = ActingPrincipalGate(tokens, ["BOOK"])
    for at in (NOW, NOW + 1, NOW + 659):
        asked = exchange(f"Bearer {token()}", at=at)
        gate.check(asked)
        assert asked.acting_principal == "alice"
    assert tokens.looked <= 3
    assert refusal_of(gate, exchange(f"Bearer {token()}", at=NOW + 661)).details["detail"] == "oauth-expired"


def test_what_is_remembered_is_bounded_and_forgotten_with_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-LM: tokens of the peer's making do not fill memory; rotated keys make every verdict anew."""
    monkeypatch.setattr("agtphost.dispatch.gates.principal.REMEMBERED", 3)
    tokens = counting()
    gate = ActingPrincipalGate(tokens, [])
    for number in range(10):
        gate.check(exchange(f"Bearer {token(sub=f'p{number}')}"))
    assert len(gate._valid) == 3
    last = token(sub="p10")
    gate.check(exchange(f"Bearer {last}"))
    before = tokens.looked
    gate.check(exchange(f"Bearer {last}"))
    assert tokens.looked == before
    gate.forget()
    gate.check(exchange(f"Bearer {last}"))
    assert tokens.looked == before + 1


def test_a_call_inside_a_call_acts_for_the_same_principal() -> None:
    """The outer call proved it; nobody from outside can claim to be inside."""
    gate = ActingPrincipalGate(counting(), ["BOOK"])
    inner = exchange(None, peer=Peer(address="127.0.0.1", transport="internal", acting_principal="alice"))
    gate.check(inner)
    assert inner.acting_principal == "alice"
    outer = exchange(None, peer=Peer(address="127.0.0.1", acting_principal="alice"))
    assert refusal_of(gate, outer).reason == "oauth-required"


@each_row("credential", ["Basic YTpi", "Bearer", "Bearer ", "", "bearer\t" + "x"])
def test_other_schemes_are_refused(credential: str) -> None:
    """Even on methods that need no credential: what is presented has to be valid."""
    refusal = refusal_of(ActingPrincipalGate(counting(), []), exchange(credential, method="QUERY"))
    assert (refusal.status, refusal.reason) == (401, "oauth-invalid")


def test_an_unknown_key_is_reported_once_per_request() -> None:
    """So that the provider's keys are fetched again."""
    told: list[int] = []
    gate = ActingPrincipalGate(counting(), [], lambda: told.append(1))
    refusal_of(gate, exchange(f"Bearer {token(header={'kid': 'new'})}"))
    assert told == [1]
