"""
How much Python one answer takes: function calls between the octets of a request and those of its answer.

Seconds depend on who else uses the machine; calls do not, and each is a tenth of a microsecond and more.
"""

from __future__ import annotations

import gc
import linecache
import re
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from agtphost.audit import record_text, space, tree
from agtphost.identity.peer import Peer
from agtphost.testing import MemoryHost
from agtphost.wire import codec
from tests.bench.call_bounds import FUNCTION_CALL
from tests.bench.measurement import agtp_request

REQUESTS = 8
"""Enough for what is made once, and for what is made at every other request."""

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="interpreters differ in what they call a call")


@pytest.fixture(autouse=True)
def nothing_as_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger asks for free space, and issues checkpoints, as time passes: on a slow machine for more requests."""
    monkeypatch.setattr(tree, "SECONDS", 600.0)
    monkeypatch.setattr(space, "STALE_SECONDS", 600.0)
    monkeypatch.setattr(space, "SPACE_SECONDS", 600.0)


def host_and_send() -> tuple[MemoryHost, Callable[[], bytes]]:
    """A host with one function of the usual kind, and what has it answer one request."""
    host = MemoryHost()
    text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    host.endpoint("ECHO", "/text", lambda context: dict(context.input), {"text": "string"}, output_schema=text)
    demo = host.agent("demo", scopes=["documents:query"])
    connection = host.connect(demo)
    octets = agtp_request(demo.agent_id)

    def send() -> bytes:
        connection.received.clear()
        connection.send(octets)
        host.clock.advance(0)
        return bytes(connection.received)

    return host, send


def calls() -> Counter[str]:
    """Calls of one request by the file that they are in, or that makes them where a function is C's."""
    _, send = host_and_send()
    for _ in range(REQUESTS):
        assert send().startswith(b"AGTP/1.0 200 OK\r\n")
    counted: Counter[str] = Counter()

    def saw(frame: Any, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            counted[frame.f_code.co_filename.rpartition("agtphost/")[2]] += 1

    # A collection of garbage calls functions for objects of other tests.
    gc.collect()
    gc.disable()
    sys.setprofile(saw)
    try:
        for _ in range(REQUESTS):
            send()
    finally:
        sys.setprofile(None)
        gc.enable()
    return Counter({name: count // REQUESTS for name, count in counted.items() if "test" not in name})


OF_QUIC = ("agtphost/protocols/quic/", "agtphost/wire/quic/", "aioquic/")


def executed_lines() -> set[tuple[str, str]]:
    """The lines of source that one request executes, each with its file."""
    host, send = host_and_send()
    send()
    seen: set[tuple[str, int]] = set()

    def trace(frame: Any, event: str, argument: object) -> Any:
        seen.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    host.clock.advance(0)
    sys.settrace(trace)
    try:
        assert send().startswith(b"AGTP/1.0 200 OK\r\n")
    finally:
        sys.settrace(None)
    return {(name, linecache.getline(name, line).strip()) for name, line in seen if "test" not in name}


def test_request_over_tls_executes_nothing_of_quic(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that has no QUIC pays nothing for it: no line that names it or a carrier, and no module of it."""
    words = re.compile(r"quic(?!k)|\bcarrier\b", re.IGNORECASE)
    found = executed_lines()
    assert len(found) > 500, "the tracer sees the request"
    assert {line for name, line in found if words.search(line) or any(package in name for package in OF_QUIC)} == set()
    monkeypatch.setattr("agtphost.testing.host.Peer", partial(Peer, carrier="quic"))
    more = {line for _, line in executed_lines() - found}
    assert "members.update(peer.recorded)" in more


def test_an_answer_takes_no_more_calls_than_it_did() -> None:
    """From octets to octets, signed and stored, all of Python's and all of C's, those of libraries included."""
    counted = calls()
    assert counted.total() <= FUNCTION_CALL, counted.most_common(30)


def test_without_what_is_kept_it_takes_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: fields looked at one by one, and records written by an encoder."""
    monkeypatch.setattr(codec, "_SENDABLE", frozenset())
    monkeypatch.setattr(record_text, "_kind", lambda names: None)
    assert calls().total() > FUNCTION_CALL
