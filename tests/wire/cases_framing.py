"""Framing: Content-Length, bodies, line ends: T-WF."""

from __future__ import annotations

from tests.wire.case import ENCODING, ENDING, FIELD, LENGTH, LINE, NO_LENGTH, ZERO, Table, name_of, request

TABLE = Table()


def _length(id: str, value: bytes, refusal: str = LENGTH, body: bytes = b"") -> None:
    TABLE.case(
        f"T-WF-length-{id}",
        "AGTP-012, security section 2.2",
        b"AGTP/1.0 QUERY /\r\nContent-Type: text/plain\r\nContent-Length:" + value + b"\r\n\r\n" + body,
        refusal,
    )


def _framing() -> None:
    source = "AGTP-012, security section 2.2"
    for id, value in {
        "plus": b" +5",
        "minus": b" -5",
        "minus-zero": b" -0",
        "leading-zero": b" 05",
        "two-zeros": b" 00",
        "many-zeros": b" 0000000005",
        "list": b" 5,5",
        "list-space": b" 5, 5",
        "two-numbers": b" 5 5",
        "hex": b" 0x5",
        "hex-bare": b" a",
        "octal": b" 0o5",
        "binary": b" 0b1",
        "decimal": b" 5.0",
        "exponent": b" 5e0",
        "underscore": b" 1_0",
        "arabic-digit": " ٥".encode(),
        "fullwidth-digit": " １".encode(),
        "superscript": b" \xb2",
        "empty": b"",
        "blank": b" ",
        "tab": b"\t",
        "word": b" five",
        "quoted": b' "5"',
        "semicolon": b" 5;",
        "trailing-comma": b" 5,",
        "leading-comma": b" ,5",
        "11-digits": b" 10000000000",
        "30-digits": b" 1" + b"0" * 30,
        "infinity": b" inf",
        "nan": b" nan",
        "long": b" 5L",
        "inner-tab": b" 5\t5",
        "percent": b" %35",
        "colon": b": 5",
        "slash": b" 5/",
        "5000-digits": b" " + b"9" * 5000,
    }.items():
        # Octets beyond ASCII break the rule for field values before the one for lengths.
        _length(id, value, FIELD if not value.isascii() else LENGTH, b"hello")
    for octet in [0x00, 0x0B, 0x0C, 0x1C, 0x7F, 0x85, 0xA0]:
        _length(f"led-by-{name_of(octet)}", bytes([octet]) + b"5", FIELD, b"hello")
        _length(f"followed-by-{name_of(octet)}", b"5" + bytes([octet]), FIELD, b"hello")
    text = ("Content-Type", "text/plain")
    for id, value, read in (
        ("plain", b" 5", "5"),
        ("no-space", b"5", "5"),
        ("spaces", b"   5   ", "5"),
        ("tabs", b"\t5\t", "5"),
    ):
        TABLE.case(
            f"T-WF-length-{id}",
            source,
            b"AGTP/1.0 QUERY /\r\nContent-Type: text/plain\r\nContent-Length:" + value + b"\r\n\r\nhello",
            "",
            request("QUERY", "/", None, text, ("Content-Length", read), body=b"hello"),
        )
    for id, name in {"lower": "content-length", "upper": "CONTENT-LENGTH", "mixed": "cOnTeNt-LeNgTh"}.items():
        TABLE.case(
            f"T-WF-length-name-{id}",
            "RFC 9110 section 5.1",
            f"AGTP/1.0 QUERY /\r\n{name}: 2\r\n\r\nok".encode(),
            "",
            request("QUERY", "/", None, (name, "2"), body=b"ok"),
        )
    for id, first, second in (
        ("equal", "Content-Length: 5", "Content-Length: 5"),
        ("zero-twice", "Content-Length: 0", "Content-Length: 0"),
        ("differing", "Content-Length: 5", "Content-Length: 6"),
        ("shorter-last", "Content-Length: 5", "Content-Length: 0"),
        ("other-case", "Content-Length: 5", "content-length: 5"),
        ("other-case-2", "CONTENT-LENGTH: 5", "Content-Length: 6"),
        ("one-empty", "Content-Length: 5", "Content-Length:"),
        ("one-malformed", "Content-Length: +5", "Content-Length: 5"),
    ):
        octets = f"AGTP/1.0 QUERY /\r\n{first}\r\nX-Between: 1\r\n{second}\r\n\r\nhello".encode()
        TABLE.case(f"T-WF-length-twice-{id}", source, octets, LENGTH)
    TABLE.case(
        "T-WF-length-three-times",
        source,
        b"AGTP/1.0 QUERY /\r\n" + b"Content-Length: 0\r\n" * 3 + b"\r\n",
        LENGTH,
    )
    for id, field in {
        "chunked": b"Transfer-Encoding: chunked",
        "identity": b"Transfer-Encoding: identity",
        "empty": b"Transfer-Encoding:",
        "lower-case": b"transfer-encoding: chunked",
        "upper-case": b"TRANSFER-ENCODING: GZIP",
        "list": b"Transfer-Encoding: gzip, chunked",
        "unknown": b"Transfer-Encoding: x",
    }.items():
        TABLE.case(
            f"T-WF-encoding-{id}",
            "AGTP-015",
            b"AGTP/1.0 QUERY /\r\n" + field + b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            ENCODING,
        )
        TABLE.case(
            f"T-WF-encoding-{id}-and-length",
            "AGTP-015",
            b"AGTP/1.0 QUERY /\r\nContent-Length: 0\r\n" + field + b"\r\n\r\n",
            ENCODING,
        )
    for id, name in {
        "space-before-colon": b"Transfer-Encoding ",
        "leading-space": b" Transfer-Encoding",
        "tab": b"\tTransfer-Encoding",
        "tab-before-colon": b"Transfer-Encoding\t",
        "nul": b"Transfer-Encoding\x00",
    }.items():
        TABLE.case(
            f"T-WF-encoding-hidden-{id}",
            "AGTP-015",
            b"AGTP/1.0 QUERY /\r\n" + name + b": chunked\r\n\r\n",
            FIELD,
        )
    TABLE.case(
        "T-WF-encoding-lookalike",
        "AGTP-056",
        b"AGTP/1.0 QUERY /\r\nTransfer_Encoding: chunked\r\n\r\n",
        "",
        request("QUERY", "/", None, ("Transfer_Encoding", "chunked")),
    )
    _no_length(source)
    _bodies()
    _line_endings()


def _no_length(source: str) -> None:
    decision = "design decision 2, companion section 15"
    TABLE.case(
        "T-WF-no-length",
        decision,
        b"AGTP/1.0 QUERY /\r\nTask-ID: t\r\n\r\n",
        "",
        request("QUERY", "/", None, ("Task-ID", "t")),
    )
    TABLE.case("T-WF-no-fields", decision, b"AGTP/1.0 QUERY /\r\n\r\n", "", request())
    TABLE.case("T-WF-no-fields-two-tokens", decision, b"AGTP/1.0 DISCOVER\r\n\r\n", "", request("DISCOVER"))
    TABLE.case("T-WF-no-length-strict", source, b"AGTP/1.0 QUERY /\r\nTask-ID: t\r\n\r\n", NO_LENGTH, strict=True)
    TABLE.case("T-WF-no-fields-strict", source, b"AGTP/1.0 QUERY /\r\n\r\n", NO_LENGTH, strict=True)
    TABLE.case(
        "T-WF-no-length-with-type",
        source,
        b'AGTP/1.0 QUERY /\r\nContent-Type: application/json\r\n\r\n{"a":1}',
        NO_LENGTH,
    )
    TABLE.case(
        "T-WF-no-length-with-type-lower",
        source,
        b"AGTP/1.0 QUERY /\r\ncontent-type: text/plain\r\n\r\n",
        NO_LENGTH,
    )
    TABLE.case(
        "T-WF-no-length-then-body",
        source,
        b'AGTP/1.0 QUERY /\r\nTask-ID: t\r\n\r\n{"a":1}',
        LINE,
        request("QUERY", "/", None, ("Task-ID", "t")),
    )
    TABLE.case(
        "T-WF-no-length-then-request",
        decision,
        b"AGTP/1.0 QUERY /a\r\n\r\nAGTP/1.0 QUERY /b\r\n\r\n",
        "",
        request("QUERY", "/a"),
        request("QUERY", "/b"),
    )


def _bodies() -> None:
    source = "AGTP-013"
    head = b"AGTP/1.0 QUERY /\r\nContent-Length: 10\r\n\r\n"
    whole = request("QUERY", "/", None, ("Content-Length", "10"), body=b"0123456789")
    TABLE.case("T-WF-200-nothing", source, b"")
    TABLE.case("T-WF-200-complete", source, head + b"0123456789", "", whole)
    TABLE.case("T-WF-200-one-short", source, head + b"012345678", waiting="body")
    TABLE.case("T-WF-200-none-of-it", source, head, waiting="body")
    TABLE.case("T-WF-200-one-over", source, head + b"0123456789G", LINE, whole)
    TABLE.case("T-WF-200-crlf-over", source, head + b"0123456789\r\n", LINE, whole)
    TABLE.case("T-WF-200-start-of-next", source, head + b"0123456789AGTP/1.0", "", whole, waiting="header")
    TABLE.case(
        "T-WF-200-next",
        source,
        head + b"0123456789" + head + b"abcdefghij",
        "",
        whole,
        request("QUERY", "/", None, ("Content-Length", "10"), body=b"abcdefghij"),
    )
    zero = request("QUERY", "/", None, ZERO)
    empty = b"AGTP/1.0 QUERY /\r\nContent-Length: 0\r\n\r\n"
    TABLE.case("T-WF-200-three-empty", source, empty * 3, "", zero, zero, zero)
    TABLE.case("T-WF-200-twenty-empty", "T-PL-1", empty * 20, "", *[zero] * 20)
    TABLE.case("T-WF-200-body-after-zero", source, empty + b"hello", LINE, zero)
    TABLE.case(
        "T-WF-200-good-bad-good", "security invariant 9", empty + b"AGTP/1.0 QUERY foo\r\n\r\n" + empty, LINE, zero
    )
    smuggled = b"AGTP/1.0 REVOKE /\r\n\r\n"
    for id, body in {
        "request": smuggled,
        "crlf": b"\r\n\r\n",
        "nul": b"\x00\x00",
        "all-octets": bytes(range(256)),
        "lf": b"\n\n\n",
        "utf-8": "ü€😀".encode(),
        "length-field": b"Content-Length: 0\r\n\r\n",
        "cr": b"\r",
    }.items():
        size = str(len(body))
        octets = f"AGTP/1.0 QUERY /\r\nContent-Length: {size}\r\n\r\n".encode() + body
        message = request("QUERY", "/", None, ("Content-Length", size), body=body)
        TABLE.case(f"T-WF-200-body-of-{id}", source, octets, "", message)
        TABLE.case(f"T-WF-200-body-of-{id}-then-request", source, octets + empty, "", message, zero)
    for id, octets in {
        "version": b"AGTP/1.0",
        "version-space": b"AGTP/1.0 ",
        "line": b"AGTP/1.0 QUERY /",
        "line-cr": b"AGTP/1.0 QUERY /\r",
        "line-crlf": b"AGTP/1.0 QUERY /\r\n",
        "field": b"AGTP/1.0 QUERY /\r\nTask-ID: t",
        "field-crlf": b"AGTP/1.0 QUERY /\r\nTask-ID: t\r\n",
        "last-cr": b"AGTP/1.0 QUERY /\r\nTask-ID: t\r\n\r",
        "first-octet": b"A",
    }.items():
        TABLE.case(f"T-WF-200-cut-after-{id}", source, octets, waiting="header")
        TABLE.case(f"T-WF-200-cut-after-{id}-behind-one", source, empty + octets, "", zero, waiting="header")


def _line_endings() -> None:
    source = "core v08 section 5.4.1 CRLF, RFC 9112 section 2.2"
    for id, octets in {
        "lf-after-line": b"AGTP/1.0 QUERY /\nContent-Length: 0\r\n\r\n",
        "lf-after-field": b"AGTP/1.0 QUERY /\r\nContent-Length: 0\n\r\n",
        "lf-blank-line": b"AGTP/1.0 QUERY /\r\nContent-Length: 0\r\n\n",
        "lf-everywhere": b"AGTP/1.0 QUERY /\nContent-Length: 0\n\n",
        "lf-two": b"AGTP/1.0 QUERY /\r\nContent-Length: 0\n\n",
        "cr-after-line": b"AGTP/1.0 QUERY /\rContent-Length: 0\r\n\r\n",
        "cr-after-field": b"AGTP/1.0 QUERY /\r\nTask-ID: t\rContent-Length: 0\r\n\r\n",
        "cr-blank-line": b"AGTP/1.0 QUERY /\r\nContent-Length: 0\r\n\rX",
        "cr-cr-lf": b"AGTP/1.0 QUERY /\r\nContent-Length: 0\r\r\n\r\n",
        "cr-cr-lf-line": b"AGTP/1.0 QUERY /\r\r\nContent-Length: 0\r\n\r\n",
        "lf-cr": b"AGTP/1.0 QUERY /\n\rContent-Length: 0\r\n\r\n",
        "lf-in-value": b"AGTP/1.0 QUERY /\r\nTask-ID: a\nb\r\n\r\n",
        "cr-in-value": b"AGTP/1.0 QUERY /\r\nTask-ID: a\rb\r\n\r\n",
        "lf-in-name": b"AGTP/1.0 QUERY /\r\nTask\nID: a\r\n\r\n",
        "cr-in-name": b"AGTP/1.0 QUERY /\r\nTask\rID: a\r\n\r\n",
        "cr-first-in-value": b"AGTP/1.0 QUERY /\r\nTask-ID: \ra\r\n\r\n",
        "lf-in-path": b"AGTP/1.0 QUERY /a\nb\r\n\r\n",
        "cr-in-path": b"AGTP/1.0 QUERY /a\rb\r\n\r\n",
        "crs": b"AGTP/1.0 QUERY /\r\n\r\r\r\r\n",
        "lf-hides-a-field": b"AGTP/1.0 QUERY /\r\nX-Note: a\nTransfer-Encoding: chunked\r\n\r\n",
    }.items():
        TABLE.case(f"T-WF-ending-{id}", source, octets, ENDING)
    TABLE.case("T-WF-ending-lf-before-the-version-is-complete", source, b"AGTP\n/1.0 QUERY /\r\n\r\n", LINE)


_framing()
