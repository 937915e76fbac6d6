"""What a path under /agents/ addresses: redirects, malformed names, aliases (core v08 section 6.1)."""

from __future__ import annotations

import pytest

from agtphost.client.location import redirected_to
from agtphost.dispatch.agent_paths import Authority, redirect, refuse_label
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.identity import AddresseeGate
from agtphost.errors import Refusal
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.peer import Peer
from agtphost.vocabulary.uris import parse
from agtphost.wire.events import Request
from agtphost.wire.headers import Headers
from tests.identity.issued import DESK, agent
from tests.memory import body_of
from tests.methods.hosts import MethodHost
from tests.rows import each_row

OTHER = agent("other", hosted=True)


@each_row("suffix", ["agent", "nomo", "agtp"])
@each_row("method", ["DESCRIBE", "QUERY"])
def test_file_names_are_redirected(suffix: str, method: str) -> None:
    """AGTP-109, AGTP-108: 301 to the name without suffix, by the header and in the body, before resolution."""
    response = MethodHost().ask(method, f"/agents/anybody.{suffix}")
    assert response.status == 301
    assert response.headers.get("location") == body_of(response)["location"] == "agtp://agtp.test/agents/anybody"


@each_row(
    ("label", "host", "port", "wanted"),
    [
        ("desk.nomo", "agtp.acme.tld", 4480, "agtp://agtp.acme.tld/agents/desk"),
        ("desk.nomo/status", "agtp.acme.tld", 4480, "agtp://agtp.acme.tld/agents/desk/status"),
        ("desk.nomo/rooms", "agtp.acme.tld", 4480, "/agents/desk/rooms"),
        ("desk.nomo", "agtp.acme.tld", 4481, "agtp://agtp.acme.tld:4481/agents/desk"),
        ("desk.nomo/status", "agtp.acme.tld", 4481, "agtp://agtp.acme.tld:4481/agents/desk/status"),
        ("desk.nomo", None, 4480, "agtp://agtp.acme.tld/agents/desk"),
        ("desk.nomo", None, 4481, "agtp://agtp.acme.tld:4481/agents/desk"),
        ("desk.nomo", "agtp.acme.tld", 0, "/agents/desk"),
    ],
)
def test_the_address_is_a_uri_where_there_is_one(label: str, host: str | None, port: int, wanted: str) -> None:
    """Core v08 section 6.1: ``Location`` is an ``agtp:`` URI, and our client follows either form."""
    gate = AddresseeGate(
        AgentDirectory([DESK]), lambda _: MethodHost().states.state_of(DESK), {}, own=Authority("agtp.acme.tld", port)
    )
    request = Request(method="DESCRIBE", path=f"/agents/{label}", headers=Headers([]), body=b"", line=b"")
    with pytest.raises(Refusal) as refused:
        gate.check(Exchange(request=request, peer=Peer(address="127.0.0.1", server_name=host), now=0.0))
    assert dict(refused.value.headers)["Location"] == wanted
    if not wanted.endswith("rooms"):
        followed = redirected_to(parse("agtp://agtp.acme.tld/agents/desk"), wanted)
        assert (followed.host, followed.agent_name) == ("agtp.acme.tld", "desk")


@each_row("label", ["a" * 63, "a" * 60, "AB" * 32, "g" * 64, "0" * 56])
def test_a_mistyped_id_is_told(label: str) -> None:
    """AGTP-105: 400 invalid-canonical-id."""
    response = MethodHost().ask("DESCRIBE", f"/agents/{label}")
    assert (response.status, body_of(response)["reason"]) == (400, "invalid-canonical-id")


@each_row("label", ["bad%20name", "bad.name", "..%2F..%2Fetc", "x.agent.agent.", ".agent", "bad%00", "a" * 65 + "-"])
def test_a_malformed_name_is_told(label: str) -> None:
    """AGTP-106, AGTP-104: 400 invalid-uri-form."""
    response = MethodHost().ask("DESCRIBE", f"/agents/{label}")
    assert (response.status, body_of(response)["reason"]) == (400, "invalid-uri-form")


@pytest.mark.parametrize("label", ["nobody", "ab" * 32, "a" * 55])
def test_an_unknown_name_is_not_found(label: str) -> None:
    """AGTP-107: 404."""
    assert MethodHost().ask("DESCRIBE", f"/agents/{label}").status == 404


def test_a_label_is_refused_with_what_follows_it() -> None:
    """The status document of a file name is that of the name."""
    with pytest.raises(Refusal) as refused:
        refuse_label("desk.nomo", "status")
    assert refused.value.details["location"] == "/agents/desk/status"


def test_an_alias_of_another_agent_is_refused() -> None:
    """AGTP-125: the alias of one hosted agent with the unproven Agent-ID of another is 401; by its id it is not."""
    on = MethodHost(agents=(DESK, OTHER))
    claimed = {"Agent-ID": OTHER.agent_id}
    response = on.ask("DESCRIBE", "/agents/desk", headers=claimed)
    assert (response.status, body_of(response)["reason"]) == (401, "alias-conflict")
    assert on.ledger.drafts[-1].payload["reason"] == "alias-conflict"
    # AGTP-126: the canonical id is authoritative, and a name never changes what it addresses.
    assert body_of(on.ask("DESCRIBE", f"/agents/{DESK.agent_id}", headers=claimed))["agent_id"] == DESK.agent_id
    assert on.ask("DESCRIBE", "/agents/other", headers=claimed).status == 200


def check(path: str, method: str = "DESCRIBE", server_name: str | None = None, transport: str = "agtp") -> Exchange:
    """A request at a host whose agents are at another address."""
    gate = AddresseeGate(AgentDirectory([DESK]), lambda _: MethodHost().states.state_of(DESK), {}, "agtp.acme.tld")
    peer = Peer(address="127.0.0.1", server_name=server_name, transport=transport)
    request = Request(method=method, path=path, headers=Headers([]), body=b"", line=b"")
    exchange = Exchange(request=request, peer=peer, now=0.0)
    gate.check(exchange)
    return exchange


@each_row(
    ("path", "target"),
    [
        ("/agents", "agtp://agtp.acme.tld/agents"),
        ("/agents/desk", "agtp://agtp.acme.tld/agents/desk"),
        ("/agents/desk/status", "agtp://agtp.acme.tld/agents/desk/status"),
        ("/agents/desk.agent", "agtp://agtp.acme.tld/agents/desk"),
    ],
)
def test_a_primary_domain_redirects_to_its_subdomain(path: str, target: str) -> None:
    """AGTP-123: 301, in one step."""
    with pytest.raises(Refusal) as refused:
        check(path, server_name="acme.tld")
    assert (refused.value.status, dict(refused.value.headers)["Location"]) == (301, target)
    assert dict(redirect("agtp.acme.tld", path).headers)["Location"] == target


def test_what_is_at_the_subdomain_already_is_served() -> None:
    """AGTP-123: neither the subdomain itself, nor lists, nor calls inside the host are redirected."""
    assert check("/agents/desk", server_name="agtp.acme.tld").agent is DESK
    assert check("/agents", "DISCOVER").agent is DESK
    assert check("/agents/desk", transport="internal").agent is DESK
