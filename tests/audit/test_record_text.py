"""The text of a record is the same, filled into gaps that are kept or written by an encoder."""

from __future__ import annotations

from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from agtphost.audit import record_text
from agtphost.audit.record_text import MOST_KINDS, MOST_OCTETS, encode_any, encode_payload
from tests.audit.drafting import payload

PLACES = sorted(payload())

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**54), 2**54)
    | st.floats(-1e20, 1e20)
    | st.text(alphabet=st.characters(max_codepoint=0x2FF) | st.sampled_from('"\\/\x7f\n<>+~')),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


class Told(str):
    """A text that prints as another one, as the members of some enumerations do."""

    def __str__(self) -> str:
        return "Told.WHY"


def outcome(encode: Any, members: dict[str, Any]) -> object:
    """The octets, or the kind of error."""
    try:
        return encode(members)
    except (ValueError, TypeError) as error:
        return type(error)


@settings(max_examples=60)
@given(
    st.dictionaries(st.sampled_from(PLACES), VALUES, max_size=2),
    st.dictionaries(st.sampled_from(["extra", "prior_actions", "invoked", "durable", "tier"]), VALUES),
)
def test_whatever_a_record_holds_both_ways_agree(changed: dict[str, Any], more: dict[str, Any]) -> None:
    """Few kinds, so that gaps are filled again and again, with what they are meant for and with everything else."""
    members = payload() | more | changed
    assert outcome(encode_payload, members) == outcome(encode_any, members)
    if isinstance(outcome(encode_payload, members), bytes):
        assert encode_payload(members) == rfc8785.dumps(members)


@pytest.mark.parametrize(
    "more",
    [{}, {"extra": {"input_shape": {"text": "string"}}}, {"extra": {}, "tier": "B"}, {"reason": Told("not-now")}],
    ids=["bare", "shape", "empty", "another in print"],
)
def test_usual_records_take_the_short_way(more: dict[str, Any]) -> None:
    """And what prints as something else is written as the text that it is."""
    members = payload() | more
    assert record_text._fill_text(members) == encode_any(members) == rfc8785.dumps(members)


@pytest.mark.parametrize(
    "more",
    [
        *({"path": f"/a{sign}"} for sign in '"\\\n\x7fé\ud800'),
        {"status": True},
        {"status": 2**53},
        {"status": "200"},
        {"extra": "text"},
        {"extra": {"share": 0.5}},
        {"extra": {"said": 'a "b"'}},
        {"extra": {1: "a"}},
        {"owner_id": None},
        {'na"me': "a"},
        {"%s": "a", "ä": "b"},
    ],
    ids=repr,
)
def test_what_is_unusual_takes_the_long_way(more: dict[str, Any]) -> None:
    """Escapes, other types than a member usually has, names that need one."""
    members = payload() | more
    assert record_text._fill_text(members) in (None, outcome(encode_any, members))
    assert outcome(encode_payload, members) == outcome(encode_any, members)


def test_without_the_guard_a_quotation_mark_would_end_a_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the gaps alone let a path add a member."""
    members = payload(path='/","owner_id":"somebody')
    honest = encode_payload(members)
    monkeypatch.setattr(record_text, "escaped", lambda text: f'"{text}"')
    assert encode_payload(members) != honest


def test_kinds_that_nobody_uses_are_forgotten() -> None:
    """However many combinations of members there are."""
    for number in range(MOST_KINDS + 10):
        encode_payload({"status": 200, f"member_{number}": ""})
    assert record_text._kind.cache_info().currsize == MOST_KINDS


def test_containers_that_are_equal_and_written_differently_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their JSON is kept; the control is a table by values, for which 1 is True."""
    extras: list[dict[str, Any]] = [{"n": 1}, {"n": True}, {"n": [1]}, {"a": 1, "b": 2}, {"b": 2, "a": 1}]

    def differing() -> list[dict[str, Any]]:
        wholes = [payload(extra=extra) for extra in extras * 2]
        return [each for each in wholes if encode_payload(each) != encode_any(each)]

    assert differing() == []
    monkeypatch.setattr(record_text, "dumps", lambda value, _: b"n" if value == {"n": 1} else b"")
    assert differing()


def test_json_of_containers_is_kept_for_some_and_for_short_ones() -> None:
    """Callers choose what is in an ``extra``: no more than so many are kept, and none that is long."""
    for number in range(MOST_KINDS * 2):
        encode_payload(payload(extra={"action": f"act-{number}"}))
        assert len(record_text._written) <= MOST_KINDS
    encode_payload(payload(extra={"action": "x" * MOST_OCTETS}))
    assert max(map(len, record_text._written)) <= MOST_OCTETS
