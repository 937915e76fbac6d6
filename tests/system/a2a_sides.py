"""One A2A agent of the official SDK at two places: reached directly, and behind the front of a host."""

from __future__ import annotations

import http.server
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from agtphost.identity.provisioning import provision_development
from tests.adapters.peers import process, python
from tests.pypi import environment
from tests.system.held_calls import fingerprint
from tests.system.hosting import Host, free_port, running, sample, until

SCRIPT = Path(__file__).parents[1] / "adapters" / "a2a" / "servers" / "whole_agent.py"

SETTINGS = """
[[a2a.agent]]
name = "whole"
url = "http://127.0.0.1:{upstream}"
scopes = ["mcp:tools:execute"]
min_assurance = "{least}"
push_origins = {origins}
timeout = 30
{more}

[a2a.front]
listen = "tcp:{front}:interface=127.0.0.1"
agent_id = "{agent_id}"
{tokens}

[[a2a.front.agent]]
name = "helper"
upstream = "whole"
"""

PATHS: dict[str, tuple[str, str]] = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", "/tasks/{id}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("POST", "/tasks/{id}:subscribe"),
    "CreateTaskPushNotificationConfig": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
    "GetTaskPushNotificationConfig": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "ListTaskPushNotificationConfigs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
    "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
}
STREAMED = ("SendStreamingMessage", "SubscribeToTask", "message/stream", "tasks/resubscribe")


@dataclass
class Side:
    """Where the agent is reached, and how."""

    home: str
    """Below it is the card."""

    rpc: str
    """URL of JSON-RPC, and the base of HTTP+JSON."""

    token: str = ""
    version: str = "1.0"
    rest: bool = False
    host: Host | None = None
    upstream: int = 0
    """Port of the agent itself."""

    web: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=30))

    def fields(self, **more: str) -> dict[str, str]:
        given = {"A2A-Version": self.version, "Content-Type": "application/json", **more}
        if self.token:
            given["Authorization"] = f"Bearer {self.token}"
        return {name: value for name, value in given.items() if value}

    def call(self, operation: str, params: Any = None, **fields: str) -> Any:
        """An operation, in the binding of this side; its answer as :func:`answer_of` has it."""
        with self.opened(operation, params, **fields) as response:
            return answer_of(response)

    @contextmanager
    def opened(self, operation: str, params: Any = None, **fields: str) -> Iterator[httpx.Response]:
        """The same, while the answer is read."""
        given = dict(params or {})
        if not self.rest:
            body = {"jsonrpc": "2.0", "id": 7, "method": operation, "params": given}
            with self.web.stream("POST", self.rpc, json=body, headers=self.fields(**fields)) as response:
                yield response
            return
        method, path = PATHS[operation]
        for name in re.findall(r"{(\w+)}", path):
            path = path.replace(f"{{{name}}}", str(given.pop(name)))
        more: dict[str, Any] = {"json": given} if method == "POST" and given else {"params": given}
        with self.web.stream(method, f"{self.rpc}{path}", headers=self.fields(**fields), **more) as response:
            yield response

    def raw(self, method: str, path: str, content: bytes | str | None = None, **fields: str) -> Any:
        """One HTTP request, as it is."""
        with self.web.stream(method, f"{self.rpc}{path}", content=content, headers=self.fields(**fields)) as response:
            return answer_of(response)


def answer_of(response: httpx.Response) -> dict[str, Any]:
    """An HTTP answer: its status, its type, and its JSON or events."""
    kind = response.headers.get("content-type", "").partition(";")[0]
    if kind == "text/event-stream":
        return {"status": response.status_code, "kind": kind, "events": list(events_of(response))}
    octets = response.read()
    try:
        return {"status": response.status_code, "kind": kind, "body": json.loads(octets)}
    except ValueError:
        return {"status": response.status_code, "kind": "", "body": None}


def events_of(response: httpx.Response) -> Iterator[Any]:
    """The events of a stream: what each is called, and its JSON."""
    name, data = "", ""
    for line in response.iter_lines():
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data += line[5:].strip()
        elif not line and data:
            yield [name, json.loads(data)]
            name, data = "", ""


# What is compared

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}")
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")


def plain(value: Any, *, old: bool = False) -> Any:
    """
    An outcome with ids as they were met, and without times, ports and the words of errors.

    :param old: whether it is of A2A 0.3, where the SDK gives no reasons and leaves out a result that is null.
    """
    met: dict[str, str] = {}

    def each(value: Any) -> Any:
        if isinstance(value, dict):
            if type(value.get("code")) is int and isinstance(value.get("message"), str):
                return error(value)
            return {
                name: "TOKEN" if name == "nextPageToken" and inner else each(inner)
                for name, inner in sorted(value.items())
                if not (old and name == "result" and inner is None)
            }
        if isinstance(value, list):
            return [each(inner) for inner in value]
        if isinstance(value, str):
            text = _STAMP.sub("TIME", value)
            return _UUID.sub(lambda found: met.setdefault(found[0], f"id-{len(met) + 1}"), text)
        return value

    def error(value: dict[str, Any]) -> Any:
        """Its code, its status and the reasons that it gives; of JSON-RPC's own errors the SDK gives none."""
        told = value.get("data", value.get("details"))
        if old or value["code"] in (-32700, -32600, -32601):
            told = None
        reasons = [(one.get("reason"), one.get("domain")) for one in told or () if "reason" in one]
        return {"code": value["code"], "status": value.get("status"), "reasons": reasons}

    return each(value)


# Both


OLD_AGENT = Path(__file__).parent / "a2a_clients" / "old_agent.py"


def agent(style: str) -> AbstractContextManager[int]:
    """The agent in a process of its own, of which this tells the port; ``old`` is one of the SDK 0.3."""
    if style != "old":
        found: AbstractContextManager[int] = python(SCRIPT, style)
        return found
    home = environment("a2a-old-agent", "a2a-sdk[http-server]>=0.3.26,<0.4", "httpx<1", "uvicorn")
    return process(str(home / "python"), str(OLD_AGENT))


@contextmanager
def direct(style: str = "whole") -> Iterator[Side]:
    """The agent itself."""
    with agent(style) as port:
        base = f"http://127.0.0.1:{port}"
        yield Side(home=base, rpc=f"{base}/rpc")


@contextmanager
def behind(
    folder: Path, style: str = "whole", *, origins: str = '["*"]', tokens: str = "", more: str = ""
) -> Iterator[Side]:
    """
    The same behind a host, of which the registrar's key is an operator's.

    :param more: further keys of the agent, in TOML.

    :param origins: where it may push to, in TOML.
    :param tokens: of clients, divided by spaces; empty: anybody calls.
    """
    config = sample(folder)
    state = config.parent / "state"
    provision_development(state, server_id="localhost", hosted=[config.parent / "agents" / "librarian.agent.json"])
    demo = json.loads((state / "agents/demo/document.json").read_text())["agent_id"]
    front = free_port()
    listed = []
    for token in tokens.split():
        file = config.parent / f"{token}.token"
        file.touch(mode=0o600)
        file.write_text(token)
        listed.append(f'"file:{token}.token"')
    with agent(style) as upstream:
        settings = SETTINGS.format(
            upstream=upstream,
            front=front,
            agent_id=demo,
            least="gateway" if listed else "header",
            origins=origins,
            tokens=f"tokens = [{', '.join(listed)}]" if listed else "",
            more=more,
        )
        settings += f'\n[audit]\noperators = ["{fingerprint(state / "registrar.pem")}"]\n'
        config.write_text(config.read_text() + settings)
        with running(config) as host:
            until(lambda: "the A2A front is served" in host.output)
            base = f"http://127.0.0.1:{front}"
            until(lambda: httpx.get(f"{base}/.well-known/agent-card.json").status_code == 200)
            yield Side(home=base, rpc=f"{base}/agents/helper", host=host, upstream=upstream)


@contextmanager
def webhook() -> Iterator[tuple[str, Callable[[int], list[Any]]]]:
    """A place to push to: its URL, and what waits for so many pushes and tells them."""
    pushed: list[Any] = []
    came = threading.Condition()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told = {name: self.headers.get(name) for name in ("X-A2A-Notification-Token", "Authorization")}
            with came:
                pushed.append({"path": self.path, "fields": told, "body": body})
                came.notify_all()
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    def wait(count: int) -> list[Any]:
        with came:
            assert came.wait_for(lambda: len(pushed) >= count, 20), f"{len(pushed)} of {count} pushes came"
            return pushed[:]

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", wait
    finally:
        server.shutdown()
        server.server_close()
        serving.join(5)
