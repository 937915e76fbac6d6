"""The HTTP gateway of a running host: what its clients call, who they are, and what they are told."""

from __future__ import annotations

import json
import random
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
from click.testing import CliRunner

from agtphost.cli.root import agtp as command
from agtphost.identity import jws
from agtphost.identity.provisioning import provision_development
from tests.programmes import seed_of_chance
from tests.rows import each_row
from tests.system.gateways import TOKEN, Reply, ask, with_gateway
from tests.system.hosting import ETC, Host, agtp, running
from tests.system.raw_link import RawLink
from tests.system.raw_link import client_context as certificate_of
from tests.system.test_negotiation import RECIPE, nights

BUYER = "gateway-buyer-" + "fedcba9876543210" * 2
READER = "gateway-reader-" + "fedcba9876543210" * 2
LANGUAGE = "def language(ctx):\n    return {'text': str(dict(ctx.forwarded)), 'words': 0}\n"
SLOW = """
async def slow(ctx):
    from twisted.internet.defer import Deferred

    return await Deferred()
"""

MORE = """
[audit]
# Otherwise a repeated list has another record by the way that was asked second.
list_summaries = false

[policies.rcns]
enabled = true
min_trust_tier = 2

[policies.synthesis]
max_impact = "irreversible"

[[http.client]]
name = "buyer"
token = "file:buyer.token"
agent = "buyer"

[[http.client]]
name = "reader"
token = "file:reader.token"
agent = "buyer"
scopes = ["rcns:negotiate"]
"""

STREAM = "text/event-stream"

DIFFERING = {
    *("issued_at", "response_id", "previous_audit_id", "action_id", "invoked"),
    *("identity_assurance", "requested_method"),
}
"""Members of a record that are of this very record or of those beside it, and those in which twins may differ."""


@dataclass(frozen=True)
class Served:
    """A host, and the port of its gateway."""

    host: Host
    port: int

    def ask(self, method: str, target: str, value: Any = None, **more: Any) -> Reply:
        return ask(self.port, method, target, value, **more)

    def payload(self, record: str) -> dict[str, Any]:
        """What a record says."""
        return jws.parse_unverified(record)


def _edit(folder: Path) -> None:
    """A room is never taken, so that the same call comes to the same twice; and two endpoints more."""
    rooms = folder / "handlers" / "rooms.py"
    text = rooms.read_text()
    assert "stays.append(" in text
    rooms.write_text(text.replace("stays.append((arrival, departure, guest))", "pass"))
    (folder / "handlers" / "more.py").write_text(LANGUAGE + SLOW)
    for path, function, timeout in (("/language", "language", ""), ("/slow", "slow", "timeout = 0.2\n")):
        words = (ETC / "endpoints" / "text.toml").read_text().replace('path = "/text"', f'path = "{path}"')
        words = words.replace("handlers.text.echo", f"handlers.more.{function}").replace('required = ["text"]\n', "")
        (folder / "endpoints" / f"{function}.toml").write_text(timeout + words)
    (folder / "recipes.toml").write_text((ETC / "recipes.toml").read_text() + RECIPE.format(version="1"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The sample host with a gateway, tools that it opens to keys, and negotiation."""
    edit = [("timeout = 30\n", 'timeout = 30\nmin_assurance = "gateway"\n')]
    config, port = with_gateway(tmp_path_factory.mktemp("gateway"), kind="ssl", append=MORE, edit=edit)
    folder = config.parent
    _edit(folder)
    for name, token in (("buyer", BUYER), ("reader", READER)):
        (folder / f"{name}.token").write_text(token)
        (folder / f"{name}.token").chmod(0o600)
    provision_development(folder / "state", server_id="localhost", hosted=[folder / "agents" / "librarian.agent.json"])
    done = agtp("agent", "new", "buyer", "--scope", "rcns:negotiate", "--scope", "booking:room", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    with running(config) as host:
        yield Served(host, port)


@pytest.fixture(scope="module")
def trust(served: Served) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(served.host.state / "ca.pem"))


# Calls


def test_a_call_is_answered_with_its_signed_record(served: Served, trust: ssl.SSLContext) -> None:
    """AGTP-285: the answer is finalised as every other, on the chain of the agent that answered."""
    found = served.ask("ECHO", "/text", {"text": "hello"}, context=trust, Task_ID="task-1", Request_ID="request-1")
    assert (found.status, found.fields["AGTP-Status"]) == (200, "200 OK")
    assert found.value["result"]["text"] == "hello"
    assert (found.fields["Task-ID"], found.fields["Request-ID"]) == ("task-1", "request-1")
    assert found.fields["Cache-Control"] == "no-store"
    kept = served.host.agtp("audit", "get", found.fields["Audit-ID"], "--json")
    assert kept.returncode == 0, kept.stdout + kept.stderr
    payload = json.loads(kept.stdout)["payload"]
    assert payload == served.payload(found.fields["Attribution-Record"])
    assert payload["extra"]["http"] == {"surface": "gateway", "client": "tests", "method": "ECHO"}
    assert payload["identity_assurance"] == "gateway"
    # It follows the record of a call over AGTP on the same chain.
    with RawLink(served.host) as link:
        native = link.ask("ECHO", "/text", {"parameters": {"text": "hello"}})
    after = served.ask("ECHO", "/text", {"text": "hello"}, context=trust)
    assert served.payload(after.fields["Attribution-Record"])["previous_audit_id"] == native.audit_id
    assert served.payload(native.record)["agent_id"] == payload["agent_id"] != ""


def test_it_has_a_socket_of_its_own(served: Served) -> None:
    """AGTP-282: HTTP at AGTP's port ends without an HTTP answer, AGTP at the gateway's is 400."""
    assert served.port != served.host.port
    context = ssl.create_default_context(cafile=str(served.host.state / "ca.pem"))

    def said(port: int, octets: bytes) -> bytes:
        with context.wrap_socket(
            socket.create_connection(("127.0.0.1", port), 30), server_hostname="localhost"
        ) as link:
            link.sendall(octets)
            return b"".join(iter(lambda: link.recv(65_536), b""))

    answered = said(served.host.port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answered.startswith(b"AGTP/1.0 400") and b"HTTP/1.1 " not in answered
    assert said(served.port, b"AGTP/1.0 ECHO /text\r\nContent-Length: 0\r\n\r\n").startswith(b"HTTP/1.1 400 ")


@each_row(
    "verb, method",
    [("GET", "FETCH"), ("POST", "CREATE"), ("PUT", "REPLACE"), ("DELETE", "REMOVE"), ("PATCH", "MODIFY")],
)
def test_the_verbs_of_http_stand_for_methods(served: Served, trust: ssl.SSLContext, verb: str, method: str) -> None:
    """AGTP-283: the alias is resolved, and the record has what was asked."""
    found = served.ask(verb, "/text", context=trust)
    payload = served.payload(found.fields["Attribution-Record"])
    assert (found.status, payload["method"], payload["requested_method"]) == (405, method, verb)
    assert found.value["method"] == method and found.fields["Allow"] == "ECHO"


def test_the_head_of_an_answer_is_that_of_get(served: Served, trust: ssl.SSLContext) -> None:
    found = served.ask("HEAD", "/text", context=trust)
    assert (found.status, found.body) == (405, b"") and int(found.fields["Content-Length"]) > 200
    assert served.payload(found.fields["Attribution-Record"])["requested_method"] == "GET"


def test_the_path_goes_on_as_it_was_sent(served: Served, trust: ssl.SSLContext) -> None:
    """AGTP-284: a verb in the path is 460, whole; escapes and the query are read where AGTP reads them."""
    found = served.ask("BOOK", "/book/room", {}, context=trust)
    assert (found.status, found.fields["AGTP-Status"]) == (460, "460 Endpoint Violation")
    assert found.value["segment"] == "book" and len(found.body) == int(found.fields["Content-Length"])
    escaped = served.ask("QUERY", "/library/978%30141439518", context=trust)
    assert (escaped.status, escaped.value["result"]["isbn"]) == (200, "9780141439518")
    assert served.payload(escaped.fields["Attribution-Record"])["path"] == "/library/978%30141439518"
    asked = served.ask("ECHO", "/text?text=from%20the%20query", context=trust)
    assert (asked.status, asked.value["result"]["words"]) == (200, 3), asked.body


WHOLE: dict[str, tuple[str, str, Any, int, str, str]] = {
    "an unknown method": ("FROBNICATE", "/text", None, 459, "method-violation", "close_matches"),
    "an unknown path": ("QUERY", "/nowhere", None, 404, "not-found", "path"),
    "another method": ("QUERY", "/text", None, 405, "method-not-allowed", "allowed_methods_for_path"),
    "no input": ("BOOK", "/room", {"room": 5}, 422, "invalid-input", "faults"),
    "no JSON": ("ECHO", "/text", b"{", 400, "malformed-body", "explanation"),
    "a declared error": (
        *("BOOK", "/room", {"room": "attic", "arrival": "2027-02-02", "departure": "2027-02-01"}),
        *(422, "invalid_dates", "details"),
    ),
}


@each_row("method, target, value, status, reason, member", WHOLE.values(), ids=WHOLE)
def test_refusals_arrive_whole(
    served: Served, trust: ssl.SSLContext, method: str, target: str, value: Any, status: int, reason: str, member: str
) -> None:
    found = served.ask(method, target, value, context=trust)
    assert (found.status, found.fields["AGTP-Status"][:3]) == (status, str(status))
    assert reason in json.dumps(found.value) and member in found.value, found.value
    assert served.payload(found.fields["Attribution-Record"])["status"] == status


def test_what_has_another_meaning_in_http_has_another_number(served: Served, trust: ssl.SSLContext) -> None:
    """D2: 262 is 403, 263 is 201, 408 is 504; ``AGTP-Status`` has the original."""
    room = {"room": "attic", "arrival": "2027-03-01", "departure": "2027-03-02"}
    lacking = served.ask("BOOK", "/room", room, context=trust, token=READER)
    assert (lacking.status, lacking.fields["AGTP-Status"]) == (403, "262 Authorization Required")
    assert served.payload(lacking.fields["Attribution-Record"])["status"] == 262
    late = served.ask("ECHO", "/slow", {}, context=trust)
    assert (late.status, late.fields["AGTP-Status"]) == (504, "408 Timeout")


OPTIONS: dict[str, tuple[str, int, str | None]] = {
    "an endpoint": ("/text", 405, "POST"),
    "an endpoint that reads": ("/library/9780141439518", 405, "GET, HEAD"),
    "an endpoint below an agent": ("/agents/librarian/text", 405, "POST"),
    "a document": ("/agents/librarian", 405, "GET, HEAD"),
    "a list of the host": ("/methods", 405, "POST"),
    "a tool": ("/tools/files/read_file", 405, "POST"),
    "the gateway's own": ("/.well-known/openapi.json", 405, "GET, HEAD"),
    "nothing": ("/nowhere", 404, None),
}


@each_row("path, status, allowed", OPTIONS.values(), ids=OPTIONS)
def test_options_names_the_methods_of_its_path(
    served: Served, trust: ssl.SSLContext, path: str, status: int, allowed: str | None
) -> None:
    """``Allow`` has the methods that the OpenAPI document has there, whatever method a field names; on record."""
    agis = {"X_AGIS_Method": "ECHO", "X_AGIS_Grammar": "AGIS/1.0"}
    for fields in ({}, agis):
        found = served.ask("OPTIONS", path, context=trust, **fields)
        assert (found.status, found.fields.get("Allow")) == (status, allowed)
        assert served.payload(found.fields["Attribution-Record"])["status"] == status
    assert served.ask("OPTIONS", path, token=None, context=trust).status == (405 if "well-known" in path else 401)


def test_options_agrees_with_the_document(served: Served, trust: ssl.SSLContext) -> None:
    """Every path of the OpenAPI document that a caller is given has exactly the methods that ``Allow`` names."""
    paths = served.ask("GET", "/.well-known/openapi.json", context=trust).value["paths"]
    assert len(paths) > 8
    for path, operations in paths.items():
        allowed = served.ask("OPTIONS", path.replace("{", "").replace("}", ""), context=trust).fields["Allow"]
        assert {verb.lower() for verb in allowed.split(", ")} - {"head"} == {*operations}, path


@each_row("method", ["TRACE", "CONNECT"])
def test_what_is_about_http_is_answered_here(served: Served, trust: ssl.SSLContext, method: str) -> None:
    found = served.ask(method, "/text", context=trust)
    assert found.status == 405 and "GET" in found.fields["Allow"]
    assert served.payload(found.fields["Attribution-Record"])["extra"]["http"]["client"] == "tests"


def test_the_manifest_tells_of_it(served: Served, trust: ssl.SSLContext) -> None:
    """API-150: both faces have one handler, and ``apis`` lists the document of the other face."""
    with RawLink(served.host) as link:
        apis = link.ask("DISCOVER", "/").json()["apis"]
        listed = link.ask("DISCOVER", "/apis").json()
    base = f"https://127.0.0.1:{served.port}"
    assert [(entry["name"], entry["base_url"]) for entry in apis] == [("gateway", base)]
    assert apis[0]["openapi_url"] == f"{base}/.well-known/openapi.json"
    assert json.dumps(apis[0]["openapi_url"]) in json.dumps(listed)


# Twins


def _drawn(chance: random.Random, number: int) -> tuple[str, str, Any]:
    """One call of something that the sample host offers: mostly as it should be, sometimes not."""
    word = chance.choice(["hello", "two words", "Grüße", ""])
    day = chance.randrange(1, 27)
    calls: list[tuple[str, str, Any]] = [
        ("ECHO", "/text", {"text": word}),
        ("ECHO", "/text", {"parameters": {"text": word}}),
        ("QUERY", f"/library/{chance.choice(['9780141439518', '978-0141439518', '1111111111'])}", None),
        ("BOOK", "/room", nights(day, chance.choice(["garden", "attic", "cellar"]))),
        ("BOOK", "/reading", {"isbn": "9780141439518", **nights(day)}),
        ("DESCRIBE", "/agents/librarian", None),
        ("DISCOVER", f"/{chance.choice(['methods', 'agents', 'tools'])}", None),
        ("QUERY", "/", {"intent": word or "books"}),
        # Whatever is drawn besides, these are refused.
        ("QUERY", "/nowhere", None),
        ("ECHO", "/text", {"text": day}),
    ]
    for tool, arguments in (
        ("list_files", {}),
        ("read_file", {"path": chance.choice(["welcome.txt", "none.txt", "../x"])}),
        ("search_text", {"query": word}),
        ("write_note", {"name": "../x", "text": word}),
        ("delete_note", {"name": "none"}),
    ):
        payload = {"tool": f"files.{tool}", "arguments": arguments}
        body = {"action": "mcp.tools.call", "payload_type": "application/vnd.mcp.tools+json", "payload": payload}
        calls.append(("EXECUTE", "/", {"parameters": body}))
    method, path, value = calls[number % len(calls)]
    spoiled = chance.random()
    if spoiled < 0.08:
        method = chance.choice(["FETCH", "BOOK", "FROBNICATE"])
    elif spoiled < 0.16:
        path = f"{path.rstrip('/')}/{chance.choice(['x', 'book', '%C3%A9', 'get-it'])}"
    elif spoiled < 0.24 and isinstance(value, dict):
        value = {**value, chance.choice(["room", "text", "extra"]): chance.choice([1, None, "x"])}
    return method, path, value


def _plain(payload: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in payload.items() if name not in DIFFERING}
    extra = {name: value for name, value in kept.pop("extra", {}).items() if name != "http"}
    return {**kept, "extra": extra}


def test_every_call_has_its_twin(served: Served, trust: ssl.SSLContext) -> None:
    """API-150: natively and by HTTP the records differ in ``extra.http``, assurance and ``requested_method`` alone."""
    chance, statuses, verbs = random.Random(seed_of_chance()), set(), {"FETCH": "GET"}
    url = f"https://localhost:{served.port}"
    with RawLink(served.host) as link, httpx.Client(verify=trust, trust_env=False, base_url=url) as client:
        # The server of the tools starts with its first call, and what they take is known from then on.
        assert link.ask("EXECUTE", "/", _drawn(random.Random(1), 10)[2]).status == 200
        for number in range(6 * 15):
            method, path, value = _drawn(chance, number)
            task = f"twin-{number}"
            native = link.ask(method, path, value, Task_ID=task)
            fields = {"Authorization": f"Bearer {TOKEN}", "Task-ID": task}
            verb, body = verbs.get(method, method), None if value is None else json.dumps(value).encode()
            if body is not None:
                fields["Content-Type"] = "application/vnd.agtp+json"
            if chance.random() < 0.3:
                verb, fields = "POST", {**fields, "X-AGIS-Method": method, "X-AGIS-Grammar": "AGIS/1.0"}
            twin = client.request(verb, path, content=body, headers=fields)
            what = f"{method} {path} {value} as {verb}: {native.status} {twin.headers.get('AGTP-Status')}"
            assert int(twin.headers["AGTP-Status"][:3]) == native.status, what
            first, second = (served.payload(record) for record in (native.record, twin.headers["Attribution-Record"]))
            if "GET" in verb:
                second["request_hash"] = first["request_hash"]  # of another request line
            assert _plain(first) == _plain(second), what
            assert twin.content == native.body, what
            assert (first["identity_assurance"], second["identity_assurance"]) == ("certificate", "gateway")
            assert second["extra"]["http"] == {"surface": "gateway", "client": "tests", "method": verb}
            statuses.add(native.status)
    assert {200, 404, 422} <= statuses


# Fields


SPELLINGS = ("Allow-RCNS", "allow-rcns", "ALLOW-RCNS", "Allow_RCNS", "X-Allow-RCNS", "Allow-Rcns ")


def test_nothing_lets_a_contract_be_offered(served: Served, trust: ssl.SSLContext) -> None:
    """AGTP-286: no spelling passes; over AGTP the same agent is offered one."""
    with RawLink(served.host, context=certificate_of(served.host, agent="buyer")) as link:
        assert link.ask("RESERVE", "/stay", nights(3), Allow_RCNS="true").status == 461
        offered = link.ask("RESERVE", "/stay", nights(3), Allow_RCNS="true").json()["synthesis_id"]
    body = json.dumps(nights(3)).encode()
    for spelling in (*SPELLINGS, "Contract-Synthesized", "Synthesis-Id"):
        value = "true" if "llow" in spelling.lower() else offered
        head = (
            f"RESERVE /stay HTTP/1.1\r\nHost: localhost:{served.port}\r\nAuthorization: Bearer {BUYER}\r\n"
            f"{spelling}: {value}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        plain = socket.create_connection(("127.0.0.1", served.port), 30)
        with trust.wrap_socket(plain, server_hostname="localhost") as link:
            link.sendall(head.encode() + body)
            said = b"".join(iter(lambda: link.recv(65_536), b""))
        status = int(said.split()[1])
        assert status == (400 if spelling.endswith(" ") else 404), (spelling, said[:300])


def test_what_a_client_says_of_itself_is_not_heard(served: Served, trust: ssl.SSLContext) -> None:
    """Agent-ID, Owner-ID, Delegation-Chain, Authority-Scope and X-Agent-ID of a client with a key change nothing."""
    other = json.loads((served.host.state / "agents" / "buyer" / "document.json").read_text())["agent_id"]
    claims = {
        "Agent_ID": other,
        "X_Agent_ID": other,
        "Owner_ID": "root",
        "Delegation_Chain": other,
        "Authority_Scope": "no:such",
        "Intent_Assertion": "x",
        "Priority": "high",
    }
    plain, claimed = (
        served.payload(served.ask("ECHO", "/text", {"text": "x"}, context=trust, **more).fields["Attribution-Record"])
        for more in ({}, claims)
    )
    assert _plain(plain) == _plain(claimed) and plain["caller_id"] != other


def test_the_operator_has_further_fields_forwarded(served: Served, trust: ssl.SSLContext) -> None:
    """AGTP-287: an endpoint sees what is listed, and nothing else."""
    found = served.ask("ECHO", "/language", {}, context=trust, Accept_Language="de, en;q=0.5", Prefer="wait=1")
    assert found.value["result"]["text"] == "{'accept-language': 'de, en;q=0.5'}"


REPEATED = ("Task-ID", "Session-ID", "Request-ID", "Idempotency-Key", "Budget-Limit", "Accept-Language")


@each_row("name", REPEATED)
def test_a_field_that_counts_stands_once(served: Served, trust: ssl.SSLContext, name: str) -> None:
    with httpx.Client(verify=trust, trust_env=False) as client:
        fields = [(name, "a"), (name, "b"), ("Authorization", f"Bearer {TOKEN}")]
        found = client.request("ECHO", f"https://localhost:{served.port}/text", headers=fields)
    assert (found.status_code, found.json()["reason"]) == (400, "repeated-header")
    assert served.payload(found.headers["Attribution-Record"])["reason"] == "repeated-header"


AGIS: dict[str, tuple[str, dict[str, str], int]] = {
    "a method": ("POST", {"X-AGIS-Method": "ECHO"}, 200),
    "our namespace": ("POST", {"X-AGIS-Method": "ECHO", "X-AGIS-Namespace": "localhost"}, 200),
    "another namespace": ("POST", {"X-AGIS-Method": "ECHO", "X-AGIS-Namespace": "acme"}, 400),
    "an acting method by GET": ("GET", {"X-AGIS-Method": "BOOK"}, 405),
    "an unknown method by GET": ("GET", {"X-AGIS-Method": "FROBNICATE"}, 405),
    "an unknown method": ("POST", {"X-AGIS-Method": "FROBNICATE"}, 459),
    "a line": ("POST", {"X-AGIS-Method": "ECHO /room"}, 400),
    "a reading method by GET": ("GET", {"X-AGIS-Method": "QUERY"}, 405),
    "no grammar": ("POST", {"X-AGIS-Method": "ECHO", "X-AGIS-Grammar": None}, 200),
    "an empty grammar": ("POST", {"X-AGIS-Method": "ECHO", "X-AGIS-Grammar": ""}, 400),
    "another grammar": ("POST", {"X-AGIS-Method": "ECHO", "X-AGIS-Grammar": "AGIS/2.0"}, 400),
    "a grammar alone": ("POST", {}, 400),
    "by an idempotent method": ("PUT", {"X-AGIS-Method": "ECHO"}, 405),
    "by DELETE": ("DELETE", {"X-AGIS-Method": "ECHO"}, 405),
    "by HTTP's QUERY": ("QUERY", {"X-AGIS-Method": "ECHO"}, 405),
    "by a method of AGTP": ("BOOK", {"X-AGIS-Method": "ECHO"}, 405),
}


@each_row("verb, fields, status", AGIS.values(), ids=AGIS)
def test_agis_names_the_method(
    served: Served, trust: ssl.SSLContext, verb: str, fields: dict[str, str | None], status: int
) -> None:
    """AGIS-051: the named method is called, HTTP's governs transport; with another grammar neither is called."""
    sent = {"X-AGIS-Grammar": "AGIS/1.0", "Authorization": f"Bearer {TOKEN}", **fields}
    said = {name: value for name, value in sent.items() if value is not None}
    with httpx.Client(verify=trust, trust_env=False) as client:
        url = f"https://localhost:{served.port}/text"
        found = client.request(verb, url, headers=said, json={"text": "x"} if verb == "POST" else None)
    assert found.status_code == status, found.text
    if said.get("X-AGIS-Grammar", "AGIS/1.0") != "AGIS/1.0" or "X-AGIS-Method" not in said:
        assert all(name in found.json()["explanation"] for name in ("X-AGIS-Grammar", "X-AGIS-Method"))
    if status == 400:
        assert "connection" not in found.json()["remedy"], "the client's connection is not what was wrong"
    payload = served.payload(found.headers["Attribution-Record"])
    if status == 200:
        assert (payload["method"], payload["extra"]["http"]["method"]) == ("ECHO", verb)
        assert "requested_method" not in payload


ACTING = {"/library/9780141439518": 400, "/nowhere": 400}


@each_row("path, status", ACTING.items(), ids=ACTING)
def test_get_carries_no_acting_method(served: Served, trust: ssl.SSLContext, path: str, status: int) -> None:
    """AGIS-051: not at a path that GET reads, and not at an unknown one."""
    for method in ("BOOK", "FROBNICATE"):
        found = served.ask("GET", path, context=trust, X_AGIS_Method=method)
        assert (found.status, "only read" in found.value["explanation"]) == (status, True), found.body


def test_options_of_a_path_with_a_control_character(served: Served, trust: ssl.SSLContext) -> None:
    """A path that no call may have is answered, with the methods of its template; a call is refused by the grammar."""
    assert served.ask("OPTIONS", "/library/%C2%84", context=trust).fields["Allow"] == "GET, HEAD"
    assert served.ask("GET", "/library/%C2%84", context=trust, X_AGIS_Method="QUERY").status == 460


CARRIED = {"GET": 200, "HEAD": 200, "POST": 200, "PATCH": 405, "PUT": 405, "DELETE": 405, "QUERY": 405}


@each_row("verb, status", CARRIED.items(), ids=CARRIED)
def test_a_method_is_carried_by_post_and_by_what_the_document_has(
    served: Served, trust: ssl.SSLContext, verb: str, status: int
) -> None:
    """AGIS-051: GET carries a reading method where the OpenAPI document says so; 405 names what does in ``Allow``."""
    body = {} if verb == "POST" else None
    found = served.ask(verb, "/library/9780141439518", body, context=trust, X_AGIS_Method="QUERY")
    assert found.status == status, found.body
    if status == 405:
        assert found.fields["Allow"] == "GET, HEAD, POST" and "QUERY" in found.value["remedy"]


# Who calls


def test_who_shows_nothing_is_refused_before_anything_is_called(served: Served, trust: ssl.SSLContext) -> None:
    for token in (None, "wrong"):
        found = served.ask("ECHO", "/text", {"text": "hello"}, token=token, context=trust)
        assert (found.status, found.fields["AGTP-Status"]) == (401, "401 Unauthorized")
        assert found.fields["WWW-Authenticate"] == ("Bearer" if token is None else 'Bearer error="invalid_token"')
        payload = served.payload(found.fields["Attribution-Record"])
        assert (payload["status"], payload["caller_id"]) == (401, "")
        assert found.fields["Server-ID"] == "localhost" and len(found.fields["Audit-ID"]) == 64
        assert found.value["reason"] == "agent-unauthenticated" and "token" in found.value["remedy"]


def test_a_certificate_is_its_agent(served: Served) -> None:
    """With what a client of AGTP may say too: the scopes that it claims."""
    shown = certificate_of(served.host)
    found = served.ask("ECHO", "/text", {"text": "x"}, token=None, context=shown)
    payload = served.payload(found.fields["Attribution-Record"])
    assert (found.status, payload["identity_assurance"]) == (200, "certificate")
    assert payload["extra"]["http"] == {"surface": "gateway", "client": "", "method": "ECHO"}
    room = {"room": "attic", "arrival": "2027-03-01", "departure": "2027-03-02"}
    narrowed = served.ask("BOOK", "/room", room, token=None, context=shown, Authority_Scope="documents:query")
    assert (narrowed.status, narrowed.fields["AGTP-Status"][:3]) == (403, "262")


def _context_of(state: Path, name: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(state / "ca.pem"))
    context.load_cert_chain(state / f"{name}.pem", state / f"{name}.key")
    return context


@pytest.mark.parametrize(
    ("method", "token", "status"), [("ECHO", None, 401), ("ECHO", "wrong", 401), ("CONNECT", None, 405)]
)
def test_a_refused_operator_is_on_record(served: Served, method: str, token: str | None, status: int) -> None:
    """The operator's key is proven by TLS, although the gateway serves agents only."""
    shown = _context_of(served.host.state, "registrar")
    found = served.ask(method, "/text", token=token, context=shown)
    payload = served.payload(found.fields["Attribution-Record"])
    assert (found.status, payload["status"], payload["caller_id"]) == (status, status, "")
    assert payload["operator"]["name"] == "admin"
    assert payload["extra"].get("cause") == (None if token is None else "token-unknown")
    if status == 401:
        assert "An operator calls over AGTP, with agtp, or uses the page of [admin]." in found.value["remedy"]
        assert "A person of [notify.people] does the same, with QUERY /escalations" in found.value["remedy"]
        assert "a token of [[http.client]]" in found.value["remedy"]


def test_a_host_is_no_client(served: Served, trust: ssl.SSLContext) -> None:
    """AGTP-288: the gateway is no hop between hosts."""
    for agent in ("agtphost", "agtphost/1.2", "AGTPHost (x)"):
        found = served.ask("ECHO", "/text", {"text": "x"}, context=trust, User_Agent=agent)
        assert (found.status, found.fields["AGTP-Status"]) == (421, "403 Forbidden")
    assert served.ask("ECHO", "/text", {"text": "x"}, context=trust, User_Agent="agtphost-tests").status == 200


def test_an_escalation_goes_on_octet_for_octet(served: Served, trust: ssl.SSLContext) -> None:
    """AGTP-219: nothing of it is changed on the way, and it is answered by the host's own method."""
    body = b'{ "task_id" : "t-1", "reason" : "ambiguous_instruction",\n "context" : {"note": "Gr\\u00fc\\u00dfe"} }'
    found = served.ask("ESCALATE", "/", body, context=trust)
    with RawLink(served.host) as link:
        link.send(b"AGTP/1.0 ESCALATE /\r\nContent-Type: application/vnd.agtp+json\r\n")
        link.send(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        native = link.answer()
    assert native is not None and found.fields["AGTP-Status"][:3] == str(native.status), found.body
    assert native.status in (200, 202), native.body
    hashes = [served.payload(record)["request_hash"] for record in (found.fields["Attribution-Record"], native.record)]
    assert hashes[0] == hashes[1]


def raw(served: Served, trust: ssl.SSLContext, octets: bytes) -> bytes:
    """All that is answered until the other end closes."""
    plain = socket.create_connection(("127.0.0.1", served.port), 30)
    with trust.wrap_socket(plain, server_hostname="localhost") as link:
        link.sendall(octets)
        return b"".join(iter(lambda: link.recv(65_536), b""))


def _raw_request(served: Served, line: str, *fields: str, body: bytes = b"") -> bytes:
    known = (f"Host: localhost:{served.port}", f"Authorization: Bearer {TOKEN}", "Content-Type: application/json")
    return "\r\n".join((line, *known, *fields, "", "")).encode("latin-1") + body


CHUNKS = b'f\r\n{"text": "abcd"\r\n1\r\n}\r\n0\r\nAgent-ID: evil\r\nAllow-RCNS: true\r\n\r\n'
RAW: dict[str, tuple[str, tuple[str, ...], bytes, int]] = {
    "a line in a path": ("ECHO /text%0d%0aAllow-RCNS:%20true HTTP/1.1", ("Connection: close",), b"", 460),
    "a path of no URI": ("ECHO /te|xt HTTP/1.1", ("Connection: close",), b"", 400),
    "half an escape": ("ECHO /text%0 HTTP/1.1", ("Connection: close",), b"", 400),
    "an empty segment": ("ECHO //text HTTP/1.1", ("Connection: close",), b"", 400),
    "a dot segment": ("ECHO /library/../text HTTP/1.1", ("Connection: close",), b"", 460),
    "a method with a hash": ("EC#HO /text HTTP/1.1", ("Connection: close",), b"", 400),
    "a method in lower case": ("echo /text HTTP/1.1", ("Connection: close",), b"", 459),
    "a long line": (f"ECHO /{'a' * 9000} HTTP/1.1", ("Connection: close",), b"", 400),
    "a body that is too long": ("ECHO /text HTTP/1.1", ("Content-Length: 1048577",), b"", 413),
    "chunks with trailers": ("ECHO /text HTTP/1.1", ("Transfer-Encoding: chunked", "Connection: close"), CHUNKS, 200),
    "HTTP/1.0": ("ECHO /text HTTP/1.0", ("Content-Length: 13",), b'{"text": "x"}', 200),
    "a value beyond ASCII": ("ECHO /text HTTP/1.1", ("Task-ID: \xe9", "Connection: close"), b"", 400),
}


@each_row("line, fields, body, status", RAW.values(), ids=RAW)
def test_what_is_sent_octet_by_octet(
    served: Served, trust: ssl.SSLContext, line: str, fields: tuple[str, ...], body: bytes, status: int
) -> None:
    """One answer each, of the one request; what a trailer says of its sender is not heard."""
    said = raw(served, trust, _raw_request(served, line, *fields, body=body))
    assert said.startswith(f"HTTP/1.1 {status} ".encode()) and said.count(b"HTTP/1.1 ") == 1, said[:400]
    if status == 413:
        return
    record = next(field for field in said.split(b"\r\n") if field.startswith(b"Attribution-Record: "))
    payload = served.payload(record.decode().partition(": ")[2])
    assert payload["status"] == status
    if status == 200:
        assert payload["caller_id"] != "evil"


# Streams


def events_of(text: str) -> list[tuple[str, str, Any]]:
    """Kind, id and value of each event."""
    found = []
    for block in text.strip().split("\n\n"):
        members = dict(line.split(": ", 1) for line in block.split("\n"))
        found.append((members["event"], members["id"], json.loads(members["data"])))
    return found


def test_an_answer_comes_event_by_event(served: Served, trust: ssl.SSLContext) -> None:
    """Interim messages as they come, the answer last, each with its signed record; as over AGTP."""
    found = served.ask("ECHO", "/text", {"text": "one two"}, context=trust, Accept=STREAM)
    assert (found.status, found.fields["Content-Type"]) == (200, STREAM)
    events = events_of(found.body.decode())
    assert [kind for kind, _, _ in events] == ["interim", "interim", "result"]
    assert [value["body"]["result"] for _, _, value in events] == [
        {"event": {"word": "one", "number": 1}},
        {"event": {"word": "two", "number": 2}},
        {"text": "one two", "words": 2},
    ]
    assert [value["status"] for _, _, value in events] == [202, 202, 200]
    for _, audit_id, value in events:
        assert value["headers"]["Audit-ID"] == audit_id
        payload = served.payload(value["headers"]["Attribution-Record"])
        assert payload["status"] == value["status"] and payload["extra"]["http"]["surface"] == "gateway"


def test_a_refusal_is_no_stream(served: Served, trust: ssl.SSLContext) -> None:
    """What is refused before anything was said has its status, whatever the client accepts."""
    found = served.ask("ECHO", "/text", {}, context=trust, Accept=STREAM)
    assert (found.status, found.value["reason"]) == (422, "invalid-input")
    plain = served.ask("ECHO", "/text", {"text": "one"}, context=trust, Accept=f"application/json, {STREAM};q=0")
    assert plain.value["result"]["words"] == 1


def test_a_client_that_takes_events_too_gets_what_it_prefers(served: Served, trust: ssl.SSLContext) -> None:
    """Some generated clients list every media type of the document, in its order, and read the answer as JSON."""
    for accept, kind in (
        (f"application/vnd.agtp+json, application/json, {STREAM}", "application/vnd.agtp+json"),
        (f"{STREAM};q=0.5, application/json", "application/vnd.agtp+json"),
        (f"{STREAM}, application/json", STREAM),
        (f"{STREAM}, */*", STREAM),
        (f"application/json;q=0.5, {STREAM}", STREAM),
    ):
        found = served.ask("ECHO", "/text", {"text": "one"}, context=trust, Accept=accept)
        assert found.fields["Content-Type"] == kind, accept


# Foreign clients


def test_curl_calls_by_its_own_verbs(served: Served) -> None:
    words = ["curl", "-sS", "--cacert", str(served.host.state / "ca.pem"), "-H", f"Authorization: Bearer {TOKEN}"]
    url = f"https://localhost:{served.port}"
    room = json.dumps(nights(5))
    done = subprocess.run([*words, "-i", "-X", "BOOK", f"{url}/room", "-d", room], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert b"HTTP/1.1 200 OK" in done.stdout and b"Attribution-Record: " in done.stdout
    for octets, wrong in ((done.stdout, ""), (done.stdout.replace(b'"nights":1', b'"nights":2'), "result-hash")):
        words_ = ["audit", "verify", "--record", "-", "--config", str(served.host.config), "--json"]
        verified = CliRunner().invoke(command, words_, input=octets)
        found = json.loads(verified.stdout)
        assert (verified.exit_code, found["verified"]) == (4 if wrong else 0, not wrong), verified.output
        assert [check["name"] for check in found["checks"] if not check["ok"]] == ([wrong] if wrong else [])
    failing = subprocess.run([*words, "-f", "-X", "BOOK", f"{url}/room", "-d", "{}"], capture_output=True, timeout=60)
    assert failing.returncode == 22


def test_requests_and_a_session(served: Served) -> None:
    with requests.Session() as session:
        session.trust_env = False
        session.verify = str(served.host.state / "ca.pem")
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        for number in range(3):
            found = session.request("ECHO", f"https://localhost:{served.port}/text", json={"text": "x " * number})
            assert found.json()["result"]["words"] == number
            assert ("Supported-Methods" in found.headers) is (number == 0)
        with pytest.raises(requests.HTTPError, match="460"):
            session.get(f"https://localhost:{served.port}/book/room").raise_for_status()


FETCH = """
const [, , url, token] = process.argv;
const answer = await fetch(url + '/text', {
  method: 'ECHO', body: JSON.stringify({text: 'from node'}),
  headers: {authorization: `Bearer ${token}`, 'content-type': 'application/json'},
});
const told = await fetch(url + '/text', {
  method: 'ECHO', body: JSON.stringify({text: 'from node'}),
  headers: {authorization: `Bearer ${token}`, 'content-type': 'application/json', accept: 'text/event-stream'},
});
const lines = (await told.text()).split('\\n').filter(line => line.startsWith('event: '));
const body = await answer.json();
console.log(JSON.stringify([answer.status, answer.headers.get('agtp-status'), body.result.words, lines]));
"""


def test_fetch_of_node(served: Served, tmp_path: Path) -> None:
    node = shutil.which("node")
    assert node is not None, "node is not installed"
    script = tmp_path / "fetch.mjs"
    script.write_text(FETCH)
    done = subprocess.run(
        [node, str(script), f"https://localhost:{served.port}", TOKEN],
        env={"PATH": "/usr/bin:/bin", "NODE_EXTRA_CA_CERTS": str(served.host.state / "ca.pem")},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [200, "200 OK", 2, ["event: interim", "event: interim", "event: result"]]


def test_a_reload_changes_who_may_call(served: Served, trust: ssl.SSLContext) -> None:
    """Whoever shows nothing calls as ``[gateway] agent``, with assurance ``header``, from the next request on."""
    config = served.host.config
    before = config.read_text()
    assert served.ask("ECHO", "/text", {"text": "x"}, token=None, context=trust).status == 401
    config.write_text(before.replace("[gateway]\n", '[gateway]\nagent = "demo"\n'))
    try:
        done = served.host.agtp("reload")
        assert done.returncode == 0 and "[gateway]" in done.stdout, done.stdout + done.stderr
        found = served.ask("ECHO", "/text", {"text": "x"}, token=None, context=trust)
        payload = served.payload(found.fields["Attribution-Record"])
        assert (found.status, payload["identity_assurance"]) == (200, "header")
        assert payload["extra"]["http"]["client"] == "" and "operator" not in payload
        # An operator calls as that agent, without other rights; the record says who it was.
        shown = _context_of(served.host.state, "registrar")
        found = served.ask("ECHO", "/text", {"text": "x"}, token=None, context=shown)
        payload = served.payload(found.fields["Attribution-Record"])
        assert (found.status, payload["identity_assurance"], payload["operator"]["name"]) == (200, "header", "admin")
        looked = served.ask("INSPECT", "/", {"target": "feed", "moment": "opens"}, token=None, context=shown)
        assert looked.status == 403
        # A wrong token is a wrong token: it makes nobody of its client.
        assert served.ask("ECHO", "/text", {"text": "x"}, token="wrong", context=trust).status == 401
    finally:
        config.write_text(before)
        served.host.agtp("reload")
