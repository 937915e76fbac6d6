"""Scripts that make sense over any carrier, or over pipes alone: time, ends, amounts, text, JSON-RPC, the start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

from tests.adapters.faults.registry import DOWN, ERROR, LATE, LOST, OK, TOO_LONG, UNREADABLE, either, fault, says

# Time


@fault("never-answers", "PHSAC", LATE, "reads the request and says nothing")
def _(out: Any) -> None:
    out.hang()


@fault("answers-too-late", "PHSAC", LATE, "a good answer, two seconds after the deadline")
def _(out: Any) -> None:
    out.hang(3.0)
    out.say(out.good())


@fault("dribbles-an-answer", "PHSAC", LATE, "a good answer, octet by octet, ten a second")
def _(out: Any) -> None:
    out.begin()
    for octet in out.good() * 9:
        out.put(bytes((octet,)))
        time.sleep(0.1)


@fault("stops-in-the-middle", "PHSAC", LATE, "half of a good answer and then silence")
def _(out: Any) -> None:
    out.begin()
    out.put(out.good()[:20])
    out.hang()


@fault("sends-blanks", "PHSAC", LATE, "white space for ever, as some servers do to keep a connection")
def _(out: Any) -> None:
    out.begin()
    while True:
        out.put(b" \n" if out.carrier == "stdio" else b" ")
        time.sleep(0.05)


@fault("dribbles-the-head", "HSAC", LATE, "a header field that goes on and on, slowly")
def _(out: Any) -> None:
    out.raw(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        out.raw(b"x")
        time.sleep(0.05)


# The end


@fault("closes-at-once", "PHSAC", LOST, "goes away instead of answering")
def _(out: Any) -> None:
    out.leave()


@fault("closes-in-the-middle", "PHSAC", LOST, "half of a good answer, then goes away")
def _(out: Any) -> None:
    out.begin()
    out.put(out.good()[:20])
    out.leave()


@fault("closes-in-the-head", "HSAC", LOST, "goes away in the middle of a header field")
def _(out: Any) -> None:
    out.raw(b"HTTP/1.1 200 OK\r\nContent-Ty")
    out.leave()


@fault("resets", "HSAC", LOST, "resets the connection")
def _(out: Any) -> None:
    out.reset()


@fault("resets-in-the-middle", "HSAC", LOST, "half of a good answer, then a reset")
def _(out: Any) -> None:
    out.begin()
    out.put(out.good()[:20])
    time.sleep(0.05)
    out.reset()


@fault("exits-with-a-code", "P", LOST, "exits with code 3")
def _(out: Any) -> None:
    os._exit(3)


@fault("exits-after-answering", "P", OK, "answers well and exits")
def _(out: Any) -> None:
    out.say(out.good())
    os._exit(0)


@fault("kills-itself", "P", LOST, "ends by SIGKILL")
def _(out: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@fault("dumps-core", "P", LOST, "ends by SIGSEGV")
def _(out: Any) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@fault("ignores-sigterm", "P", LATE, "never answers, and is deaf to SIGTERM", stubborn=True)
def _(out: Any) -> None:
    out.hang()


@fault("closes-its-input", "P", LOST, "closes standard input and lives on")
def _(out: Any) -> None:
    os.close(0)
    out.hang()


@fault("closes-its-output", "P", LOST, "closes standard output and lives on")
def _(out: Any) -> None:
    os.close(1)
    out.hang()


@fault("leaves-a-grandchild-with-the-pipe", "P", LOST, "exits while a child of its own holds the pipes")
def _(out: Any) -> None:
    subprocess.Popen(["/bin/sleep", "600"])
    os._exit(4)


@fault("leaves-thirty-children", "P", LOST, "starts thirty children in sessions of their own, and exits")
def _(out: Any) -> None:
    for _ in range(30):
        subprocess.Popen(["/bin/sleep", "600"], start_new_session=True)
    os._exit(5)


@fault("stops-itself", "P", LATE, "stops by SIGSTOP, which no handler sees")
def _(out: Any) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


# Amounts


@fault("an-endless-line", "PHSAC", TOO_LONG, "one text that never ends, as fast as it goes", heavy=True, P=LATE["P"])
def _(out: Any) -> None:
    out.begin()
    out.put(out.good()[:20])
    while True:
        out.put(b"x" * 65536)


@fault("a-huge-answer", "PHSAC", TOO_LONG, "a good answer of 20 MiB", heavy=True)
def _(out: Any) -> None:
    out.say(out.spoilt(b'"' + b"x" * (20 << 20) + b'"'))


@fault("garbage-without-end", "P", LATE, "100 MiB/s of lines that are no JSON", heavy=True)
def _(out: Any) -> None:
    while True:
        out.put(b"garbage garbage garbage garbage\n" * 4096)


@fault("short-garbage-without-end", "P", LATE, "lines of two octets, as fast as they go", heavy=True)
def _(out: Any) -> None:
    while True:
        out.put(b"[\n" * 32768)


@fault("screams-on-stderr", "P", OK, "standard error without end, and a good answer", heavy=True)
def _(out: Any) -> None:
    out.scream()
    time.sleep(0.2)
    out.say(out.good())


@fault("notifications-without-end", "PH", LATE, "log messages as fast as they go, and no answer", heavy=True)
def _(out: Any) -> None:
    while True:
        out.note(b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}')


@fault("many-small-notifications", "PH", LATE, "the shortest notifications there are, in large pieces", heavy=True)
def _(out: Any) -> None:
    if out.carrier != "stdio":
        out.stream()
    while True:
        out.put((b'{"method":"x"}\n' if out.carrier == "stdio" else b'data:{"method":"x"}\n\n') * 4096)


@fault("progress-without-end", "PH", LATE, "progress of the call as fast as it goes", heavy=True)
def _(out: Any) -> None:
    while True:
        out.note(
            b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":1}}'
            % out.call_id
        )


@fault("asks-without-end", "PH", LATE, "sampling requests as fast as they go", heavy=True)
def _(out: Any) -> None:
    number = 0
    while True:
        number += 1
        out.note(b'{"jsonrpc":"2.0","id":"s%d","method":"sampling/createMessage","params":{}}' % number)


@fault("pings-without-end", "PH", LATE, "ping requests in large pieces", heavy=True)
def _(out: Any) -> None:
    if out.carrier != "stdio":
        out.stream()
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    while True:
        out.put((ping + b"\n" if out.carrier == "stdio" else b"data:" + ping + b"\n\n") * 1024)


@fault("a-storm-of-list-changes", "PH", OK, "2,000 times the news that its tools changed, then an answer", heavy=True)
def _(out: Any) -> None:
    for _ in range(2000):
        out.note(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
    out.last(out.good())


@fault("late-answers-without-end", "P", LATE, "answers to calls that were over long ago", heavy=True)
def _(out: Any) -> None:
    while True:
        out.put(b'{"jsonrpc":"2.0","id":1,"result":{}}\n' * 2048)


@fault("batches", "P", LATE, "JSON arrays of a thousand messages", heavy=True)
def _(out: Any) -> None:
    while True:
        out.put(b"[" + b",".join([b'{"method":"x"}'] * 1000) + b"]\n")


@fault("does-not-read", "P", OK, "answers, and never reads its input again")
def _(out: Any) -> None:
    out.say(out.good())
    out.hang()


# Text

says("says-hello", "PHSAC", UNREADABLE, "text that is no JSON", lambda out: b"hello world", P=LATE["P"])
says("says-nothing", "PHSAC", UNREADABLE, "an empty text", lambda out: b"", P=LATE["P"])
says("half-a-text", "PHSAC", UNREADABLE, "half of an answer as if it were all", lambda s: s.good()[:-9], P=LATE["P"])
says("two-texts-in-one", "PHSAC", UNREADABLE, "two answers with nothing between", lambda s: s.good() * 2, P=LATE["P"])
says("invalid-utf-8", "PHSAC", UNREADABLE, "text that is no UTF-8", lambda out: out.spoilt(b'"\xff\xfe"'))
says(
    "utf-16",
    "PHSAC",
    UNREADABLE,
    "a good answer in UTF-16",
    lambda s: s.good().decode().encode("utf-16"),
    P=either(LATE, UNREADABLE)["P"],
)
says("a-byte-order-mark", "PHSAC", UNREADABLE, "a byte order mark first", lambda s: b"\xef\xbb\xbf" + s.good())
says("nul-octets", "PHSAC", UNREADABLE, "NUL in a string", lambda out: out.spoilt(b'"a\0b"'))
says("nested-deeply", "PHSAC", UNREADABLE, "10,000 lists in each other",
     lambda out: out.spoilt(b"[" * 10000 + b"]" * 10000), P=either(LATE, UNREADABLE)["P"])  # fmt: skip
says("nested-too-deeply", "PHSAC", UNREADABLE, "100 lists in each other", lambda s: s.spoilt(b"[" * 100 + b"]" * 100))
says("a-huge-integer", "PHSAC", UNREADABLE, "5,000 digits", lambda out: out.spoilt(b"9" * 5000))
says("a-huge-exponent", "PHSAC", UNREADABLE, "1e999999", lambda out: out.spoilt(b"1e999999"))
says("not-a-number", "PHSAC", UNREADABLE, "NaN", lambda out: out.spoilt(b"NaN"))
says("a-lone-surrogate", "PHSAC", UNREADABLE, "half of a character", lambda out: out.spoilt(b'"\\ud800"'))
says("a-member-twice", "PHSAC", UNREADABLE, "two members of one name", lambda out: out.spoilt(b'1,"more":2'))
says("a-bare-number", "PHSAC", UNREADABLE, "42", lambda out: b"42", P=LATE["P"], S="500 invalid-output")
says("a-bare-list", "PHSAC", UNREADABLE, "a list", lambda out: b"[1]", P=LATE["P"], S="500 invalid-output")
says("null", "PHSAC", UNREADABLE, "null", lambda out: b"null", P=LATE["P"], S="500 invalid-output")
says("another-object", "PHSAC", UNREADABLE, "an object of another protocol", lambda out: b'{"a":1}', P=LATE["P"],
     S="200")  # fmt: skip
says("500,000-values", "PHSAC", UNREADABLE, "1 MB of empty lists", lambda s: s.spoilt(b"[" + b"[]," * 349000 + b"0]"),
     heavy=True)  # fmt: skip

# JSON-RPC

says("a-result-that-is-a-list", "PHA", UNREADABLE, "a list for its result", lambda out: out.text(b"[1,2]"))
says("a-result-that-is-null", "PHA", UNREADABLE, "null for its result", lambda out: out.text(b"null"))
says("the-wrong-id", "PHA", UNREADABLE, "the answer to a call that nobody made", lambda s: s.text(s.result(), 999_999),
     P=LATE["P"])  # fmt: skip
says("the-id-as-text", "PHA", UNREADABLE, "its id in quotes", lambda s: s.text(s.result(), str(s.call_id)),
     P=LATE["P"])  # fmt: skip
says("the-id-of-an-earlier-call", "PHA", UNREADABLE, "the answer of a call that is over",
     lambda out: out.text(out.result(), 0), P=LATE["P"])  # fmt: skip
says("no-id", "PHA", UNREADABLE, "an answer to nobody", lambda s: s.text(s.result(), None), P=LATE["P"])
says("neither-result-nor-error", "PHA", UNREADABLE, "an id alone", lambda s: s.text(b"1")[:-11] + b"}",
     P=LATE["P"])  # fmt: skip
says("result-and-error", "PHA", ERROR, "both", lambda out: out.error(
    b'{"code":-32603,"message":"no"}')[:-1] + b',"result":{}}')  # fmt: skip
says("an-error-that-is-text", "PHA", ERROR, "text for its error", lambda out: out.error(b'"no"'))
says("an-error-without-a-code", "PHA", ERROR, "no code", lambda out: out.error(b'{"message":"no"}'))
says("an-error-with-a-text-code", "PHA", ERROR, "a code in quotes", lambda s: s.error(b'{"code":"-32602","message":1}'))
says("an-error-of-its-own", "PHA", ERROR, "a code nobody knows, with data", lambda s: s.error(
    b'{"code":-32000,"message":"\\u001b[31m","data":{"a":[1]}}'))  # fmt: skip
says("an-error-of-the-callers", "PHA", ERROR, "invalid params", lambda s: s.error(b'{"code":-32602,"message":"no"}'),
     P="422 tool-arguments-refused", H="422 tool-arguments-refused", A="422 a2a-request-refused")  # fmt: skip
says("a-huge-error", "PHA", ERROR, "an error message of 2 MiB", lambda s: s.error(
    b'{"code":-32000,"message":"' + b"x" * (2 << 20) + b'"}'))  # fmt: skip


@fault("answers-twice", "P", OK, "its answer, and the same again")
def _(out: Any) -> None:
    out.put((out.good() + b"\n") * 2)


# Structured output and lists of tools


def _typed(tools: list[Any]) -> list[Any]:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    return [{**tool, "outputSchema": schema} if tool["name"] == "work" else tool for tool in tools]


says("breaks-its-own-schema", "PH", UNREADABLE, "structured output unlike the tool's schema", lambda out: out.text(
    b'{"content":[],"structuredContent":{"n":"text"}}'), listed=_typed, settings="validate_output = true",
    P="500 invalid-output", H="500 invalid-output")  # fmt: skip


def _hostile(tools: list[Any]) -> list[Any]:
    """The tool ``work`` with a schema that would cost or fetch something."""
    nested: dict[str, Any] = {"type": "string"}
    for _ in range(20):
        nested = {"type": "object", "properties": {"a": nested}}
    pattern = {"type": "string", "pattern": "^(a+)+$(?=b)"}
    schemas = [
        nested,
        {"type": "object", "properties": {"a": pattern}},
        {"type": "object", "properties": {"a": {"$ref": "https://169.254.169.254/latest"}}},
        {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(2_000)}},
        "text",
        None,
    ]
    costly = [{**tools[0], "name": f"work{number or ''}", "inputSchema": s} for number, s in enumerate(schemas)]
    return tools[1:] + costly


says("a-hostile-schema", "PH", OK, "tools whose schemas cost, fetch, or are none", lambda out: out.good(),
     listed=_hostile)  # fmt: skip
says("a-thousand-tools", "PH", OK, "1,000 tools beside the two", lambda out: out.good(),
     listed=lambda tools: tools + [{**tools[0], "name": f"more{number}"} for number in range(1000)])  # fmt: skip
says("tools-that-are-none", "PH", OK, "numbers, lists and twins among its tools", lambda out: out.good(),
     listed=lambda tools: [1, [], None, {"name": 3}, *[{**tools[1], "name": "twin"}] * 2, *tools])  # fmt: skip

# The start


@fault("never-starts", "PHAC", either(DOWN, LATE), "says nothing when it is asked what it is", at="initialize")
def _(out: Any) -> None:
    out.hang()


@fault("exits-when-started", "P", DOWN, "a message on standard error, and exit code 3", at="exec")
def _(out: Any) -> None:
    sys.stderr.write("cannot start: no licence\n")
    sys.exit(3)


@fault("leaves-when-asked", "PHAC", DOWN, "goes away when it is asked what it is", at="initialize")
def _(out: Any) -> None:
    out.leave()


says("starts-with-garbage", "PHAC", either(DOWN, LATE), "garbage when it is asked what it is", lambda out: b"garbage",
     at="initialize")  # fmt: skip
says("starts-with-a-list", "PHAC", either(DOWN, LATE), "a list when it is asked what it is", lambda out: b"[{}]",
     at="initialize")  # fmt: skip
says("starts-huge", "PHAC", either(DOWN, LATE), "20 MiB when it is asked what it is", lambda s: s.spoilt(
    b'"' + b"x" * (20 << 20) + b'"'), at="initialize", heavy=True)  # fmt: skip
says("an-unknown-version", "PH", DOWN, "a protocol version of 1999", lambda s: s.text(
    b'{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{}}'), at="initialize")  # fmt: skip
says("refuses-to-start", "PH", DOWN, "an error to initialize", lambda s: s.error(b'{"code":-32603,"message":"no"}'),
     at="initialize")  # fmt: skip
says("lists-nonsense", "PH", DOWN, "no list of tools", lambda s: s.text(b'{"tools":"none"}'), at="tools/list")
says("lists-without-end", "PH", either(DOWN, LATE), "always one more page of tools", lambda s: s.text(
    b'{"tools":[],"nextCursor":"more"}'), at="tools/list")  # fmt: skip


@fault("leaves-when-listing", "PH", DOWN, "goes away when its tools are listed", at="tools/list")
def _(out: Any) -> None:
    out.leave()
