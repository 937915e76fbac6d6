"""The host in memory that handler authors test with: it is a host, and it is in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from agtphost import EndpointContext, EndpointError
from agtphost.errors import ConfigurationError
from agtphost.identity import jws
from agtphost.identity.agents import reconsider
from agtphost.testing import MemoryHost, Unanswered
from agtphost.testing.identities import key_of

Make = Callable[..., MemoryHost]


@pytest.fixture
def make() -> Make:
    return MemoryHost


def echo(context: EndpointContext) -> dict[str, object]:
    """Returns what it is given."""
    return {"echo": dict(context.input)}


def test_a_function_answers_a_known_caller(make: Make) -> None:
    """Through the wire, the gates and the ledger: the record names caller and certificate, and is signed."""
    host = make()
    host.endpoint("QUERY", "/words/{word}", echo, {"times": "integer"})
    demo = host.agent("demo")
    answer = host.call("QUERY", "/words/tea", {"times": 2}, caller=demo)
    assert (answer.status, answer.result) == (200, {"echo": {"word": "tea", "times": 2}})
    assert answer.record["caller_id"] == demo.agent_id
    assert answer.record["identity_assurance"] == "certificate"
    (stored,) = host.records()
    signed = jws.verify(stored.signed.decode(), {host.key.public.kid: host.key.public})
    assert signed == answer.record
    assert stored.audit_id == answer.reply.audit_id


def test_gates_refuse_as_everywhere(make: Make) -> None:
    """Strangers, missing scopes, inputs against the schema, unknown paths: the handler is not called, all is sealed."""
    host = make()
    called: list[EndpointContext] = []
    host.endpoint("RESERVE", "/desk", called.append, {"guest": "string"}, required_scopes=["booking:desk"])
    may, may_not = host.agent("may", scopes=["booking:desk"]), host.agent("may-not")
    stated = host.agent("stated", scopes=["booking:desk"], certificate=False)
    found = [
        (answer.status, answer.reason, answer.record["reason"])
        for answer in (
            host.call("RESERVE", "/desk", {"guest": "Ann"}),
            host.call("RESERVE", "/desk", {"guest": "Ann"}, caller=may_not),
            host.call("RESERVE", "/desk", {"guest": 1}, caller=may),
            host.call("RESERVE", "/chair", {"guest": "Ann"}, caller=may),
        )
    ]
    assert [status for status, _, _ in found] == [401, 262, 422, 404]
    assert all(reason == sealed != "" for _, reason, sealed in found)
    assert not called
    assert host.call("RESERVE", "/desk", {"guest": "Ann"}, caller=stated).record["identity_assurance"] == "header"
    assert len(host.records()) == 5


def test_a_declared_error_is_the_handlers_own(make: Make) -> None:
    """A dictionary as TOML has it, its handler a function."""

    def missing(context: EndpointContext) -> None:
        raise EndpointError("order_unknown", {"id": context.input["id"]})

    host = make(
        endpoints=[
            {
                "method": "QUERY",
                "path": "/orders/{id}",
                "description": "Returns an order.",
                "errors": ["order_unknown"],
                "handler": missing,
                "semantic": {
                    "intent": "Find an order.",
                    "actor": "agent",
                    "outcome": "The order is known.",
                    "capability": "retrieval",
                    "confidence": 1.0,
                    "impact": "informational",
                    "is_idempotent": True,
                },
                "input_schema": {
                    "type": "object",
                    "properties": {"id": {"type": "string"}},
                    "required": ["id"],
                    "additionalProperties": False,
                },
                "output_schema": {"type": "object"},
            }
        ]
    )
    answer = host.call("QUERY", "/orders/17", caller=host.agent("demo"))
    assert (answer.status, answer.reason) == (422, "order_unknown")


def test_what_is_wrong_with_a_declaration_is_said(make: Make) -> None:
    """As at a host's start: every problem, with the endpoint's name."""
    host = make()
    host.endpoint("QUERY", "/words", echo, errors=["no such name"], semantic={"impact": "harmless"})
    with pytest.raises(ConfigurationError) as refused:
        host.call("QUERY", "/words")
    said = str(refused.value)
    assert "QUERY /words" in said and "errors" in said and "impact" in said


def test_wrong_settings_are_said(make: Make) -> None:
    """A key that there is not, and a file that there is not."""
    with pytest.raises(ConfigurationError, match="request_timeuot"):
        make({"limits": {"request_timeuot": 5}})
    with pytest.raises(ConfigurationError, match="does not exist"):
        make({"endpoints": {"directory": "endpoints"}})


def test_a_hosted_agent_is_addressed_by_name(make: Make) -> None:
    """What it answers is in its own chain."""
    host = make()
    host.endpoint("QUERY", "/words", echo)
    desk = host.agent("desk", hosted=True)
    host.agent("shelf", hosted=True)
    answer = host.call("QUERY", "/agents/desk/words", caller=host.agent("demo"))
    assert answer.status == 200
    assert answer.record["agent_id"] == desk.agent_id
    assert len(host.records(desk.agent_id)) == 1


def test_the_protocols_own_methods_are_there(make: Make) -> None:
    """DISCOVER publishes the signed manifest; a lifecycle changes by its registrar alone, and is in force at once."""
    host = make()
    host.endpoint("QUERY", "/words", echo)
    manifest = host.call("DISCOVER", "/").document
    assert manifest["server"]["server_id"] == "host.test"
    assert any(each["path"] == "/words" for each in manifest["endpoints"])
    desk = host.agent("desk", hosted=True)
    wanted = {"agent_id": desk.agent_id, "reason": "tidied up"}
    assert host.call("REVOKE", "/", wanted, caller=host.agent("demo")).status == 403
    registrar = host.identities.of_key(host.identities.registrar)
    assert host.call("REVOKE", "/", wanted, caller=registrar).status == 200
    assert host.call("QUERY", "/agents/desk/words", caller=host.agent("demo")).status == 410


def test_a_call_waits_until_its_time_comes(make: Make) -> None:
    """Time stands still: a handler's timer, and the deadline of a call that never ends."""
    host = make({"limits": {"request_timeout": 5}})
    never: Deferred[object] = Deferred()
    host.endpoint("QUERY", "/later", lambda context: deferLater(host.clock, 3, lambda: {"came": True}))
    host.endpoint("QUERY", "/never", lambda context: never)
    demo = host.agent("demo")
    with pytest.raises(Unanswered):
        host.call("QUERY", "/later", caller=demo)
    answers = [host.begin("QUERY", path, caller=demo, connection=host.connect(demo)) for path in ("/later", "/never")]
    statuses: list[int] = []
    for answer in answers:
        answer.addCallback(lambda found: statuses.append(found.status))
    host.advance(3)
    assert statuses == [200]
    host.advance(2)
    assert statuses == [200, 408]


def test_blocking_functions_run_in_turn(make: Make) -> None:
    """``blocking = true``: the function is the same, its thread is the test's, and what it invokes is waited for."""
    host = make()
    host.endpoint("QUERY", "/inner", echo)
    host.endpoint(
        "QUERY",
        "/outer",
        outer,
        handler={"type": "registered_function", "function": "tests.testing.test_memory_host.outer", "blocking": True},
    )
    answer = host.call("QUERY", "/outer", caller=host.agent("demo"))
    assert (answer.status, answer.result) == (200, {"inner": {"echo": {}}})


def outer(context: EndpointContext) -> dict[str, object]:
    """Calls another endpoint, and waits for it."""
    inner: object = context.invoke("QUERY", "/inner", {})
    return {"inner": inner}


CHANGING = {"impact": "reversible", "capability": "transaction", "is_idempotent": False}


def test_a_restart_keeps_what_was_sealed(make: Make) -> None:
    """The next host on the same store goes on with its chains; a keyed request is answered from what it kept."""
    calls: list[object] = []

    def reserve(context: EndpointContext) -> dict[str, int]:
        calls.append(context)
        return {"number": len(calls)}

    first = make()
    first.endpoint("RESERVE", "/desk", reserve, semantic=CHANGING)
    answer = first.call("RESERVE", "/desk", {}, caller=first.agent("demo"), idempotency_key="one")
    first.close()
    second = make(store=first.store)
    second.endpoint("RESERVE", "/desk", reserve, semantic=CHANGING)
    again = second.call("RESERVE", "/desk", {}, caller=second.agent("demo"), idempotency_key="one")
    assert answer.result == again.result == {"number": 1}
    assert len(calls) == 1
    # Between them stands what the second start signs of the tables of state, once for each store.
    assert [each.audit_id for each in second.records()][::2] == [answer.reply.audit_id, again.reply.audit_id]
    assert again.record["previous_audit_id"] == second.records()[1].audit_id


def test_foreign_octets_are_answered_by_the_hosts_own_protocol(make: Make) -> None:
    """What is no AGTP is refused, sealed, and ends the connection; so does silence."""
    host = make()
    connection = host.connect()
    connection.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert connection.received.startswith(b"AGTP/1.0 400 ")
    assert connection.closed
    assert len(host.records()) == 1
    idle = host.connect()
    host.advance(3600)
    assert idle.closed


def test_names_make_the_same_agents_everywhere(make: Make) -> None:
    """Keys and Agent-IDs follow from names; two hosts agree on them, and two names do not."""
    first, second = make(), make()
    assert first.agent("demo").agent_id == second.agent("demo").agent_id
    assert key_of("demo").seed == key_of("demo").seed != key_of("other").seed
    assert first.agent("other").agent_id != first.agent("demo").agent_id


def test_an_answer_with_a_wrong_record_is_none(make: Make) -> None:
    """The control of what every answer is checked for: a host that signs with another key is not believed."""
    host = make()
    host.key = key_of("somebody else")
    connection = host.connect()
    connection._keys = {key_of("host").public.kid: key_of("host").public}
    with pytest.raises(AssertionError, match="signature"):
        host.call("DISCOVER", "/", connection=connection)


WATCHED = """
import socket, sys, threading
from pathlib import Path
import agtphost.audit.ledger, agtphost.handlers.threads
from agtphost.testing import MemoryHost

MemoryHost().call("DISCOVER", "/")  # Everything is imported.
seen = []

def watch(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        if isinstance(path, int) or flags & 3 or (mode and set(mode) & set("wax+")):
            seen.append((event, str(path)))
    elif event == "sqlite3.connect" and arguments[0] == ":memory:" or event == "sqlite3.connect/handle":
        pass
    elif event.split(".")[0] in ("socket", "subprocess", "sqlite3", "shutil", "tempfile") or event in (
        "os.mkdir", "os.remove", "os.rename", "os.link", "os.truncate",
    ):
        seen.append((event, ""))

class Watched(threading.Thread):
    def start(self):
        seen.append(("thread", self.name))
        super().start()

# Not every version has an audit event for threads.
threading.Thread = agtphost.audit.ledger.Thread = agtphost.handlers.threads.Thread = Watched
sys.addaudithook(watch)
host = MemoryHost()
host.endpoint("QUERY", "/words", lambda context: {"said": "so"})
desk, demo = host.agent("desk", hosted=True), host.agent("demo")
for _ in range(3):
    assert host.call("QUERY", "/words", caller=demo).status == 200
assert host.call("DISCOVER", "/").status == 200
host.advance(3600)
host.close()
print("during:", seen)
socket.socket().close()
threading.Thread(target=print).start()
open("written", "w").close()
print("control:", sorted({event for event, _ in seen}))
"""


def test_there_are_no_sockets_no_threads_and_no_files(tmp_path: Path) -> None:
    """Python's own audit hook sees none; it sees each of them where the script makes one in the end."""
    ran = subprocess.run(
        [sys.executable, "-c", WATCHED], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "during: []" in ran.stdout, ran.stdout
    control = ran.stdout.partition("control:")[2]
    assert all(event in control for event in ("'thread'", "'open'", "'socket.__new__'")), control
    assert [path.name for path in tmp_path.iterdir()] == ["written"]


def test_upstreams_are_down(make: Make, tmp_path: Path) -> None:
    """Nothing connects to anybody and no server is started: callers are told as where an upstream is down."""
    server = {"name": "files", "command": [sys.executable, "-c", "raise SystemExit"], "cwd": str(tmp_path)}
    host = make({"mcp": {"server": [server]}})
    kinds = ("timeout", "connection_error", "malformed_response", "authentication_failed", "error")
    host.endpoint(
        "QUERY",
        "/weather",
        echo,
        handler={"type": "external_service", "url": "https://weather.test/now", "method": "GET"},
        errors=[f"upstream_{kind}" for kind in kinds],
    )
    demo = host.agent("demo", scopes=["mcp:*"])
    answer = host.call("QUERY", "/weather", caller=demo)
    assert (answer.status, answer.reason) == (422, "upstream_connection_error")
    tool = b'{"action":"mcp.tools.call","payload":{"tool":"read","arguments":{}}}'
    answer = host.call("EXECUTE", "/mcp/files", body=tool, content_type="application/vnd.mcp.tools+json", caller=demo)
    assert answer.status == 503, answer.explanation


def test_what_two_hosts_have_alike_is_changed_for_one_of_them() -> None:
    """An agent is issued once in a process; a host that resolves its posture anew leaves that of other hosts alone."""
    first, second = (MemoryHost().agent("twin", tier=1) for _ in range(2))
    assert (first.agent_id, first.certificate) == (second.agent_id, second.certificate)
    assert reconsider(first.agent, issuer_known=False)
    tiers = [each.agent.posture.trust_tier for each in (first, second, MemoryHost().agent("twin", tier=1))]
    assert tiers == [2, 1, 1]


def test_settings_that_name_a_file_are_read_each_time(tmp_path: Path) -> None:
    """Those that name none are read once in a process; a file may be gone by the time of the next host."""
    settings = {"recipes": {"file": str(tmp_path / "recipes.toml")}}
    (tmp_path / "recipes.toml").touch()
    assert MemoryHost(settings).config is not MemoryHost(settings).config
    assert MemoryHost().config is MemoryHost().config
    (tmp_path / "recipes.toml").unlink()
    with pytest.raises(ConfigurationError, match="a file that does not exist"):
        MemoryHost(settings)
