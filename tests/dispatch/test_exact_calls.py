"""Nothing but the call that was shown: mutated repeats of approved calls (core v08 section 7.2.11)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from agtphost.dispatch import approved_calls
from agtphost.identity.canonical import canonical
from tests.dispatch.approval_hosts import DELETION, ApprovalHost
from tests.methods.floor_hosts import body_of
from tests.programmes import length

SEED = 20_261_122
EXAMPLES = length(250, 1_000)

_LEAVES = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False) | st.text()
_VALUES = st.recursive(_LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6)
_FINITE = st.floats(allow_nan=False, allow_infinity=False)


def _spelt(draw: st.DrawFn, text: str) -> str:
    """Another text that looks like it: one character changed, added, doubled or gone, or its case."""
    at = draw(st.integers(0, len(text) - 1))
    added = draw(st.sampled_from(["\u200b", "\u0430", "/", " ", "\u00e9", "e\u0301", "\u202e", "a", "."]))
    forms = (text[:at] + added + text[at:], text[:at] + text[at + 1 :], text[:at] + added + text[at + 1 :])
    return draw(st.sampled_from([*forms, text.upper(), f"{text} ", text[::-1]]))


@st.composite
def mutations(draw: st.DrawFn) -> dict[str, Any]:
    """An input that is valid for the endpoint, and another one than :data:`DELETION`."""
    more: dict[str, Any] = dict(DELETION["more"])  # type: ignore[call-overload]
    changed: dict[str, Any] = {**DELETION, "more": more}
    for kind in draw(st.lists(st.integers(0, 7), min_size=1, max_size=3)):
        if kind == 0:
            changed["path"] = _spelt(draw, changed["path"] or "x")
        elif kind == 1:
            changed["password"] = draw(st.text())
        elif kind == 2:
            changed.pop("password", None)
        elif kind == 3:
            more[draw(st.text())] = draw(_VALUES)
        elif kind == 4:
            more["n"] = draw(st.permutations([1, 2, draw(st.integers(-5, 5))]))
        elif kind == 5:
            more["n"] = [1, draw(_FINITE)]
        elif kind == 6:
            more["api_token"] = draw(_VALUES)
        else:
            changed["path"] = draw(st.text(min_size=1))
    return changed


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two inputs are one value of JSON: then they are one call."""
    try:
        return canonical(dict(one)) == canonical(dict(other))
    except ValueError:
        return False


class Repeats:
    """Repeats an approved call, changed, and counts."""

    def __init__(self) -> None:
        self.host = ApprovalHost()
        self.approval_id = self.host.approved()
        self.asked = 0

    def repeat(self, changed: Mapping[str, Any]) -> None:
        """It is not the approved call: it waits, with another approval, or is refused; the handler does not run."""
        before = len(self.host.ran)
        answer = self.host.ask("REMOVE", "/file", dict(changed))
        self.asked += 1
        assert len(self.host.ran) == before, f"{changed!r} ran (seed {SEED})"
        assert answer.status in (202, 400, 403, 422), answer.body
        if answer.status == 202:
            found = body_of(answer)
            assert found["approval_id"] != self.approval_id, f"{changed!r} (seed {SEED})"
            self.host.decide(found["approval_id"], "rejected")


@pytest.mark.programme
def test_a_thousand_mutated_repeats_release_nothing() -> None:
    """0 of 1,000 (shortened, of 250) pass; afterwards the call itself still does, once."""
    repeats = Repeats()

    @seed(SEED)
    @settings(max_examples=EXAMPLES, database=None)
    @given(mutations().filter(lambda changed: not same(changed, DELETION)))
    def each(changed: dict[str, Any]) -> None:
        repeats.repeat(changed)

    each()
    print(f"seed {SEED}: {repeats.asked} mutated repeats, {len(repeats.host.ran)} released")
    assert repeats.asked >= EXAMPLES
    assert repeats.host.ask("REMOVE", "/file", DELETION).status == 200
    assert repeats.host.ran == [DELETION]


@pytest.mark.parametrize("left_out", ["password", "more", "path"])
def test_the_control_whose_digest_leaves_something_out_is_caught(
    left_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A digest over all of the input but one member: some mutated repeat runs, and the same check says so."""
    sound = approved_calls.call_document

    def broken(*given: Any) -> dict[str, Any]:
        document = sound(*given)
        return {**document, "input": {name: value for name, value in document["input"].items() if name != left_out}}

    monkeypatch.setattr("agtphost.dispatch.approvals.call_document", broken)
    repeats = Repeats()
    changed = {**DELETION, left_out: {} if left_out == "more" else "another"}
    with pytest.raises(AssertionError, match="ran"):
        repeats.repeat(changed)


def test_the_order_of_members_is_no_change() -> None:
    """Members of an object have no order: the same call, written otherwise, is released."""
    host = ApprovalHost()
    host.approved()
    turned = dict(reversed(DELETION.items()))
    assert host.ask("REMOVE", "/file", turned).status == 200


def test_all_that_is_bound_is_in_the_digest() -> None:
    """Another value of any member of what an approval is bound to is another digest."""
    host = ApprovalHost()
    seen: list[dict[str, Any]] = []
    sound = approved_calls.digest_of

    def noted(document: Mapping[str, Any]) -> str:
        seen.append(dict(document))
        return sound(document)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agtphost.dispatch.approvals.digest_of", noted)
        host.waits()
    (document,) = seen
    bound = {"caller", "acting_principal", "method", "path", "tool", "input", "definition", "policy"}
    assert bound <= document.keys()
    turns = random.Random(SEED)
    for name in document:
        assert sound({**document, name: f"another {turns.random()}"}) != sound(document), name
