"""Scripts below or within HTTP: heads, lengths, encodings, TLS and event streams."""

from __future__ import annotations

import gzip
import time
import zlib
from functools import cache
from typing import Any

from tests.adapters.faults.registry import (
    DENIED,
    DOWN,
    LATE,
    LOST,
    OK,
    REFUSED,
    TOO_LONG,
    UNREADABLE,
    either,
    fault,
    says,
)


def replies(name: str, carriers: str, answers: Any, does: str, status: str, *fields: str, **more: Any) -> None:
    """Enter a script that answers well but for its status and header fields."""
    kind = more.pop("kind", "application/json")
    body = more.pop("body", None)

    def play(out: Any) -> None:
        octets = out.good() if body is None else body
        out.reply(status, octets, *(field.format(path=out.path) for field in fields), kind=kind)

    fault(name, carriers, answers, does, **more)(play)


def raw(name: str, carriers: str, answers: Any, does: str, head: bytes, **more: Any) -> None:
    """Enter a script that sends a head of its own, a good answer, and waits."""
    closing = more.pop("closing", False)

    def play(out: Any) -> None:
        good = out.good()
        out.raw(head.replace(b"LENGTH", b"%d" % len(good)) + good)
        if closing:
            out.leave()
        else:
            out.hang()

    fault(name, carriers, answers, does, **more)(play)


@cache
def bomb() -> bytes:
    """200 MiB in 200 KiB."""
    packer = zlib.compressobj(1, wbits=31)
    return b"".join([*(packer.compress(b" " * (1 << 20)) for _ in range(200)), packer.flush()])


# Statuses and header fields

replies("of-another-type", "HAC", UNREADABLE, "calls its JSON text/html", "200 OK", kind="text/html", H=REFUSED["H"])
replies("of-no-type", "HAC", UNREADABLE, "no content type", "200 OK", kind="", H=REFUSED["H"])
replies("status-500", "HSAC", REFUSED, "500, with a page", "500 Error", body=b"<html>", kind="text/html")
replies("status-400", "HSAC", REFUSED, "400, with nothing", "400 Bad Request", body=b"")
replies("status-401", "HSAC", DENIED, "401, with a challenge", "401 Unauthorized", 'WWW-Authenticate: Bearer realm="x"',
        body=b"{}")  # fmt: skip
replies("status-403", "HSAC", DENIED, "403", "403 Forbidden", body=b"")
replies("status-429", "HSAC", REFUSED, "429 for a year", "429 Too Many Requests", "Retry-After: 31536000", body=b"")
replies("status-503", "HSAC", REFUSED, "503", "503 Service Unavailable", "Retry-After: 1", body=b"")
replies("status-999", "HSAC", REFUSED, "a status that is none", "999 Whatever", body=b"")
replies("status-202", "HAC", UNREADABLE, "202 without a body", "202 Accepted", body=b"", H=REFUSED["H"])
replies("redirects-to-itself", "HSAC", REFUSED, "302 to the same place", "302 Found", "Location: {path}", body=b"")
replies("redirects-inside", "HSAC", REFUSED, "307 to a cloud's own services", "307 Temporary Redirect",
        "Location: http://169.254.169.254/latest/meta-data/", body=b"")  # fmt: skip
replies("forgets-the-session", "H", LOST, "404 in a session", "404 Not Found", body=b"", settings="", at="tools/call",
        H="503 upstream-refused")  # fmt: skip


@fault("no-http", "HSAC", LOST, "an SSH server")
def _(out: Any) -> None:
    out.raw(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")
    out.leave()


raw("http-0.9", "HSAC", LOST, "an answer without a head", b"", closing=True)
raw("a-status-line-without-a-number", "HSAC", LOST, "HTTP/1.1 OK", b"HTTP/1.1 OK\r\n\r\n", closing=True)
raw("a-field-without-a-colon", "HSAC", either(OK, LOST, LATE, UNREADABLE), "a header line that is none",
    b"HTTP/1.1 200 OK\r\nnothing\r\nContent-Type: application/json\r\nContent-Length: LENGTH\r\n\r\n")  # fmt: skip
raw("a-length-that-is-too-long", "HSAC", LOST, "announces more than comes, and closes",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9LENGTH\r\n\r\n", closing=True)  # fmt: skip
raw("a-length-that-is-much-too-long", "HSAC", LATE, "announces more than comes, and waits",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999\r\n\r\n")  # fmt: skip
raw("a-length-that-is-too-short", "HSAC", UNREADABLE, "announces less than comes",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n")  # fmt: skip
raw("a-length-of-terabytes", "HSAC", either(LATE, UNREADABLE), "announces 10^15 octets",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000000000000\r\n\r\n")  # fmt: skip
raw("a-negative-length", "HSAC", LOST, "Content-Length: -5",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: -5\r\n\r\n")  # fmt: skip
raw(
    "two-lengths",
    "HSAC",
    LOST,
    "two lengths that differ",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: LENGTH\r\nContent-Length: 3\r\n\r\n",
)
raw("a-length-and-chunks", "HSAC", either(LOST, LATE), "a length and chunks",
    b"HTTP/1.1 200 OK\r\nContent-Length: LENGTH\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n")  # fmt: skip
raw("an-unknown-transfer-encoding", "HSAC", LOST, "Transfer-Encoding: zip",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: zip\r\n\r\n")  # fmt: skip
raw("a-chunk-of-no-length", "HSAC", LOST, "a chunk whose length is no number",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")  # fmt: skip
raw("a-negative-chunk", "HSAC", LOST, "a chunk of -1 octets",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n")  # fmt: skip
raw("a-chunk-of-terabytes", "HSAC", either(LATE, UNREADABLE), "a chunk of 2^60 octets",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"1000000000000000\r\n")  # fmt: skip


@fault("a-chunk-extension-without-end", "HSAC", either(LOST, LATE), "a chunk extension of megabytes", heavy=True)
def _(out: Any) -> None:
    out.head("Transfer-Encoding: chunked")
    out.raw(b"5;")
    while True:
        out.raw(b"x" * 65536)


@fault("fields-without-end", "HSAC", LOST, "header fields as fast as they go", heavy=True)
def _(out: Any) -> None:
    out.raw(b"HTTP/1.1 200 OK\r\n")
    while True:
        out.raw((b"X-Field: " + b"x" * 100 + b"\r\n") * 600)


@fault("a-field-without-end", "HSAC", LOST, "one header field as fast as it goes", heavy=True)
def _(out: Any) -> None:
    out.raw(b"HTTP/1.1 200 OK\r\nX-Field: ")
    while True:
        out.raw(b"x" * 65536)


@fault("interim-answers-without-end", "HSAC", LOST, "100 Continue as fast as it goes", heavy=True)
def _(out: Any) -> None:
    while True:
        out.raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 2000)


@fault("a-gzip-bomb", "HSAC", UNREADABLE, "gzip that nobody asked for, of 200 MiB")
def _(out: Any) -> None:
    out.reply("200 OK", bomb(), "Content-Encoding: gzip")


@fault("gzip-unasked", "HSAC", UNREADABLE, "a good answer in gzip that nobody asked for")
def _(out: Any) -> None:
    out.reply("200 OK", gzip.compress(out.good()), "Content-Encoding: gzip")


# TLS


@fault("tls-never-shakes-hands", "HSAC", either(LATE, DOWN), "accepts and says nothing", port="tls-never-shakes-hands")
def _(out: Any) -> None:
    time.sleep(20)


@fault("tls-shakes-hands-slowly", "HSAC", either(LATE, DOWN), "a server hello, ten octets a second",
       port="tls-shakes-hands-slowly")  # fmt: skip
def _(out: Any) -> None:
    out.raw(b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03")
    for _ in range(111):
        out.raw(b"\x00")
        time.sleep(0.1)


@fault("tls-speaks-plainly", "HSAC", DOWN, "plain HTTP where TLS is expected", port="tls-speaks-plainly")
def _(out: Any) -> None:
    out.connection.recv(65536)
    out.reply("200 OK", b"{}")


@fault("tls-closes-at-once", "HSAC", DOWN, "closes before the handshake", port="tls-closes-at-once")
def _(out: Any) -> None:
    out.leave()


for _name, _port, _does in (
    ("tls-of-yesterday", "expired", "a certificate that has expired"),
    ("tls-of-a-stranger", "stranger", "a certificate of its own"),
    ("tls-of-another-name", "misnamed", "a certificate for another name"),
):
    says(_name, "HSAC", DOWN, _does, lambda out: out.good(), port=_port)

# Event streams


@fault("a-silent-stream", "HAC", LATE, "a stream without events", streamed=True)
def _(out: Any) -> None:
    out.stream()
    out.hang()


@fault("a-stream-of-comments", "HAC", LATE, "comments for ever", streamed=True)
def _(out: Any) -> None:
    out.stream()
    while True:
        out.put(b": still here\n\n")
        time.sleep(0.02)


@fault("comments-without-end", "HAC", either(LATE, LOST), "comments as fast as they go", streamed=True, heavy=True)
def _(out: Any) -> None:
    out.stream()
    while True:
        out.put(b":\n" * 32768)


@fault("events-of-another-type", "HAC", LATE, "events that are no messages", streamed=True)
def _(out: Any) -> None:
    out.stream()
    while True:
        out.event(out.good(), b"event: noise\n")
        time.sleep(0.02)


@fault("an-endless-event", "HAC", TOO_LONG, "one event that never ends", streamed=True, heavy=True)
def _(out: Any) -> None:
    out.stream()
    while True:
        out.put(b"data: " + b"x" * 65536 + b"\n")


@fault("an-endless-event-line", "HAC", TOO_LONG, "one line that never ends", streamed=True, heavy=True)
def _(out: Any) -> None:
    out.stream()
    out.put(b"data: ")
    while True:
        out.put(b"x" * 65536)


@fault("an-event-of-empty-lines", "HAC", UNREADABLE, "one event of lines that are empty", streamed=True, heavy=True)
def _(out: Any) -> None:
    out.stream()
    while True:
        out.put(b"data:\n" * 10_000)


@fault("an-event-in-pieces", "HAC", OK, "a good event, octet by octet", streamed=True)
def _(out: Any) -> None:
    out.stream()
    for octet in b"id: 1\r\nevent: message\r\ndata: " + out.good() + b"\r\n\r\n":
        out.put(bytes((octet,)))
    out.finish()


@fault("a-stream-that-stays-open", "H", OK, "a good event, and a stream that never ends", streamed=True)
def _(out: Any) -> None:
    out.stream()
    out.event(out.good())
    out.hang()


@fault("a-stream-of-nothing", "HAC", UNREADABLE, "a stream that ends at once", streamed=True, H=LOST["H"])
def _(out: Any) -> None:
    out.stream()
    out.finish()


@fault("a-stream-cut-in-an-event", "HAC", LOST, "a stream that is cut in its first event", streamed=True)
def _(out: Any) -> None:
    out.stream()
    out.put(b"data: " + out.good()[:20])
    out.leave()


@fault("garbage-events", "HAC", UNREADABLE, "events that are no JSON, for ever", streamed=True, H=LATE["H"])
def _(out: Any) -> None:
    out.stream()
    while True:
        out.event(b"garbage")
        time.sleep(0.02)


@fault("a-stream-to-resume", "H", LOST, "an event id, no wait, the end; again and again", streamed=True, resumed=True)
def _(out: Any) -> None:
    out.stream()
    out.put(b"id: 7\nretry: 0\ndata:\n\n")
    out.finish()


@fault("a-stream-to-resume-for-ever", "H", LATE, "the same, and each time another id", streamed=True, resumed=True)
def _(out: Any) -> None:
    out.stream()
    out.put(b"id: %d\nretry: 0\ndata:\n\n" % time.monotonic_ns())
    out.finish()


@fault("an-id-of-a-megabyte", "H", OK, "an event id of 1 MiB, and a good event", streamed=True)
def _(out: Any) -> None:
    out.stream()
    out.event(out.good(), b"id: " + b"x" * (1 << 20) + b"\n")
    out.finish()


@fault("a-stream-unasked", "SC", UNREADABLE, "a stream where a single answer was asked for")
def _(out: Any) -> None:
    out.head("Transfer-Encoding: chunked", kind="text/event-stream")
    out.put(b"data: " + out.good() + b"\n\n")
    out.finish()
