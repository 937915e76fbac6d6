"""Smaller promises, clause by clause: each by requests against a real host that was set up in ``host.toml``."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.client.sync import Client, Reply
from agtphost.identity.certificates import load_certificate, parse_peer_certificate
from agtphost.identity.provisioning import provision_development
from tests.system.hosting import Host, agtp, free_port, running, sample

ENDPOINTS = """
[[endpoint]]
method = "CLEAR"
path = "/shelf/{number}"
description = "Empties a shelf."
errors = []
handler = { type = "registered_function", function = "handlers.shelves.clear" }

[endpoint.semantic]
intent = "Empty a shelf."
actor = "agent"
outcome = "The shelf is empty."
capability = "transaction"
confidence = 1.0
impact = "reversible"
is_idempotent = true

[endpoint.input_schema]
type = "object"
additionalProperties = false
required = ["number"]
properties = { number = { type = "integer", minimum = 1 }, depth = { type = "number" } }

[endpoint.output_schema]
type = "object"
required = ["cleared"]

[[endpoint]]
method = "COUNT"
path = "/shelf/{number}"
description = "Counts what is on a shelf."
errors = []
cost = "tokens=3"
handler = { type = "registered_function", function = "handlers.shelves.count" }

[endpoint.semantic]
intent = "Count what is on a shelf."
actor = "agent"
outcome = "The number is known."
capability = "retrieval"
confidence = 1.0
impact = "informational"
is_idempotent = true

[endpoint.input_schema]
type = "object"
additionalProperties = false
required = ["number"]
properties = { number = { type = "integer", minimum = 1 }, depth = { type = "number" } }

[endpoint.output_schema]
type = "object"
"""

HANDLERS = """
from agtphost import EndpointResponse

def clear(ctx):
    return EndpointResponse(status=204)

def count(ctx):
    return {"number": ctx.input["number"], "depth": ctx.input.get("depth"), "kind": type(ctx.input["number"]).__name__}
"""

MORE = """
[notify.people]
usr-cfo = "{cfo}"

[notify.groups]
finance = ["usr-cfo", "librarian"]

[wellknown]
listen = "ssl:{wellknown}:interface=127.0.0.1"

[limits]
requests_per_minute = 100000
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    config = sample(tmp_path_factory.mktemp("smaller"))
    folder = config.parent
    state = folder / "state"
    provision_development(state, server_id="localhost", hosted=[folder / "agents" / "librarian.agent.json"])
    done = agtp("cert", "issue", "client", "cfo", "--ca", str(state / "ca.pem"), "-o", str(folder / "cfo.pem"))
    assert done.returncode == 0, done.stderr
    (folder / "endpoints" / "shelves.toml").write_text(ENDPOINTS)
    (folder / "handlers" / "shelves.py").write_text(HANDLERS)
    cfo = parse_peer_certificate(load_certificate(folder / "cfo.pem").public_bytes(Encoding.DER)).fingerprint
    config.write_text(config.read_text() + MORE.format(cfo=cfo, wellknown=free_port()))
    with running(config) as found:
        yield found


@pytest.fixture(scope="module")
def demo(host: Host) -> Iterator[Client]:
    folder = host.state / "agents" / "demo"
    with Client(trust=host.state / "ca.pem", cert=folder / "agent.pem", key=folder / "agent.key") as made:
        yield made


@pytest.fixture(scope="module")
def cfo(host: Host) -> Iterator[Client]:
    folder = host.config.parent
    with Client(trust=host.state / "ca.pem", cert=folder / "cfo.pem", key=folder / "cfo.key") as made:
        yield made


def good(reply: Reply, status: int = 200) -> Any:
    """The result of a call that has to end so."""
    assert reply.status == status, reply.body
    return reply.result


def test_204_needs_no_object(host: Host, demo: Client) -> None:
    """An object schema is about a body, and 204 has none."""
    reply = demo.call(host.uri, "CLEAR", "/shelf/7")
    assert (reply.status, reply.body) == (204, b"")


def test_what_stands_in_a_path_has_its_type(host: Host, demo: Client) -> None:
    """AGTP-API section 5.3: an integer where the schema says so; what is none is refused."""
    assert good(demo.call(host.uri, "COUNT", "/shelf/7?depth=1.5")) == {"number": 7, "depth": 1.5, "kind": "int"}
    refused = demo.call(host.uri, "COUNT", "/shelf/seven")
    assert (refused.status, refused.json()["faults"][0]["path"]) == (422, "/number")


def test_numbers_of_built_ins_stand_in_the_query(host: Host, demo: Client) -> None:
    """As numbers, not as texts that a built-in does not take."""
    found = good(demo.call(host.uri, "DISCOVER", "/?criteria=*&max_results=1"))
    assert found["returned"] == 1
    bad = demo.call(host.uri, "DISCOVER", "/?criteria=*&max_results=one")
    assert (bad.status, bad.json()["parameter"]) == (422, "max_results")


@pytest.mark.parametrize("inbox", ["agtp://localhost/agents/librarian", "agtp://localhost/agents/nobody"])
def test_delegate_takes_an_inbox_and_a_time(host: Host, demo: Client, inbox: str) -> None:
    """AGTP-331: ``callback`` to an ``agtp:`` inbox of this host, 422 for an unknown one; ``deadline`` as a time."""
    folder, me = host.state, json.loads((host.state / "agents/demo/document.json").read_text())["agent_id"]
    there = json.loads((folder / "hosted/librarian/document.json").read_text())["agent_id"]
    token = host.agtp_json(
        *("delegation", "issue", "--key", str(folder / "agents/demo/agent.key"), "--from", me, "--to", there),
        *("--scope", "documents:query", "--task-id", "task-15"),
    )["delegation_token"]
    given = {
        "target_agent_id": there,
        "authority_scope": "documents:query",
        "delegation_token": token,
        "task": {"method": "ECHO", "path": "/text", "parameters": {"text": "Emma"}},
        "deadline": (datetime.now(UTC) + timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "callback": inbox,
    }
    reply = demo.call(host.uri, "DELEGATE", "/", given, task_id="task-15")
    if inbox.endswith("nobody"):
        assert (reply.status, reply.json()["parameter"]) == (422, "callback")
        return
    assert good(reply)["result"]["text"] == "Emma"
    sent = good(demo.call(host.uri, "QUERY", "/notifications", {"box": "sent"}))["notifications"]
    told = {each["topic"] for each in sent if each["recipient"] in (there, "librarian")}
    assert "delegation-outcome" in told, sent
    late = demo.call(host.uri, "DELEGATE", "/", {**given, "deadline": "2020-01-01T00:00:00Z"}, task_id="task-15")
    assert (late.status, late.json()["parameter"]) == (422, "deadline")


def test_people_and_groups_are_reached_and_confirm(host: Host, demo: Client, cfo: Client) -> None:
    """AGTP-332: a person's inbox is read and emptied by the key that ``[notify.people]`` names, and by no other."""
    good(demo.call(host.uri, "NOTIFY", "/", {"recipient": "usr-cfo", "content": "one"}), 202)
    good(demo.call(host.uri, "NOTIFY", "/", {"recipient": "finance", "content": "two"}), 202)
    inbox = good(cfo.call(host.uri, "QUERY", "/notifications"))["notifications"]
    assert [each["content"] for each in inbox] == ["one", "two"]
    own = good(demo.call(host.uri, "QUERY", "/notifications"))["notifications"]
    assert not {"one", "two"} & {str(each["content"]) for each in own}
    item = {"target_id": inbox[0]["notification_id"], "status": "accepted"}
    assert demo.call(host.uri, "CONFIRM", "/", item).status in (403, 404)
    receipt = good(cfo.call(host.uri, "CONFIRM", "/", item))
    assert receipt["attestation_id"]
    left = good(cfo.call(host.uri, "QUERY", "/notifications"))["notifications"]
    assert [each["content"] for each in left] == ["two"]
    unknown = demo.call(host.uri, "NOTIFY", "/", {"recipient": "usr-nobody", "content": "three"})
    assert unknown.status == 404


def test_an_own_address_is_summarized(host: Host, demo: Client) -> None:
    """The host's own ``agtp:`` URIs, as the caller could read them."""
    for source in (f"agtp://localhost:{host.port}/agents", "agtp://localhost/agents/librarian"):
        assert good(demo.call(host.uri, "SUMMARIZE", "/", {"source": source}))["source_hash"]


def test_the_issuer_is_a_url(host: Host, demo: Client) -> None:
    """AGTP-328."""
    document = demo.call(host.uri, "DESCRIBE", "/agents/librarian").json()
    issuer = urlsplit(document.get("result", document)["issuer"])
    assert issuer.scheme == "https" and issuer.netloc


def ask_plainly(host: Host, name: str | None) -> dict[str, str]:
    """Header fields of the answer to an agent's file name, over TLS with SNI ``name`` or without it."""
    context = ssl.create_default_context(cafile=str(host.state / "ca.pem"))
    context.set_alpn_protocols(["agtp/1.0"])
    context.check_hostname = False
    with (
        socket.create_connection(("127.0.0.1", host.port), 10) as raw,
        context.wrap_socket(raw, server_hostname=name) as link,
    ):
        link.sendall(b"AGTP/1.0 DESCRIBE /agents/librarian.agent\r\n\r\n")
        octets = b""
        while b"\r\n\r\n" not in octets:
            more = link.recv(65_536)
            assert more, octets
            octets += more
    lines = octets.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    assert " 301 " in lines[0]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}


@pytest.mark.parametrize("name", ["localhost", None], ids=["SNI", "no SNI"])
def test_a_301_has_an_agtp_location_on_every_port(host: Host, demo: Client, name: str | None) -> None:
    """Core v08 section 6.1: with the port, and where the caller did not name the host; a client reaches the agent."""
    location = ask_plainly(host, name)["location"]
    assert location == f"agtp://localhost:{host.port}/agents/librarian"
    assert demo.call(location, "DESCRIBE").status == 200


def test_the_bootstrap_document_names_the_namespace_on_its_port(host: Host, demo: Client) -> None:
    """``/.well-known/agtp`` over HTTPS, and what it names is there."""
    line = next(each for each in host.config.read_text().splitlines() if each.startswith('listen = "ssl:'))
    port = int(line.split(":")[1])
    context = ssl.create_default_context(cafile=str(host.state / "ca.pem"))
    link = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
    link.request("GET", "/.well-known/agtp")
    named = json.loads(link.getresponse().read())["discovery"]["namespace_document"]
    link.close()
    assert named == f"agtp://localhost:{host.port}/agents"
    found = demo.call(named, "DESCRIBE").json()
    assert "librarian" in json.dumps(found)


def test_describe_is_true_to_the_host(host: Host, demo: Client) -> None:
    """``budget_units_accepted`` are those that something here tells its cost in; ``streaming`` works."""
    told = good(demo.call(host.uri, "DESCRIBE", "/"))
    assert (told["budget_units_accepted"], "streaming" in told["modalities"]) == (["tokens"], True)
    over = demo.call(host.uri, "COUNT", "/shelf/1", headers=[("Budget-Limit", "tokens=1")])
    assert over.status == 456
    seen: list[Any] = []
    good(demo.call(host.uri, "ECHO", "/text", {"text": "two words"}, stream=seen.append))
    assert seen


def test_no_escalation_is_dropped(host: Host, demo: Client) -> None:
    """AGTP-314: beyond an agent's 500 open ones they are kept, and told to be queued."""
    statuses = set()
    for number in range(502):
        given = {"task_id": f"task-e{number}", "reason": "scope_limit", "context": {"number": number}}
        reply = demo.call(host.uri, "ESCALATE", "/", given)
        statuses.add(reply.status)
        last = reply.result
    assert statuses == {202}
    asked = {"escalation_id": last["escalation_id"]}
    kept = good(demo.call(host.uri, "QUERY", "/escalations", asked))["escalations"]
    assert len(kept) == 1
