"""Identifier grammars match in full: T-HI, AGTP-IDENTIFIERS section 9.2."""

from __future__ import annotations

import re
import uuid

from hypothesis import given
from hypothesis import strategies as st

from agtphost.vocabulary import identifiers
from agtphost.vocabulary.status import Status, phrase_of
from tests.rows import each_row

GOOD = "0123456789abcdef" * 4


@each_row("bad", [GOOD + "\n", GOOD.upper(), GOOD[:-1], GOOD + "0", " " + GOOD[1:], "٠" * 64])
def test_agent_ids_are_exactly_64_lower_hex_digits(bad: str) -> None:
    """A trailing newline, capitals or other scripts' digits are no Agent-ID."""
    assert identifiers.is_agent_id(GOOD)
    assert not identifiers.is_agent_id(bad)


def test_a_dollar_pattern_would_let_a_newline_in() -> None:
    """The control: the loose pattern that security section 1 warns of accepts what ours refuses."""
    assert re.match(r"^[0-9a-f]{64}$", GOOD + "\n")


@each_row("bad", ["", " ", "a b", "a\n", "a\x00", "é", "a" * 129, "\u202eabc", "a\x7f"])
def test_opaque_ids_are_visible_ascii(bad: str) -> None:
    """What could break a header line or a terminal is not an identifier."""
    assert not identifiers.is_opaque_id(bad)
    assert identifiers.is_opaque_id("task-0042")


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_response_ids_are_version_7_uuids(milliseconds: int, randomness: bytes) -> None:
    """The text parses as a UUID of version 7 and RFC 9562 variant, with its time in front."""
    parsed = uuid.UUID(identifiers.uuid7(milliseconds, randomness))
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert parsed.int >> 80 == milliseconds


def test_reserved_and_withdrawn_codes_cannot_be_sent() -> None:
    """AGTP-057, AGTP-058: the registry has no entry for them, and every entry names its source."""
    codes = {int(status) for status in Status}
    assert not codes & {451, 452, 453, 454, 462, 465, 552, 553, 554, 555}
    assert all(status.phrase and status.source for status in Status)
    assert phrase_of(263) == "Proposal Approved"
    assert phrase_of(299) == "Unknown"
