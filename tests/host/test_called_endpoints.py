"""Endpoints that keys of ``[methods]`` name are checked to be there, and to take what is sent to them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agtphost.host.called_endpoints import DELIVERED, find_unanswered
from agtphost.testing import MemoryHost
from tests.system.hosting import agtp, sample

MAIL = "NOTIFY /mail"
TAKES = dict.fromkeys(DELIVERED, "string")
REMOTES = {"name": "r", "pull": "QUERY /nowhere", "push": "NOTIFY /stock/7"}
METHODS: Mapping[str, Any] = {
    "standard": "*",
    "send": [{"channel": "email", "through": MAIL}],
    "pdf": "EVALUATE /pdf",
    "collection": [{"name": "few", "read": [], "write": [], "remote": [REMOTES]}],
}


def warnings(endpoints: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Build a host with these endpoints, by ``METHOD /path``, and return its warnings about the keys."""
    host = MemoryHost({"methods": METHODS})
    for place, takes in endpoints.items():
        method, _, path = place.partition(" ")
        host.endpoint(method, path, lambda context: {}, takes)
    return list(find_unanswered(host.core.services))


def test_a_key_that_leads_nowhere_is_named_with_its_cure() -> None:
    """A channel of SEND, the maker of PDF and a remote of a collection; a template that fits is there."""
    told = warnings({"NOTIFY /mails": TAKES, "NOTIFY /stock/{shelf}": {}})
    assert len(told) == 3, told
    assert "[[methods.send]] email: through is 'NOTIFY /mail', and no endpoint is there" in told[0]
    assert "did you mean 'NOTIFY /mails'?" in told[0] and f"declare one that takes {', '.join(DELIVERED)}" in told[0]
    assert "[methods] pdf is 'EVALUATE /pdf', and no endpoint is there" in told[1] and "takes html" in told[1]
    assert "[methods.collection.remote] r: pull is 'QUERY /nowhere', and no endpoint is there" in told[2]


def test_an_endpoint_that_cannot_take_what_is_sent_is_named() -> None:
    """Its input schema is closed, or requires more; one that fits is not named."""
    rest = {"NOTIFY /stock/{shelf}": {}, "EVALUATE /pdf": {"html": "string"}, "QUERY /nowhere": {}}
    told = warnings({MAIL: {"to": "string", "content": "string"}, **rest})
    assert told == [
        "[[methods.send]] email: through is 'NOTIFY /mail', whose input_schema lacks recipient, channel, template_id; "
        "declare what is sent there",
        "[[methods.send]] email: through is 'NOTIFY /mail', which requires to; only recipient, channel, content, "
        "template_id are sent there",
    ]
    assert warnings({MAIL: TAKES, **rest}) == []


def test_check_names_a_channel_that_leads_nowhere(tmp_path: Path) -> None:
    """``agtp check`` says what a start logs."""
    send = '\n[methods]\nstandard = ["SEND"]\n[[methods.send]]\nchannel = "email"\nthrough = "NOTIFY /mail"\n'
    done = agtp("check", str(sample(tmp_path, append=send)))
    assert "[[methods.send]] email: through is 'NOTIFY /mail', and no endpoint is there" in done.stderr, done.stderr
