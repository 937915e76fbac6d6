"""Field lines: core v08 section 5.4.1 and RFC 9112 section 5."""

from __future__ import annotations

from agtphost.conformance.case import Cases
from agtphost.conformance.cases.framing import accepts, refuses
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import expect

CASES = Cases("wire")


def _request_with(field: bytes) -> bytes:
    return b"AGTP/1.0 DISCOVER /agents\r\n" + field + b"\r\nContent-Length: 0\r\n\r\n"


for _name, _title, _field in (
    ("space-before-colon", "White space before the colon is malformed.", b"Task-ID : a"),
    ("tab-before-colon", "A tab before the colon is malformed.", b"Task-ID\t: a"),
    ("folded-space", "A line folded by a space is malformed.", b"Task-ID: a\r\n b"),
    ("folded-tab", "A line folded by a tab is malformed.", b"Task-ID: a\r\n\tb"),
    ("folded-first", "A first field line that begins with a space is malformed.", b" Task-ID: a"),
    ("folded-length", "Content-Length on a folded line is malformed.", b"X-A: a\r\n Content-Length: 5"),
    ("no-colon", "A field line without a colon is malformed.", b"Task-ID"),
    ("colon-alone", "A field line without a name is malformed.", b": a"),
    ("name-space", "A space in a name is malformed.", b"Task ID: a"),
    ("name-paren", "A parenthesis in a name is malformed.", b"Task(ID): a"),
    ("name-slash", "A slash in a name is malformed.", b"Task/ID: a"),
    ("name-nul", "A NUL in a name is malformed.", b"Task\x00ID: a"),
    ("name-latin", "An octet beyond ASCII in a name is malformed.", b"T\xe4sk: a"),
    ("value-nul", "A NUL in a value is malformed.", b"Task-ID: a\x00b"),
    ("value-control", "A control character in a value is malformed.", b"Task-ID: a\x01b"),
    ("value-escape", "An escape character in a value is malformed.", b"Task-ID: a\x1b[31mb"),
    ("value-delete", "The octet 7F in a value is malformed.", b"Task-ID: a\x7fb"),
    ("bare-lf", "A field line that ends only with LF is malformed.", b"Task-ID: a\nX-B: b"),
    ("bare-cr", "A CR within a value is malformed.", b"Task-ID: a\rX-B: b"),
    ("request-line-again", "A second request line among the fields is malformed.", b"AGTP/1.0 DISCOVER /"),
    ("long-line", "A field line of 128 KiB is refused.", b"X-Long: " + b"a" * 131_072),
    ("many", "A thousand field lines are refused.", b"\r\n".join(b"X-%d: a" % number for number in range(1000))),
):
    CASES.row(f"field-{_name}", "AGTP-068", _title, refuses, _request_with(_field))

for _name, _requirements, _title, _field in (
    ("no-space", "AGTP-068", "A value may follow the colon directly.", b"Task-ID:t-1"),
    ("spaces", "AGTP-068", "White space around a value is ignored.", b"Task-ID:   t-1\t "),
    ("lower-case", "AGTP-068", "Names are compared without regard to case.", b"task-id: t-1"),
    ("upper-case", "AGTP-068", "Names may be written in upper case.", b"TASK-ID: t-1"),
):

    def _check_echo(target: Target, field: bytes) -> None:
        answer = accepts(target, _request_with(field))
        expect(answer.header("Task-ID") == "t-1", f"Task-ID comes back as {answer.header('Task-ID')!r}")

    CASES.row(f"field-{_name}", f"{_requirements} AGTP-037", _title, _check_echo, _field)

for _name, _requirements, _title, _field in (
    ("unknown", "AGTP-056", "An unknown field is ignored.", b"Conformance-Unknown: 1"),
    ("unknown-twice", "AGTP-056", "An unknown field may be repeated.", b"X-A: 1\r\nX-A: 2"),
    ("x-prefix", "AGTP-028", "A field with the prefix X- is ignored.", b"X-Conformance: 1"),
    ("expect", "AGTP-056", "HTTP's Expect has no effect.", b"Expect: 100-continue"),
    ("upgrade", "AGTP-056", "HTTP's Upgrade and Connection have no effect.", b"Connection: upgrade\r\nUpgrade: h2c"),
    ("connection-close", "AGTP-056 AGTP-009", "HTTP's Connection: close has no effect.", b"Connection: close"),
    ("host", "AGTP-056", "HTTP's Host has no effect.", b"Host: elsewhere.example"),
    ("override", "AGTP-056", "X-HTTP-Method-Override has no effect.", b"X-HTTP-Method-Override: DELETE"),
    ("te", "AGTP-056", "HTTP's TE and Trailer have no effect.", b"TE: trailers\r\nTrailer: X-A"),
    ("trailing-colon-value", "AGTP-068", "A value may have colons.", b"X-A: a:b:c"),
):
    CASES.row(f"field-{_name}", _requirements, _title, accepts, _request_with(_field))
