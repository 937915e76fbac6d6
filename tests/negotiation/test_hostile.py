"""Proposals from an attacker: whatever is sent, the answer is a specified one, and nothing runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory import body_of
from tests.negotiation.hosts import BOOK_ROOM, LOCATE, OPEN, OUTLOOK, NegotiatingHost, granting
from tests.programmes import length

EXPECTED = {261, 262, 263, 400, 459, 460, 463}
MEMBERS = (
    *BOOK_ROOM,
    "errors",
    "required_scopes",
    "data_class",
    "name",
    "endpoint",
    "proposal",
    "persistent",
    "requested_duration",
    "scope_requested",
    "contract_version",
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(max_size=8)
    | st.sampled_from(
        ["/", "/x/{y}", "/{a}/{a}", "=input", "object", "string", "#/$defs/x", "*:*", "7d", "BOOK", "QUERY"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "required", "items", "$ref", "enum", "pattern", "intent", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)

TABLE = NegotiatingHost(granting(OPEN, rate_limit_per_minute=100_000, max_contracts_per_agent=4))


def propose(parameters: dict[str, Any]) -> int:
    answer = TABLE.ask("PROPOSE", "/", {"parameters": parameters})
    assert int(answer.status) in EXPECTED, body_of(answer)
    return int(answer.status)


@pytest.mark.programme
@settings(max_examples=length(120, 6000), deadline=None)
@given(
    base=st.sampled_from([BOOK_ROOM, LOCATE, OUTLOOK]),
    inside=st.dictionaries(st.sampled_from(MEMBERS), values, max_size=3),
    beside=st.dictionaries(st.sampled_from(MEMBERS), values, max_size=2),
    wrapped=st.booleans(),
)
def test_no_proposal_breaks_the_host(base: Any, inside: Any, beside: Any, wrapped: bool) -> None:
    """T-JS, hostile proposals: mutated definitions are answered 26x, 4xx or 463, never 500, and run nothing."""
    definition = {**base, **inside}
    before = len(TABLE.calls)
    propose({"endpoint": definition, **beside} if wrapped else {"name": "x", **definition, **beside})
    assert len(TABLE.calls) == before
    # What one agent can leave behind is bounded.
    assert len(list(TABLE.ledger.held.all("contract"))) <= 8
    assert len(list(TABLE.ledger.held.all("negotiation"))) <= 32


def test_the_control_reaches_approval() -> None:
    """The same way of asking, unharmed, is approved: the strategy above does not stop at the door."""
    assert propose({"endpoint": dict(BOOK_ROOM)}) == 263


@pytest.mark.programme
@settings(max_examples=length(80, 3000), deadline=None)
@given(header=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=80))
def test_no_presented_identifier_breaks_the_host(header: str) -> None:
    """Any value of Contract-Synthesized and Negotiation-ID is refused with a specified status."""
    assert TABLE.under(header).status == 404
    answer = TABLE.propose(BOOK_ROOM, headers={"Negotiation-ID": header})
    assert body_of(answer)["reason"] == "negotiation-unknown"
