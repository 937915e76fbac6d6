"""
A server of both eras that uses everything besides tools; standard library alone.

``asking.py handshake`` or ``asking.py stateless``. It reads in one thread and
works in others, so that it can be asked, cancelled and answered at once.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from typing import Any

ERA = sys.argv[1]
STATELESS = ERA == "stateless"
MANY = int(sys.argv[2]) if len(sys.argv) > 2 else 0
lock = threading.Lock()
answers: dict[Any, queue.Queue[Any]] = {}
cancelled: set[Any] = set()
seen: list[Any] = []
subscribed: set[str] = set()
listening: dict[Any, Any] = {}
tasks: dict[str, Any] = {}
META = "io.modelcontextprotocol/"


def put(*messages: Any) -> None:
    with lock:
        sys.stdout.write("".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in messages))
        sys.stdout.flush()


def note(method: str, **params: Any) -> None:
    put({"method": method, "params": params})


def ask(method: str, params: Any) -> Any:
    return ask_together({"": (method, params)})[""]


def ask_together(wanted: dict[str, Any]) -> dict[str, Any]:
    """Ask several at once, and return the answers; on a slow machine too they leave together."""
    with lock:
        ids = {key: f"ask-{len(answers) + place}" for place, key in enumerate(wanted)}
        answers.update({call_id: queue.Queue() for call_id in ids.values()})
    put(*({"id": ids[key], "method": method, "params": asked} for key, (method, asked) in wanted.items()))
    return {key: answers[call_id].get(timeout=30) for key, call_id in ids.items()}


def text(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


def tool(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, "description": name, "inputSchema": {"type": "object"}, **members}


STRUCTURED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = [
    tool("elicit"),
    tool("both"),
    tool("roots"),
    tool("progress"),
    tool("wait"),
    tool("seen"),
    tool("pid"),
    tool("touch"),
    tool("exit"),
    tool("task"),
    tool("structured", outputSchema=STRUCTURED),
]
FORM = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 5}


def call(call_id: Any, params: dict[str, Any]) -> Any:
    name, arguments, meta = params["name"], params.get("arguments", {}), params.get("_meta", {})
    if name == "elicit":
        return interview(params, {"who": ("elicitation/create", FORM)})
    if name == "both":
        return interview(params, {"a": ("elicitation/create", FORM), "b": ("sampling/createMessage", SAMPLE)})
    if name == "roots":
        return interview(params, {"r": ("roots/list", {})})
    if name == "progress":
        token = meta.get("progressToken")
        for step in range(3):
            if token is not None:
                note("notifications/progress", progressToken=token, progress=step, total=3, message=f"step {step}")
            note("notifications/message", level="info" if step else "debug", data=f"log {step}")
        return text("done")
    if name == "wait":
        print("waiting", file=sys.stderr, flush=True)
        for _ in range(600):
            if call_id in cancelled:
                seen.append("cancelled")
                return None
            time.sleep(0.05)
    if name == "seen":
        return text({"seen": seen, "meta": meta})
    if name == "pid":
        return text(str(os.getpid()))
    if name == "touch":
        note("notifications/resources/updated", uri="test://one")
        note("notifications/resources/list_changed")
        return text("ok")
    if name == "exit":
        os._exit(4)
    if name == "task":
        tasks["t-1"] = {"taskId": "t-1", "status": "working"}
        return {"resultType": "task", **tasks["t-1"]}
    if name == "structured":
        return {**text("n"), "structuredContent": {"n": arguments.get("n", 1)}}
    return text("?")


def interview(params: dict[str, Any], wanted: dict[str, Any]) -> Any:
    if STATELESS:
        given = params.get("inputResponses") or {}
        if set(wanted) <= set(given) and params.get("requestState") == "state-1":
            return text({"got": given})
        requests = {key: {"method": method, "params": asked} for key, (method, asked) in wanted.items()}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": "state-1"}
    return text({"got": ask_together(wanted)})


def kept(milliseconds: int) -> dict[str, Any]:
    """For how long a list may be kept; the handshake era has no word for it."""
    return {"ttlMs": milliseconds} if STATELESS else {}


def serve(method: str, call_id: Any, params: dict[str, Any]) -> Any:
    if method == "tools/list":
        return {"tools": TOOLS, **kept(1_500)}
    if method == "tools/call":
        return call(call_id, params)
    if method == "resources/list":
        page = int(params.get("cursor", 0))
        listed = [{"uri": f"test://many/{n:04}", "name": f"many {n}"} for n in range(MANY)]
        listed = [{"uri": "test://one", "name": "one"}, {"uri": "test://two", "name": "two"}, *listed]
        end = page + 100
        more = {"nextCursor": str(end)} if end < len(listed) else {}
        return {"resources": listed[page:end], **more, **kept(9_000 if more else 7_000)}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": "test://item/{id}", "name": "item"}]}
    if method == "resources/read":
        if params["uri"] == "test://gone":
            raise LookupError("no such resource")
        return {"contents": [{"uri": params["uri"], "text": f"content of {params['uri']}"}]}
    if method == "resources/subscribe":
        subscribed.add(params["uri"])
        return {}
    if method == "resources/unsubscribe":
        subscribed.discard(params["uri"])
        seen.append("unsubscribed " + params["uri"])
        return {}
    if method == "prompts/list":
        listed = [{"name": "greet", "arguments": [{"name": "who", "required": True}]}, {"name": "bye"}]
        return {"prompts": listed, **kept(0)}
    if method == "prompts/get":
        said = f"Hello {params.get('arguments', {}).get('who', '?')}"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}
    if method == "completion/complete":
        return {"completion": {"values": [params["argument"]["value"] + "x", json.dumps(params["ref"])]}}
    if method == "logging/setLevel":
        seen.append("level " + params["level"])
        return {}
    if method == "tasks/get":
        return {**tasks[params["taskId"]], "resultType": "complete"}
    if method == "tasks/update":
        tasks[params["taskId"]]["status"] = "completed"
        return {}
    if method == "tasks/cancel":
        tasks[params["taskId"]]["status"] = "cancelled"
        return {}
    raise LookupError(method)


def work(method: str, call_id: Any, params: dict[str, Any]) -> None:
    try:
        result = serve(method, call_id, params)
    except LookupError as error:
        put({"id": call_id, "error": {"code": -32602, "message": str(error)}})
        return
    if result is not None:
        put({"id": call_id, "result": result})


CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
    "extensions": {"io.modelcontextprotocol/tasks": {}},
}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        method, call_id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method is None:
            answers[call_id].put(message.get("result", {"error": message.get("error")}))
        elif method == "notifications/cancelled":
            cancelled.add(params["requestId"])
            listening.pop(params["requestId"], None)
        elif method == "server/discover" and STATELESS:
            put({"id": call_id, "result": {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES}})
        elif method == "initialize" and not STATELESS:
            seen.append({"client": params["capabilities"]})
            version = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "instructions": "Ask."}
            put({"id": call_id, "result": {**version, "serverInfo": {"name": "asking", "version": "1"}}})
        elif method == "subscriptions/listen":
            listening[call_id] = params["notifications"]
            note("notifications/subscriptions/acknowledged", notifications=params["notifications"])
        elif call_id is not None and method in ("server/discover", "initialize"):
            put({"id": call_id, "error": {"code": -32601, "message": "Method not found"}})
        elif call_id is not None:
            threading.Thread(target=work, args=(method, call_id, params), daemon=True).start()


if __name__ == "__main__":
    main()
