"""Framing, smuggling and pipelining: what is done with the octets of requests."""

from __future__ import annotations

import selectors
import socket
import ssl
import time

from tests.attacks.attack import MIB, Attack, Target
from tests.attacks.strikes import addresses, each_alone, gone, opened, plain, said, turns
from tests.system.raw_link import Answer, RawLink, client_context, request

GARBAGE = b"\x00\xff NOT AGTP AT ALL \r\r\n\n" * 8
HEAD = b"AGTP/1.0 ECHO /text\r\nContent-Type: application/vnd.agtp+json\r\n"
BODY = b'{"text": "x"}'
INNER = b"AGTP/1.0 DISCOVER /methods\r\nRequest-ID: smuggled\r\n\r\n"
"""A request that must never be seen as one while it is in the body of another."""


def refused(message: bytes, answer: Answer | None) -> None:
    """400 and nothing else; 429 where refusals are summed up."""
    assert answer is None or answer.status in (400, 413, 414, 429, 431), (message[:200], answer)


def garbage(target: Target, seconds: float) -> None:
    each_alone(target, seconds, [GARBAGE, b"\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", bytes(range(256)) * 4], refused)


def _lengths() -> list[bytes]:
    length = str(len(INNER)).encode()
    odd = (
        *(b"Content-Length: 0\r\nContent-Length: " + length, b"Content-Length: " + length + b"\r\ncontent-length: 0"),
        *(b"Content-Length: " + length + b", 0", b"Content-Length: +" + length, b"Content-Length: 0x10"),
        *(b"Content-Length : " + length, b"Content-Length:\r\n " + length, b"Content-Length: 1_0"),
        *(b"Transfer-Encoding: chunked", b"Content-Length: " + length + b"\r\nTransfer-Encoding: identity"),
        *("Content-Length: ٥".encode(), b"Content-Length: 00", b"Content-Length: " + b"9" * 400, b"Content-Length:"),
    )
    return [HEAD + header + b"\r\n\r\n" + INNER for header in odd]


def smuggled(target: Target, seconds: float) -> None:
    """Each is refused once, and what follows is never read."""
    context = client_context(target)
    messages = _lengths()
    for number in turns(seconds):
        message = messages[number % len(messages)]
        link = opened(target, context, "127.0.3.1")
        if link is None:
            continue
        with link:
            link.send(message)
            answer = said(link)
            refused(message, answer)
            assert said(link) is None, f"the host went on reading after {message[:120]!r}"


def unread(target: Target, seconds: float) -> None:
    """20 peers send as fast as they can, and read no answer."""
    payload = b"AGTP/1.0 QUERY /\r\n\r\n" * 500
    contexts = [client_context(target), client_context(target, identified=False)]
    links: list[RawLink] = []
    for number, source in zip(range(20), addresses(), strict=False):
        link = opened(target, contexts[number % 2], source)
        if link is not None:
            links.append(link)
            link.tls.setblocking(False)
    end = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for link in links:
            selector.register(link.tls, selectors.EVENT_WRITE, link)
        while selector.get_map() and time.monotonic() < end:
            for key, _ in selector.select(0.1):
                try:
                    key.data.tls.send(payload)
                except (ssl.SSLWantWriteError, BlockingIOError):
                    continue
                except OSError:
                    selector.unregister(key.fileobj)
    for link in links:
        link.close()


def pipelined(target: Target, seconds: float) -> None:
    """Answers come in the order of the requests, each with its own body and Request-ID."""
    burst = 50
    with RawLink(target, context=client_context(target), source="127.0.3.1") as link:
        for turn in turns(seconds, most=150):
            names = [f"{turn}-{number}" for number in range(burst)]
            link.send(b"".join(request("ECHO", "/text", {"text": name}, Request_ID=name) for name in names))
            for name in names:
                answer = link.answer()
                assert answer is not None, "the host closed a connection with requests on it"
                assert answer.status in (200, 429), answer
                assert answer.headers["request-id"] == name, (name, answer.headers)
                assert answer.status == 429 or answer.json()["result"]["text"] == name, (name, answer.body)


def header_bombs(target: Target, seconds: float) -> None:
    """
    A header of 4 MiB, half a million headers, an endless request line: refused when the limit is passed.

    What still comes after that is taken and thrown away for the three seconds that a close may take.
    """
    context = client_context(target, identified=False)
    bombs = [
        (b"AGTP/1.0 ECHO /text\r\nRequest-ID: ", b"x" * 65_536),
        (b"AGTP/1.0 ECHO /text\r\n", b"A: b\r\n" * 10_000),
        (b"AGTP/1.0 ECHO /", b"y" * 65_536),
        (b"AGTP/1.0 ECHO /text\r\n", b"\r" * 65_536),
    ]
    for number, source in zip(turns(seconds), addresses(), strict=False):
        link = opened(target, context, source)
        if link is None:
            continue
        head, more = bombs[number % len(bombs)]
        with link:
            try:
                link.send(head)
                for _ in range(64):
                    link.send(more)
            except OSError:
                pass
            refused(head, said(link))


def bodies_that_do_not_come(target: Target, seconds: float) -> None:
    """Announced with a mebibyte each, by strangers and by an agent; half of it is sent, and no more."""
    contexts = [client_context(target), client_context(target, identified=False)]
    head = HEAD + b"Content-Length: 1000000\r\n\r\n" + b" " * 1000
    links = []
    for number, source in zip(turns(seconds, most=200), addresses(), strict=False):
        link = opened(target, contexts[number % 2], source)
        if link is None:
            continue
        links.append(link)
        try:
            link.send(head)
        except OSError:
            continue
    time.sleep(max(0.0, min(1.0, seconds / 4)))
    for link in links:
        link.close()


def injected(target: Target, seconds: float) -> None:
    """What is echoed never adds a line: such a request is refused, and its octets are not in the answer."""
    evil = [b"a\rX-Evil: 1", b"a\nX-Evil: 1", b"a\x00b", b"a\x1b[31m", b"\xe2\x80\xae", b"a b", b"x" * 129, b"a\x7f"]
    names = (b"Request-ID", b"Task-ID", b"Session-ID", b"Agent-ID")
    messages = [HEAD + name + b": " + value + b"\r\n\r\n" for name in names for value in evil]

    def judge(message: bytes, answer: Answer | None) -> None:
        assert answer is None or answer.status in (400, 401, 429), (message, answer)
        shown = "" if answer is None else repr(answer.headers)
        assert "x-evil" not in shown and "\\x" not in shown and "\\u" not in shown, (message, shown)

    each_alone(target, seconds, messages, judge)


def request_lines(target: Target, seconds: float) -> None:
    """Paths and methods that are none: never answered with 200, never with a surprise."""
    lines = [
        *(b"AGTP/1.0 echo /text", b"AGTP/1.0  ECHO /text", b"AGTP/1.0\tECHO\t/text", b"AGTP/9.9 ECHO /text"),
        *(b"AGTP/1.0 ECHO /%00", b"AGTP/1.0 ECHO /%0d%0aX: y", b"AGTP/1.0 ECHO /../../etc/passwd"),
        *(b"AGTP/1.0 ECHO //text", b"AGTP/1.0 ECHO /%2e%2e/text", b"AGTP/1.0 ECHO /\xc0\xaf", b"AGTP/1.0 ECHO /text#x"),
        *(b"AGTP/1.0 QUERY /library/" + b"9" * 7000, b"AGTP/1.0 QUERY /library/%252e", b"AGTP/1.0 ECHO text"),
        *(b"AGTP/1.0 " + b"A" * 5000 + b" /", b"AGTP/1.0 ECHO /text extra", b"ECHO /text"),
    ]

    def judge(message: bytes, answer: Answer | None) -> None:
        status = None if answer is None else answer.status
        assert status is None or 400 <= status < 500 or status in (262, 551), (message[:120], answer)

    each_alone(target, seconds, [line + b"\r\n\r\n" for line in lines], judge, agent="demo")


def octet_by_octet(target: Target, seconds: float) -> None:
    """A good request in TLS records of one octet each, 20 connections at once: all are answered."""
    context = client_context(target)
    message = request("ECHO", "/text", {"text": "bit by bit"})
    links = [opened(target, context, "127.0.3.1") for _ in range(20)]
    held = [link for link in links if link is not None]
    for _ in turns(seconds):
        for place in range(len(message)):
            for link in held:
                link.send(message[place : place + 1])
        for link in held:
            answer = said(link)
            assert answer is not None and answer.status in (200, 429), answer
    for link in held:
        link.close()


def gone_at_once(target: Target, seconds: float) -> None:
    """Requests whose peers have left before they are answered."""
    context = client_context(target)
    message = request("ECHO", "/text", {"text": "nobody waits"}) * 20
    for _ in turns(seconds):
        link = opened(target, context, "127.0.3.1")
        if link is not None:
            link.send(message)
            link.close()


def half_closed(target: Target, seconds: float) -> None:
    """Peers that end their side behind a request: gone, whatever they still listen for."""
    context = client_context(target)
    for _ in turns(seconds):
        link = opened(target, context, "127.0.3.1")
        if link is None:
            continue
        with link:
            link.send(request("ECHO", "/text", {"text": "over"}))
            socket.socket.shutdown(link.tls, socket.SHUT_WR)
            answer = said(link)
            assert answer is None or answer.status in (200, 429), answer
            assert gone(link), "the host keeps a connection whose peer has ended it"


def connections(target: Target, seconds: float) -> None:
    """One address opens as many connections as it can: it gets 64, and others are served."""
    links, refusals = [], 0
    for _ in turns(seconds, most=400):
        link = plain(target, "127.0.3.1")
        link.settimeout(0.02)
        try:
            refusals += link.recv(1) == b""
        except TimeoutError:
            pass
        except OSError:
            refusals += 1
        links.append(link)
    for link in links:
        link.close()
    assert len(links) - refusals <= 64, f"{len(links) - refusals} connections of one address were admitted"


def after_an_error(target: Target, seconds: float) -> None:
    """Good requests behind a bad one: the connection ends with the 400, and none of them runs."""
    context = client_context(target)
    message = b"AGTP/1.0 ECHO /text\r\nBad Header\r\n\r\n" + request("ECHO", "/text", {"text": "late"}) * 100
    for _ in turns(seconds):
        link = opened(target, context, "127.0.3.1")
        if link is None:
            continue
        with link:
            try:
                link.send(message)
            except OSError:
                continue
            refused(message, said(link))
            assert gone(link), "the host went on after a framing error"


def _attack(name: str, who: str, says: str, run: object, **more: object) -> Attack:
    return Attack(name=name, who=who, says=says, run=run, **more)  # type: ignore[arg-type]


ATTACKS = (
    _attack("garbage-requests", "stranger", "Octets that are no request: 400 and closed.", garbage),
    _attack("smuggled-lengths", "agent", "Two lengths, or odd ones, before a second request: one 400.", smuggled),
    _attack("unread-answers", "stranger", "20 peers pipeline and never read: 2 MiB each.", unread, memory=56 * MIB),
    _attack("pipelined-order", "agent", "Bursts of 50 requests: answered in order, each its own.", pipelined),
    _attack("header-bombs", "stranger", "Endless headers and request lines: cut at the limit.", header_bombs),
    _attack("absent-bodies", "stranger", "200 announced bodies of 1 MB that do not come.", bodies_that_do_not_come),
    _attack("echoed-injection", "stranger", "Line ends and controls in what is echoed: refused.", injected),
    _attack("odd-request-lines", "agent", "Paths and methods that are none: refused, no surprise.", request_lines),
    _attack("octet-by-octet", "agent", "TLS records of one octet each.", octet_by_octet),
    _attack("gone-at-once", "agent", "20 requests a connection, and nobody stays for the answers.", gone_at_once),
    _attack("half-closed", "agent", "The peer's side ends behind a request: it is gone.", half_closed),
    _attack(
        "connections-of-one",
        "stranger",
        "400 connections of one address: 64 are admitted.",
        connections,
        connections=True,
    ),
    _attack("pipelined-after-error", "agent", "100 good requests behind a bad one: none runs.", after_an_error),
)
