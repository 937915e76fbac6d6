"""Header fields: T-HI."""

from __future__ import annotations

from tests.wire.case import FIELD, ZERO, Table, name_of, request

TABLE = Table()


def _field(id: str, source: str, field: bytes, *fields: tuple[str, str]) -> None:
    """A request of one field line; refused if no fields are given."""
    octets = b"AGTP/1.0 QUERY /\r\n" + field + b"\r\nContent-Length: 0\r\n\r\n"
    if fields:
        TABLE.case(f"T-HI-{id}", source, octets, "", request("QUERY", "/", None, *fields, ZERO))
    else:
        TABLE.case(f"T-HI-{id}", source, octets, FIELD)


def _header_fields() -> None:
    syntax = "RFC 9112 section 5"
    value = "RFC 9110 section 5.5, security section 2.2"
    for octet in (*range(0x20), 0x7F, 0x80, 0x85, 0xA0, 0xC3, 0xE2, 0xFE, 0xFF):
        byte = bytes([octet])
        if octet not in b"\r\n\t":
            _field(f"value-never-holds-{name_of(octet)}", value, b"Task-ID: a" + byte + b"b")
            _field(f"value-never-ends-with-{name_of(octet)}", value, b"Task-ID: a" + byte)
        if octet not in b"\r\n":
            _field(f"name-never-holds-{name_of(octet)}", "RFC 9110 section 5.1", b"Task" + byte + b"ID: a")
            _field(f"name-never-ends-with-{name_of(octet)}", "RFC 9112 section 5.1", b"Task-ID" + byte + b": a")
    for octet in b' "(),/;<=>?@[\\]{}':
        _field(f"name-never-holds-{name_of(octet)}", "RFC 9110 section 5.6.2", b"Task" + bytes([octet]) + b"ID: a")
    for octet in b"!#$%&'*+-.^_`|~09AZaz":
        name = f"Task{chr(octet)}ID"
        _field(f"name-may-hold-{name_of(octet)}", "RFC 9110 section 5.6.2", f"{name}: a".encode(), (name, "a"))
    for octet in (0x21, 0x22, 0x2C, 0x3A, 0x3B, 0x5C, 0x7B, 0x7E):
        text = f"a{chr(octet)}b"
        _field(f"value-may-hold-{name_of(octet)}", value, f"Task-ID: {text}".encode(), ("Task-ID", text))
    for id, text in {
        "bidi": "a\u202eb",
        "zero-width": "a\u200bb",
        "next-line": "a\u0085b",
        "line-separator": "a\u2028b",
        "umlaut": "ü",
        "emoji": "😀",
    }.items():
        _field(f"value-never-holds-{id}", "security section 2.2 (echoed)", f"Task-ID: {text}".encode())
    for id, field in {
        "space-before-colon": b"Task-ID : a",
        "tab-before-colon": b"Task-ID\t: a",
        "space-before-length": b"Content-Length : 5",
        "fold-space": b"Task-ID: a\r\n b",
        "fold-tab": b"Task-ID: a\r\n\tb",
        "fold-blank": b"Task-ID: a\r\n ",
        "fold-field": b"X-A: a\r\n Content-Length: 5",
        "fold-first": b" Task-ID: a",
        "fold-first-tab": b"\tTask-ID: a",
        "no-colon": b"Task-ID",
        "no-colon-value": b"Task-ID a",
        "known-name-no-colon": b"Content-Type",
        "colon-alone": b":",
        "empty-name": b": a",
        "space-name": b" : a",
        "word": b"garbage",
        "two-words-colon": b"Task ID: a",
        "equals": b"Task-ID=a",
        "request-line": b"AGTP/1.0 QUERY /",
        "percent-colon": b"Task-ID%3A a",
    }.items():
        _field(id, syntax, field)
    for id, field, read in (
        ("plain", "Task-ID: t-1", "t-1"),
        ("no-space", "Task-ID:t-1", "t-1"),
        ("many-spaces", "Task-ID:    t-1   ", "t-1"),
        ("tabs", "Task-ID:\tt-1\t", "t-1"),
        ("mixed-space", "Task-ID: \t t-1 \t ", "t-1"),
        ("empty", "Task-ID:", ""),
        ("blank", "Task-ID:   ", ""),
        ("inner-space", "Task-ID: a  b", "a  b"),
        ("inner-tab", "Task-ID: a\tb", "a\tb"),
        ("colons", "Task-ID: a:b:c", "a:b:c"),
        ("colon-first", "Task-ID: :a", ":a"),
        ("quotes", 'Task-ID: "a, b"', '"a, b"'),
        ("looks-like-a-field", "Task-ID: Content-Length: 5", "Content-Length: 5"),
        ("escape", "Task-ID: %0d%0aX: y", "%0d%0aX: y"),
    ):
        _field(f"value-{id}", syntax, field.encode(), ("Task-ID", read))
    _field("spelling-is-kept", "AGTP-043", b"aGeNt-iD: AbC", ("aGeNt-iD", "AbC"))
    _field("repeated", "RFC 9110 section 5.3", b"X-A: 1\r\nX-B: 2\r\nX-A: 3", ("X-A", "1"), ("X-B", "2"), ("X-A", "3"))
    _field("repeated-other-case", "RFC 9110 section 5.3", b"X-A: 1\r\nx-a: 2", ("X-A", "1"), ("x-a", "2"))
    for name in ("AGTP-Version", "AGTP-Method", "AGTP-Status", "Principal-ID", "Server-Agent-ID"):
        _field(f"removed-{name}", "AGTP-026 (a later gate)", f"{name}: x".encode(), (name, "x"))
    for name in (
        "Priority",
        "TTL",
        "Budget-Limit",
        "AGTP-Zone-ID",
        "Content-Schema",
        "Telemetry-Export",
        "Method-Grammar",
        "X-HTTP-Method-Override",
        "Connection",
        "Upgrade",
        "Expect",
        "TE",
        "Trailer",
        "Host",
    ):
        _field(f"no-effect-{name}", "AGTP-027, AGTP-028, AGTP-056", f"{name}: x".encode(), (name, "x"))
    _field("first-error-decides", "core v08 section 5.4.1", b"Bad Name: a\r\nContent-Length: +5")
    TABLE.case(
        "T-HI-long-name",
        "RFC 9110 section 5.1",
        b"AGTP/1.0 QUERY /\r\n" + b"N" * 200 + b": a\r\n\r\n",
        "",
        request("QUERY", "/", None, ("N" * 200, "a")),
    )


_header_fields()
