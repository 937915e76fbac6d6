"""Knobs and small grammars of negotiation: AGTP-API section 10.1.7, spec reading 54."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.config import load
from agtphost.config.policies import RCNS, Policies
from agtphost.errors import ConfigurationError
from agtphost.negotiation import durations
from agtphost.negotiation.fields import feeds, fields_of
from agtphost.negotiation.patterns import path_regex
from tests.negotiation.hosts import NegotiatingHost, schema
from tests.rows import each_row

HOST = '[host]\nserver_id = "host.test"\nprofile = "development"\n'


def read(tmp_path: Path, text: str) -> RCNS:
    file = tmp_path / "host.toml"
    file.write_text(HOST + text)
    return load(file, {}).policies.rcns


def test_the_defaults_let_nothing_happen() -> None:
    """API-101, API-112: RCNS and synthesis off, confirm-first, tier 1, ten a minute, grandfather."""
    found = Policies()
    assert found.synthesis_enabled is False and found.rcns.enabled is False
    assert (found.rcns.mode, found.rcns.min_trust_tier, found.rcns.rate_limit_per_minute) == ("confirm-first", 1, 10)
    assert found.rcns.on_policy_change == "grandfather" and found.rcns.contract_ttl_seconds > 0


@pytest.mark.parametrize(
    "line",
    [
        "mode = 'sometimes'",
        "speed = 4",
        "min_trust_tier = 0",
        "contract_ttl_seconds = 0",
        "on_policy_change = 'forget'",
        "enabled = 'yes'",
    ],
)
def test_a_wrong_knob_is_a_configuration_error(tmp_path: Path, line: str) -> None:
    """API-112: unknown knobs and bad values are found before the start; the control is sound."""
    with pytest.raises(ConfigurationError):
        read(tmp_path, f"[policies.rcns]\n{line}\n")
    assert read(tmp_path, "[policies.rcns]\nmode = 'optimistic'\nenabled = true\n")


@each_row(
    ("text", "seconds"),
    [
        ("24h", 86_400),
        ("7d", 604_800),
        ("PT24H", 86_400),
        ("P7D", 604_800),
        ("P1W", 604_800),
        ("P1DT2H3M4S", 93_784),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("0s", None),
        ("P1Y", None),
        ("1.5h", None),
        ("24h\n", None),
        ("-1h", None),
        ("", None),
        ("P1M", None),
        ("PT5", None),
    ],
)
def test_durations(text: str, seconds: int | None) -> None:
    """AGTP-264: ISO 8601 and the short form, and nothing near them."""
    assert durations.seconds(text) == seconds


@given(st.integers(min_value=1, max_value=10**7))
def test_durations_come_back(length: int) -> None:
    """What is written is read again."""
    assert durations.seconds(durations.iso(length)) == length


@each_row(
    ("given_", "taken", "expected"),
    [
        ({"type": "string"}, {"type": "string", "maxLength": 5}, True),
        ({"type": "integer"}, {"type": "number"}, True),
        ({"type": "number"}, {"type": "integer"}, False),
        ({"type": ["string", "null"]}, {"type": "string"}, False),
        ({"type": "string"}, {"type": "string", "enum": ["a"]}, False),
        ({"const": "a", "type": "string"}, {"type": "string", "enum": ["a", "b"]}, True),
        ({}, {"type": "string"}, False),
        ({"type": "string"}, {}, True),
        ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "integer"}}, False),
        (schema({"a": "string"}), schema({"a": "string"}, {"b": "string"}), True),
        (schema(None, {"a": "string"}), schema({"a": "string"}), False),
        ({"$ref": "#/$defs/x"}, {"type": "string"}, False),
    ],
)
def test_which_fields_feed_which(given_: object, taken: object, expected: bool) -> None:
    """A field feeds another only where its types are among those taken."""
    assert feeds(given_, taken) is expected


def test_spelling_does_not_matter_and_doubt_excludes() -> None:
    """guestName and guest_name are one field; where a schema has both, neither is matched."""
    assert set(fields_of(schema({"guestName": "string", "room-id": "string"}))) == {"guestname", "roomid"}
    assert set(fields_of(schema({"guestName": "string", "guest_name": "string", "x": "string"}))) == {"x"}


def test_patterns_are_anchored() -> None:
    """API-051: the expression matches the template's paths and nothing longer."""
    import re

    expression = re.compile(path_regex("/customers/{id}/location.v1"))
    assert expression.search("/customers/7/location.v1")
    for other in ("/customers/7/locationxv1", "/customers/7/8/location.v1", "/x/customers/7/location.v1"):
        assert not expression.search(other)


def test_contracts_are_presented_early() -> None:
    """Design decision 6: after aliases, before the catalog; without a negotiator there is no such gate."""
    table = NegotiatingHost()
    names = [gate.name for gate in table.dispatcher._passage.gates]  # type: ignore[attr-defined]
    at = names.index("contract presentation")
    assert names[at - 1] == "alias" and names[at + 1] == "catalog"
