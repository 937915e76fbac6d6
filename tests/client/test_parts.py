"""The sans-I/O parts of both clients: conversation, pool, retries, terminal text, layering."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.client import ConnectionLost, ProtocolBroken
from agtphost.client.conversation import Conversation
from agtphost.client.pool import Pool
from agtphost.client.reply import Reply, reply_of
from agtphost.client.requests import Identity, PreparedCall, prepare
from agtphost.client.retries import IDEMPOTENT_METHODS, LONGEST_WAIT, RetryPolicy, is_repeatable
from agtphost.client.terminal import escape, escape_octets, render_json
from agtphost.vocabulary.escaping import MOST_MARKS
from agtphost.wire import Headers, Response, serialize_response
from tests.rows import each_row

CALL: PreparedCall = prepare("agtp://localhost", "QUERY", identity=Identity())
INTERIM = serialize_response(Response(status=202, headers=Headers([("Continuation-Token", "c")])))
TEXT = Headers([("Content-Type", "text/plain")])
FINAL = serialize_response(Response(status=200, headers=TEXT, body=b"done"))


@given(st.data())
def test_an_answer_may_arrive_in_any_pieces(data: st.DataObject) -> None:
    """Whole, octet by octet or cut anywhere: the replies are the same."""
    octets = INTERIM + INTERIM + FINAL
    cuts = sorted(data.draw(st.sets(st.integers(1, len(octets) - 1))))
    conversation = Conversation()
    conversation.ask(CALL)
    replies: list[Reply] = []
    for start, end in zip([0, *cuts], [*cuts, len(octets)], strict=True):
        assert not conversation.reusable
        replies.extend(conversation.receive(octets[start:end]))
    assert [(reply.status, reply.interim, reply.body) for reply in replies] == [
        (202, True, b""),
        (202, True, b""),
        (200, False, b"done"),
    ]
    assert conversation.reusable


def test_an_end_before_the_answer_and_within_it_differ() -> None:
    """Only the first can be a connection that was dead before."""
    for octets, answered in ((b"", False), (b"A", True), (FINAL[:-1], True), (INTERIM, True)):
        conversation = Conversation()
        conversation.ask(CALL)
        conversation.receive(octets) if octets else None
        with pytest.raises(ConnectionLost) as lost:
            conversation.receive(b"")
        assert lost.value.answered is answered
        assert not conversation.reusable


def test_errors_of_the_peer_are_printable() -> None:
    """Octets of a hostile server do not reach the terminal in an error's text."""
    conversation = Conversation()
    conversation.ask(CALL)
    with pytest.raises(ProtocolBroken) as broken:
        conversation.receive(b"\x1b]0;evil\x07\r\n\r\n")
    assert str(broken.value).isprintable()


class Pooled:
    """A connection of a pool."""

    def __init__(self, *, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self.reusable = True


def pool_of(*connections: Pooled) -> Pool[str, Pooled]:
    """A pool with connections that a call uses each."""
    pool: Pool[str, Pooled] = Pool(idle=10)
    for each in connections:
        assert pool.open("k", len(connections))
        pool.add("k", each)
    return pool


def test_the_pool_counts_what_is_open() -> None:
    """No more connections than the bound, those that are opened included; free ones come back newest first."""
    old, new, broken = Pooled(), Pooled(), Pooled()
    pool = pool_of(old, new, broken)
    assert pool.take("k", 0.0) is None
    assert not pool.open("k", 3) and pool.open("k", 4) and not pool.open("k", 4) and pool.open("other", 1)
    pool.abandon("k")
    assert not pool.give_back("k", old, 0.0, keep=True) and not pool.give_back("k", new, 1.0, keep=True)
    assert pool.give_back("k", broken, 1.0, keep=False)
    assert pool.count("k") == 2
    assert [pool.take("k", 2.0) for _ in range(3)] == [new, old, None]


def test_the_pool_hands_out_nothing_stale() -> None:
    """A connection that lay too long is given to the caller to close, and no longer counts."""
    old, new = Pooled(), Pooled()
    pool = pool_of(old, new)
    pool.give_back("k", old, 0.0, keep=True)
    pool.give_back("k", new, 5.0, keep=True)
    assert pool.stale(10.0) == [("k", old)]
    assert pool.count("k") == 1
    assert pool.take("k", 20.0) is None
    assert pool.stale(20.0) == [("k", new)]
    assert pool.count("k") == 0


def test_the_pool_forgets_what_ended() -> None:
    """A connection that ended is forgotten once; its last call has nothing more to end where it lay unused."""
    first, second, used = Pooled(), Pooled(), Pooled()
    pool = pool_of(first, second, used)
    for each in (first, second):
        pool.give_back("k", each, 0.0, keep=True)
    assert pool.remove("k", first) and not pool.remove("k", first) and not pool.remove("k", Pooled())
    assert pool.drop("k") == [second]
    assert pool.count("k") == 1
    assert pool.remove("k", used) and not pool.remove("k", used)
    assert pool.count("k") == 0
    assert pool.give_back("k", used, 0.0, keep=True)


def test_a_shared_connection_serves_calls_until_it_is_retired() -> None:
    """Calls get it while it is in use; once it is retired they get another, and it ends with its last call."""
    shared = Pooled(is_shared=True)
    pool = pool_of(shared)
    assert pool.take("k", 100.0) is shared and pool.take("k", 200.0) is shared
    shared.reusable = False
    assert pool.take("k", 200.0) is None
    shared.reusable = True
    assert not pool.give_back("k", shared, 0.0, keep=False)
    assert pool.take("k", 0.0) is None and pool.open("k", 1)
    assert not pool.give_back("k", shared, 0.0, keep=True)
    assert pool.stale(1000.0) == []
    assert pool.give_back("k", shared, 0.0, keep=True)


def test_a_drained_pool_keeps_nothing() -> None:
    """Free connections are handed to the caller; the others get no further calls, and end with those they have."""
    free, shared = Pooled(), Pooled(is_shared=True)
    pool = pool_of(free, shared)
    pool.give_back("k", free, 0.0, keep=True)
    assert pool.drain() == [("k", free)]
    assert pool.take("k", 0.0) is None and pool.count("k") == 0
    assert pool.give_back("k", shared, 0.0, keep=True)


def refused(status: int, **headers: str) -> Reply:
    """A reply of that status."""
    fields = Headers([(name.replace("_", "-"), value) for name, value in headers.items()])
    return reply_of(Response(status=status, headers=fields), line=b"", body=b"", agent_id=None, interims=0)


def test_waits_grow_and_end() -> None:
    """Without Retry-After the waits double, with jitter; a server's own number is kept, if it is bearable."""
    policy = RetryPolicy(statuses=3, jitter=lambda: 1.0)
    waits = [policy.wait_after(refused(503), True, attempt) for attempt in (1, 2, 3, 4)]
    assert waits == [0.5, 1.0, 2.0, None]
    assert RetryPolicy(statuses=1, jitter=lambda: 0.0).wait_after(refused(503), True, 1) == 0.25
    assert policy.wait_after(refused(429, Retry_After="7"), True, 1) == 7.0
    assert policy.wait_after(refused(429, Retry_After=str(int(LONGEST_WAIT) + 1)), True, 1) is None
    assert policy.wait_after(refused(429, Retry_After="soon"), True, 1) == 0.5
    assert RetryPolicy().wait_after(refused(503), True, 1) is None


@each_row("status", [200, 262, 400, 401, 403, 408, 409, 410, 422, 455, 456, 457, 458, 500, 551])
def test_no_other_status_is_tried_again(status: int) -> None:
    """410, 455, 456, 457 and 458 above all (AGTP-076, AGTP-079, AGTP-080, AGTP-081, AGTP-297)."""
    assert RetryPolicy(statuses=9).wait_after(refused(status), True, 1) is None


def test_what_is_repeatable() -> None:
    """The tables of the drafts, a key, or the caller's knowledge; nothing else (METH-053, API-071)."""
    assert is_repeatable("QUERY", keyed=False, idempotent=None)
    assert not is_repeatable("QUERY", keyed=False, idempotent=False)
    assert is_repeatable("PURCHASE", keyed=True, idempotent=None)
    assert is_repeatable("BOOK", keyed=False, idempotent=True)
    changing = {"EXECUTE", "DELEGATE", "NOTIFY", "PROPOSE", "SUSPEND", "REVOKE", "PULL", "BATCH", "RETRY"}
    assert not IDEMPOTENT_METHODS & changing


@each_row(
    ("text", "safe"),
    [
        ("plain text", "plain text"),
        ("gr\u00fc\u00df \u65e5\u672c", "gr\u00fc\u00df \u65e5\u672c"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\r\nb\tc", "a\\x0d\\x0ab\\x09c"),
        ("\x00\x07\x7f\x9b", "\\x00\\x07\\x7f\\x9b"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u200b\u2066\ufeff", "\\u200b\\u2066\\ufeff"),
        ("\u2028", "\\u2028"),
        ("\U000e0041", "\\U000e0041"),
        ("\ud800", "\\ud800"),
    ],
)
def test_terminal_text_is_escaped(text: str, safe: str) -> None:
    """Controls, bidi marks and invisible characters become visible (HAIDIP-047)."""
    assert escape(text) == safe


@given(st.binary(max_size=200))
def test_no_octets_reach_a_terminal_unescaped(octets: bytes) -> None:
    """Whatever a host sends: what is printed is printable, but for line ends and tabs."""
    shown = escape_octets(octets)
    assert all(character in "\n\t" or character.isprintable() or character.isspace() for character in shown)
    assert "\x1b" not in shown and "\r" not in shown


def test_json_for_people_stays_json() -> None:
    """Escapes are JSON's own, so that what is shown can be read back."""
    import json

    value = {"a": "\x1b[2J \u202e \u00fc", "b": [1, None]}
    shown = render_json(value)
    assert json.loads(shown) == value
    assert "\u00fc" in shown and "\u202e" not in shown and "\x1b" not in shown


@pytest.mark.parametrize("show", [escape, lambda text: render_json(text)[1:-1]], ids=["text", "json"])
def test_no_tower_of_marks_covers_other_lines(show: Callable[[str], str]) -> None:
    """Four marks on a character are drawn, as scripts have them; what is piled up on those is written out."""
    tower = "Z" + "\u0302\u0334" * 30 + "!"
    marks = [each for each in show(tower) if each in "\u0302\u0334"]
    assert len(marks) == MOST_MARKS and show(tower).endswith("!")
    assert show(tower).count("\\u0302") == 28
    for word in (
        "\u05d1\u05bc\u05b0\u05e8\u05b5\u05d0\u05e9\u05c1\u05b4\u05d9\u05ea",
        "Vie\u0302\u0323t",
        "\u0939\u093f\u0928\u094d\u0926\u0940",
    ):
        assert show(word) == word


def test_the_reply_helpers_escape() -> None:
    """Head and body of a hostile reply can be printed."""
    headers = Headers([("X", "a\tb"), ("Content-Type", "x")])
    response = Response(status=200, text="OK", headers=headers, body=b"\x1b]0;x\x07\n")
    reply = reply_of(response, line=b"", body=b"", agent_id=None, interims=0)
    assert reply.printable_head == "AGTP/1.0 200 OK\nX: a\\x09b\nContent-Type: x"
    assert reply.printable_body == "\\x1b]0;x\\x07\n"


@each_row(
    ("status", "body", "ok", "result", "reason"),
    [
        (200, b'{"status":200,"result":[1]}', True, [1], ""),
        (200, b"[1]", True, [1], ""),
        (204, b"", True, None, ""),
        (202, b"not json", True, None, ""),
        (262, b'{"reason":"scope-required"}', False, {"reason": "scope-required"}, "scope-required"),
        (404, b'{"error":"e","code":7}', False, {"error": "e", "code": 7}, "e"),
        (404, b'{"error":{"code":"e","message":"m"}}', False, {"error": {"code": "e", "message": "m"}}, "e"),
        (404, b'{"error":{"code":7}}', False, {"error": {"code": 7}}, ""),
        (301, b"", False, None, ""),
    ],
)
def test_what_a_reply_says(status: int, body: bytes, ok: bool, result: object, reason: str) -> None:
    """2xx is success, except 262, which asks for authorization; envelopes are opened where there are any."""
    response = Response(status=status, headers=Headers(), body=body)
    reply = reply_of(response, line=b"", body=b"", agent_id=None, interims=0)
    assert (reply.ok, reply.result, reply.reason) == (ok, result, reason)


def test_the_blocking_client_needs_no_reactor() -> None:
    """Importing and making it installs no reactor and does not even import Twisted."""
    code = (
        "import sys, agtphost.client.sync as s; s.Client().close();"
        "print([name for name in sys.modules if name.startswith('twisted')])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
