"""
The wire cases: octets, and what they mean.

Plain data that imports nothing of the host, so that the same table can drive the
parser in this process, a host across a network, and the fuzz corpora. Every refusal
is one response 400 followed by the end of the connection (core v08 section 5.4.1,
design decision 2).

Ids follow the test programme: T-RL request line, T-RS response line, T-WF framing,
T-HI header fields, T-LM limits.
"""

from __future__ import annotations

from dataclasses import dataclass

LINE = "invalid-request-line"
RESPONSE_LINE = "invalid-response-line"
ENDING = "invalid-line-ending"
FIELD = "invalid-header-field"
LENGTH = "invalid-content-length"
NO_LENGTH = "content-length-missing"
ENCODING = "transfer-encoding-refused"


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message that the octets hold."""

    first: tuple[object, ...]
    """Of a request: method, path, query (None without ``?``). Of a response: code, text."""

    fields: tuple[tuple[str, str], ...] = ()
    """Every field, in order, as name and value without surrounding white space."""

    body: bytes = b""
    """The body."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """What one sequence of octets means."""

    id: str
    """Unique; starts with the family of the test programme."""

    source: str
    """The requirement or section that decides."""

    octets: bytes
    """What the peer sends."""

    messages: tuple[Message, ...] = ()
    """The complete messages, in order."""

    refusal: str = ""
    """The reason of the refusal that ends them; empty if nothing is malformed."""

    waiting: str = ""
    """``header`` or ``body`` where the octets end within a message; empty where they end with one."""

    role: str = "server"
    """The side under test: ``server`` reads requests, ``client`` responses."""

    strict: bool = False
    """Whether ``strict_request_line`` is set."""


CASES: list[Case] = []


def _case(id: str, source: str, octets: bytes, refusal: str = "", *messages: Message, **more: object) -> None:
    CASES.append(Case(id=id, source=source, octets=octets, refusal=refusal, messages=messages, **more))  # type: ignore[arg-type]


def _request(
    method: str = "QUERY", path: str = "/", query: str | None = None, *fields: tuple[str, str], body: bytes = b""
) -> Message:
    return Message(first=(method, path, query), fields=fields, body=body)


def _name(octet: int) -> str:
    """A readable name for an octet in an id."""
    return chr(octet) if chr(octet).isalnum() and octet < 0x80 else f"x{octet:02x}"


ZERO = ("Content-Length", "0")


# --- T-RL: the request line -------------------------------------------------------------------------------


def _line(id: str, source: str, line: bytes, *first: object, strict: bool = False) -> None:
    """A request of one line and ``Content-Length: 0``; refused if no parts are given."""
    octets = line + b"\r\nContent-Length: 0\r\n\r\n"
    if first:
        _case(f"T-RL-{id}", source, octets, "", Message(first=first, fields=(ZERO,)), strict=strict)
    else:
        _case(f"T-RL-{id}", source, octets, LINE, strict=strict)


def _request_lines() -> None:
    core = "core 5.4.1"
    _line("root", "AGTP-017", b"AGTP/1.0 QUERY /", "QUERY", "/", None)
    _line("root-strict", "AGTP-017", b"AGTP/1.0 QUERY /", "QUERY", "/", None, strict=True)
    _line("two-tokens", "AGTP-017", b"AGTP/1.0 DISCOVER", "DISCOVER", "/", None)
    _line("two-tokens-strict", "AGTP-017", b"AGTP/1.0 DISCOVER", strict=True)
    _line("two-tokens-trailing-space", "AGTP-017", b"AGTP/1.0 DISCOVER ")
    _line("query", "AGTP-021", b"AGTP/1.0 QUERY /catalog?book=1", "QUERY", "/catalog", "book=1")
    _line("query-empty", "AGTP-021", b"AGTP/1.0 QUERY /catalog?", "QUERY", "/catalog", "")
    _line("query-on-root", "AGTP-021", b"AGTP/1.0 QUERY /?a=1&b=2", "QUERY", "/", "a=1&b=2")
    _line("query-first-mark", "AGTP-021", b"AGTP/1.0 QUERY /a?b?c", "QUERY", "/a", "b?c")
    _line("query-slashes", "AGTP-021", b"AGTP/1.0 QUERY /a?//b/", "QUERY", "/a", "//b/")
    _line("query-escape", "AGTP-021", b"AGTP/1.0 QUERY /a?b=%20%2F", "QUERY", "/a", "b=%20%2F")
    _line("deep", "AGTP-020", b"AGTP/1.0 FETCH /a/b/c/d/e/f", "FETCH", "/a/b/c/d/e/f", None)
    _line("trailing-slash", "API-026 (460 later)", b"AGTP/1.0 QUERY /a/", "QUERY", "/a/", None)
    _line("empty-inner-segment", "RFC 3986 3.3", b"AGTP/1.0 QUERY /a//b", "QUERY", "/a//b", None)
    _line("dot-segments", "RFC 3986 3.3 (never resolved)", b"AGTP/1.0 QUERY /a/../b/./c", "QUERY", "/a/../b/./c", None)
    _line("escaped-dots", "RFC 3986 2.1", b"AGTP/1.0 QUERY /%2e%2e/a", "QUERY", "/%2e%2e/a", None)
    _line("escaped-nul", "RFC 3986 2.1 (a later gate)", b"AGTP/1.0 QUERY /a%00", "QUERY", "/a%00", None)
    _line("escaped-crlf", "RFC 3986 2.1 (a later gate)", b"AGTP/1.0 QUERY /a%0d%0ab", "QUERY", "/a%0d%0ab", None)
    _line("escaped-overlong", "RFC 3986 2.1 (a later gate)", b"AGTP/1.0 QUERY /%c0%af", "QUERY", "/%c0%af", None)
    _line("escapes-only", "RFC 3986 2.1", b"AGTP/1.0 QUERY /%41%42", "QUERY", "/%41%42", None)
    for octet in b"-._~!$&'()*+,;=:@":
        path = f"/a{chr(octet)}b"
        _line(f"path-may-hold-{_name(octet)}", "RFC 3986 3.3", f"AGTP/1.0 QUERY {path}".encode(), "QUERY", path, None)
    for octet in b"-._~!$&'()*+,;=:@/?":
        query = f"a{chr(octet)}b"
        line = f"AGTP/1.0 QUERY /?{query}".encode()
        _line(f"query-may-hold-{_name(octet)}", "RFC 3986 3.4", line, "QUERY", "/", query)
    for octet in [*b'"<>[]\\^`{|}', *range(0x20), 0x7F, 0x80, 0x85, 0xA0, 0xFF]:
        if octet not in b"\r\n":
            byte = bytes([octet])
            _line(f"path-never-holds-{_name(octet)}", "API-029", b"AGTP/1.0 QUERY /a" + byte + b"b")
            _line(f"query-never-holds-{_name(octet)}", core, b"AGTP/1.0 QUERY /?a" + byte + b"b")
            _line(f"method-never-holds-{_name(octet)}", core, b"AGTP/1.0 QU" + byte + b"ERY /") if octet not in b"^`|" else None
    for octet in b"(),/:;=?@":
        _line(f"method-never-holds-{_name(octet)}", "RFC 9110 5.6.2", b"AGTP/1.0 QU" + bytes([octet]) + b"ERY /")
    for octet in b"!$%&'*+-.^_`|~09az":
        method = f"QU{chr(octet)}ERY"
        _line(
            f"method-may-hold-{_name(octet)}", "RFC 9110 5.6.2 (459 later)", f"AGTP/1.0 {method} /".encode(), method, "/", None
        )
    for id, target in {
        "in-path": b"/catalog#x",
        "alone": b"#",
        "first": b"/#",
        "in-query": b"/a?b#c",
        "without-path": b"#x",
        "twice": b"/a##",
    }.items():
        _line(f"fragment-{id}", "AGTP-022, API-038", b"AGTP/1.0 QUERY " + target)
    _line("fragment-in-method", "AGTP-022", b"AGTP/1.0 QU#ERY /")
    _line("fragment-in-version", "AGTP-022", b"AGTP/1.0# QUERY /")
    for id, target in {
        "relative": b"foo",
        "relative-query": b"?a=1",
        "asterisk": b"*",
        "absolute-agtp": b"agtp://example.com/a",
        "absolute-http": b"http://example.com/a",
        "authority": b"example.com:4480",
        "dot": b".",
        "backslash": b"\\a",
        "escaped-slash": b"%2Fa",
    }.items():
        _line(f"target-{id}", "AGTP-020", b"AGTP/1.0 QUERY " + target)
    for id, target in {"double-slash": b"//", "double-slash-name": b"//a", "double-slash-query": b"//?a"}.items():
        _line(f"target-{id}", "RFC 3986 3.3 segment-nz", b"AGTP/1.0 QUERY " + target)
    for id, target in {
        "percent-alone": b"/%",
        "percent-one-digit": b"/%4",
        "percent-not-hex": b"/%zz",
        "percent-then-slash": b"/%4/a",
        "percent-percent": b"/%%41",
        "percent-u": b"/%u0041",
        "percent-in-query": b"/?a=%",
        "percent-not-hex-in-query": b"/?a=%g1",
    }.items():
        _line(f"escape-{id}", "RFC 3986 2.1", b"AGTP/1.0 QUERY " + target)
    for id, line in {
        "double-space-before-method": b"AGTP/1.0  QUERY /",
        "double-space-before-target": b"AGTP/1.0 QUERY  /",
        "leading-space": b" AGTP/1.0 QUERY /",
        "trailing-space": b"AGTP/1.0 QUERY / ",
        "trailing-tab": b"AGTP/1.0 QUERY /\t",
        "tab-before-method": b"AGTP/1.0\tQUERY /",
        "tab-before-target": b"AGTP/1.0 QUERY\t/",
        "four-tokens": b"AGTP/1.0 QUERY / x",
        "http-order": b"QUERY / AGTP/1.0",
        "http": b"GET / HTTP/1.1",
        "version-and-http": b"AGTP/1.0 QUERY / HTTP/1.1",
        "empty": b"",
        "space": b" ",
        "version-alone": b"AGTP/1.0",
        "version-and-space": b"AGTP/1.0 ",
        "no-version": b"QUERY /",
        "no-method": b"AGTP/1.0 /",
        "empty-method": b"AGTP/1.0  /",
        "response-line-with-text": b"AGTP/1.0 200 All Right Then",
        "version-1.1": b"AGTP/1.1 QUERY /",
        "version-2.0": b"AGTP/2.0 QUERY /",
        "version-0.9": b"AGTP/0.9 QUERY /",
        "version-1": b"AGTP/1 QUERY /",
        "version-1.00": b"AGTP/1.00 QUERY /",
        "version-01.0": b"AGTP/01.0 QUERY /",
        "version-1,0": b"AGTP/1,0 QUERY /",
        "version-lower-case": b"agtp/1.0 QUERY /",
        "version-http": b"HTTP/1.0 QUERY /",
        "version-foreign-digit": "AGTP/١.0 QUERY /".encode(),
        "byte-order-mark": b"\xef\xbb\xbfAGTP/1.0 QUERY /",
        "nul-first": b"\x00AGTP/1.0 QUERY /",
        "tls-hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    }.items():
        _line(id, "AGTP-017", line)
    for method in ("QUERY", "X-PROBE", "A", "query", "Query", "NO_SUCH", "M" * 33, "M" * 64):
        _line(f"method-{method[:8]}-{len(method)}", "AGTP-017 (459 later)", f"AGTP/1.0 {method} /".encode(), method, "/", None)
    _line("method-too-long", "API 3.2", b"AGTP/1.0 " + b"M" * 65 + b" /")
    _line("method-too-long-two-tokens", "API 3.2", b"AGTP/1.0 " + b"M" * 65)
    _line("method-8k", "API 3.2", b"AGTP/1.0 " + b"M" * 8000 + b" /")
    _case("T-RL-refused-before-the-head-ends", core, b"AGTP/1.0 QUERY foo\r\n", LINE)
    _case("T-RL-refused-at-the-first-octet", core, b"G", LINE)
    _case("T-RL-refused-at-the-ninth-octet", core, b"AGTP/1.0\t", LINE)
    _case("T-RL-crlf-before-it", "core 5.4.1 (no leading line ends)", b"\r\nAGTP/1.0 QUERY /\r\n\r\n", LINE)
    _case("T-RL-crlf-alone", core, b"\r\n\r\n", LINE)


# --- T-WF: framing ----------------------------------------------------------------------------------------


def _length(id: str, value: bytes, refusal: str = LENGTH, body: bytes = b"") -> None:
    _case(
        f"T-WF-length-{id}", "AGTP-012, security 2.2",
        b"AGTP/1.0 QUERY /\r\nContent-Type: text/plain\r\nContent-Length:" + value + b"\r\n\r\n" + body, refusal,
    )


def _framing() -> None:
    source = "AGTP-012, security 2.2"
    for id, value in {
        "plus": b" +5", "minus": b" -5", "minus-zero": b" -0", "leading-zero": b" 05", "two-zeros": b" 00",
        "many-zeros": b" 0000000005", "list": b" 5,5", "list-space": b" 5, 5", "two-numbers": b" 5 5", "hex": b" 0x5",
        "hex-bare": b" a", "octal": b" 0o5", "binary": b" 0b1", "decimal": b" 5.0", "exponent": b" 5e0", "underscore": b" 1_0",
        "arabic-digit": " ٥".encode(), "fullwidth-digit": " １".encode(), "superscript": b" \xb2", "empty": b"",
        "blank": b" ", "tab": b"\t", "word": b" five", "quoted": b' "5"', "semicolon": b" 5;", "trailing-comma": b" 5,",
        "leading-comma": b" ,5", "11-digits": b" 10000000000", "30-digits": b" 1" + b"0" * 30, "infinity": b" inf",
        "nan": b" nan", "long": b" 5L", "inner-tab": b" 5\t5", "percent": b" %35", "colon": b": 5", "slash": b" 5/",
        "5000-digits": b" " + b"9" * 5000,
    }.items():  # fmt: skip
        # Octets beyond ASCII break the rule for field values before the one for lengths.
        _length(id, value, FIELD if not value.isascii() else LENGTH, b"hello")
    for octet in [0x00, 0x0B, 0x0C, 0x1C, 0x7F, 0x85, 0xA0]:
        _length(f"led-by-{_name(octet)}", bytes([octet]) + b"5", FIELD, b"hello")
        _length(f"followed-by-{_name(octet)}", b"5" + bytes([octet]), FIELD, b"hello")
    text = ("Content-Type", "text/plain")
    for id, value, read in (
        ("plain", b" 5", "5"), ("no-space", b"5", "5"), ("spaces", b"   5   ", "5"), ("tabs", b"\t5\t", "5"),
    ):  # fmt: skip
        _case(
            f"T-WF-length-{id}", source,
            b"AGTP/1.0 QUERY /\r\nContent-Type: text/plain\r\nContent-Length:" + value + b"\r\n\r\nhello", "",
            _request("QUERY", "/", None, text, ("Content-Length", read), body=b"hello"),
        )  # fmt: skip
    for id, name in {"lower": "content-length", "upper": "CONTENT-LENGTH", "mixed": "cOnTeNt-LeNgTh"}.items():
        _case(
            f"T-WF-length-name-{id}", "RFC 9110 5.1",
            f"AGTP/1.0 QUERY /\r\n{name}: 2\r\n\r\nok".encode(), "",
            _request("QUERY", "/", None, (name, "2"), body=b"ok"),
        )  # fmt: skip
    for id, first, second in (
        ("equal", "Content-Length: 5", "Content-Length: 5"), ("zero-twice", "Content-Length: 0", "Content-Length: 0"),
        ("differing", "Content-Length: 5", "Content-Length: 6"), ("shorter-last", "Content-Length: 5", "Content-Length: 0"),
        ("other-case", "Content-Length: 5", "content-length: 5"), ("other-case-2", "CONTENT-LENGTH: 5", "Content-Length: 6"),
        ("one-empty", "Content-Length: 5", "Content-Length:"), ("one-malformed", "Content-Length: +5", "Content-Length: 5"),
    ):  # fmt: skip
        octets = f"AGTP/1.0 QUERY /\r\n{first}\r\nX-Between: 1\r\n{second}\r\n\r\nhello".encode()
        _case(f"T-WF-length-twice-{id}", source, octets, LENGTH)
    _case("T-WF-length-three-times", source, b"AGTP/1.0 QUERY /\r\n" + b"Content-Length: 0\r\n" * 3 + b"\r\n", LENGTH)
    for id, field in {
        "chunked": b"Transfer-Encoding: chunked", "identity": b"Transfer-Encoding: identity", "empty": b"Transfer-Encoding:",
        "lower-case": b"transfer-encoding: chunked", "upper-case": b"TRANSFER-ENCODING: GZIP", "list": b"Transfer-Encoding: gzip, chunked",
        "unknown": b"Transfer-Encoding: x",
    }.items():  # fmt: skip
        _case(
            f"T-WF-encoding-{id}", "AGTP-015",
            b"AGTP/1.0 QUERY /\r\n" + field + b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n", ENCODING,
        )  # fmt: skip
        _case(
            f"T-WF-encoding-{id}-and-length", "AGTP-015",
            b"AGTP/1.0 QUERY /\r\nContent-Length: 0\r\n" + field + b"\r\n\r\n", ENCODING,
        )  # fmt: skip
    for id, name in {"space-before-colon": b"Transfer-Encoding ", "leading-space": b" Transfer-Encoding", "tab": b"\tTransfer-Encoding",
                     "tab-before-colon": b"Transfer-Encoding\t", "nul": b"Transfer-Encoding\x00"}.items():  # fmt: skip
        _case(f"T-WF-encoding-hidden-{id}", "AGTP-015", b"AGTP/1.0 QUERY /\r\n" + name + b": chunked\r\n\r\n", FIELD)
    _case("T-WF-encoding-lookalike", "AGTP-056", b"AGTP/1.0 QUERY /\r\nTransfer_Encoding: chunked\r\n\r\n", "",
          _request("QUERY", "/", None, ("Transfer_Encoding", "chunked")))  # fmt: skip
    _no_length(source)
    _bodies()
    _line_endings()


def _no_length(source: str) -> None:
    decision = "design decision 2, companion 15"
    _case("T-WF-no-length", decision, b"AGTP/1.0 QUERY /\r\nTask-ID: t\r\n\r\n", "",
          _request("QUERY", "/", None, ("Task-ID", "t")))  # fmt: skip
    _case("T-WF-no-fields", decision, b"AGTP/1.0 QUERY /\r\n\r\n", "", _request())
    _case("T-WF-no-fields-two-tokens", decision, b"AGTP/1.0 DISCOVER\r\n\r\n", "", _request("DISCOVER"))
    _case("T-WF-no-length-strict", source, b"AGTP/1.0 QUERY /\r\nTask-ID: t\r\n\r\n", NO_LENGTH, strict=True)
    _case("T-WF-no-fields-strict", source, b"AGTP/1.0 QUERY /\r\n\r\n", NO_LENGTH, strict=True)
    _case("T-WF-no-length-with-type", source, b'AGTP/1.0 QUERY /\r\nContent-Type: application/json\r\n\r\n{"a":1}', NO_LENGTH)
    _case("T-WF-no-length-with-type-lower", source, b"AGTP/1.0 QUERY /\r\ncontent-type: text/plain\r\n\r\n", NO_LENGTH)
    _case("T-WF-no-length-then-body", source, b'AGTP/1.0 QUERY /\r\nTask-ID: t\r\n\r\n{"a":1}', LINE,
          _request("QUERY", "/", None, ("Task-ID", "t")))  # fmt: skip
    _case("T-WF-no-length-then-request", decision, b"AGTP/1.0 QUERY /a\r\n\r\nAGTP/1.0 QUERY /b\r\n\r\n", "",
          _request("QUERY", "/a"), _request("QUERY", "/b"))  # fmt: skip


def _bodies() -> None:
    source = "AGTP-013"
    head = b"AGTP/1.0 QUERY /\r\nContent-Length: 10\r\n\r\n"
    whole = _request("QUERY", "/", None, ("Content-Length", "10"), body=b"0123456789")
    _case("T-WF-200-nothing", source, b"")
    _case("T-WF-200-complete", source, head + b"0123456789", "", whole)
    _case("T-WF-200-one-short", source, head + b"012345678", waiting="body")
    _case("T-WF-200-none-of-it", source, head, waiting="body")
    _case("T-WF-200-one-over", source, head + b"0123456789G", LINE, whole)
    _case("T-WF-200-crlf-over", source, head + b"0123456789\r\n", LINE, whole)
    _case("T-WF-200-start-of-next", source, head + b"0123456789AGTP/1.0", "", whole, waiting="header")
    _case("T-WF-200-next", source, head + b"0123456789" + head + b"abcdefghij", "", whole,
          _request("QUERY", "/", None, ("Content-Length", "10"), body=b"abcdefghij"))  # fmt: skip
    zero = _request("QUERY", "/", None, ZERO)
    empty = b"AGTP/1.0 QUERY /\r\nContent-Length: 0\r\n\r\n"
    _case("T-WF-200-three-empty", source, empty * 3, "", zero, zero, zero)
    _case("T-WF-200-twenty-empty", "T-PL-1", empty * 20, "", *[zero] * 20)
    _case("T-WF-200-body-after-zero", source, empty + b"hello", LINE, zero)
    _case("T-WF-200-good-bad-good", "invariant 9", empty + b"AGTP/1.0 QUERY foo\r\n\r\n" + empty, LINE, zero)
    smuggled = b"AGTP/1.0 REVOKE /\r\n\r\n"
    for id, body in {
        "request": smuggled, "crlf": b"\r\n\r\n", "nul": b"\x00\x00", "all-octets": bytes(range(256)), "lf": b"\n\n\n",
        "utf-8": "ü€😀".encode(), "length-field": b"Content-Length: 0\r\n\r\n", "cr": b"\r",
    }.items():  # fmt: skip
        size = str(len(body))
        octets = f"AGTP/1.0 QUERY /\r\nContent-Length: {size}\r\n\r\n".encode() + body
        message = _request("QUERY", "/", None, ("Content-Length", size), body=body)
        _case(f"T-WF-200-body-of-{id}", source, octets, "", message)
        _case(f"T-WF-200-body-of-{id}-then-request", source, octets + empty, "", message, zero)
    for id, octets in {
        "version": b"AGTP/1.0", "version-space": b"AGTP/1.0 ", "line": b"AGTP/1.0 QUERY /", "line-cr": b"AGTP/1.0 QUERY /\r",
        "line-crlf": b"AGTP/1.0 QUERY /\r\n", "field": b"AGTP/1.0 QUERY /\r\nTask-ID: t", "field-crlf": b"AGTP/1.0 QUERY /\r\nTask-ID: t\r\n",
        "last-cr": b"AGTP/1.0 QUERY /\r\nTask-ID: t\r\n\r", "first-octet": b"A",
    }.items():  # fmt: skip
        _case(f"T-WF-200-cut-after-{id}", source, octets, waiting="header")
        _case(f"T-WF-200-cut-after-{id}-behind-one", source, empty + octets, "", zero, waiting="header")


def _line_endings() -> None:
    source = "core 5.4.1 CRLF, RFC 9112 2.2"
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
        _case(f"T-WF-ending-{id}", source, octets, ENDING)
    _case("T-WF-ending-lf-before-the-version-is-complete", source, b"AGTP\n/1.0 QUERY /\r\n\r\n", LINE)


# --- T-HI: header fields ----------------------------------------------------------------------------------


def _field(id: str, source: str, field: bytes, *fields: tuple[str, str]) -> None:
    """A request of one field line; refused if no fields are given."""
    octets = b"AGTP/1.0 QUERY /\r\n" + field + b"\r\nContent-Length: 0\r\n\r\n"
    if fields:
        _case(f"T-HI-{id}", source, octets, "", _request("QUERY", "/", None, *fields, ZERO))
    else:
        _case(f"T-HI-{id}", source, octets, FIELD)


def _header_fields() -> None:
    syntax = "RFC 9112 5"
    value = "RFC 9110 5.5, security 2.2"
    for octet in (*range(0x20), 0x7F, 0x80, 0x85, 0xA0, 0xC3, 0xE2, 0xFE, 0xFF):
        byte = bytes([octet])
        if octet not in b"\r\n\t":
            _field(f"value-never-holds-{_name(octet)}", value, b"Task-ID: a" + byte + b"b")
            _field(f"value-never-ends-with-{_name(octet)}", value, b"Task-ID: a" + byte)
        if octet not in b"\r\n":
            _field(f"name-never-holds-{_name(octet)}", "RFC 9110 5.1", b"Task" + byte + b"ID: a")
            _field(f"name-never-ends-with-{_name(octet)}", "RFC 9112 5.1", b"Task-ID" + byte + b": a")
    for octet in b' "(),/;<=>?@[\\]{}':
        _field(f"name-never-holds-{_name(octet)}", "RFC 9110 5.6.2", b"Task" + bytes([octet]) + b"ID: a")
    for octet in b"!#$%&'*+-.^_`|~09AZaz":
        name = f"Task{chr(octet)}ID"
        _field(f"name-may-hold-{_name(octet)}", "RFC 9110 5.6.2", f"{name}: a".encode(), (name, "a"))
    for octet in (0x21, 0x22, 0x2C, 0x3A, 0x3B, 0x5C, 0x7B, 0x7E):
        text = f"a{chr(octet)}b"
        _field(f"value-may-hold-{_name(octet)}", value, f"Task-ID: {text}".encode(), ("Task-ID", text))
    for id, text in {"bidi": "a\u202eb", "zero-width": "a\u200bb", "next-line": "a\u0085b", "line-separator": "a\u2028b",
                     "umlaut": "ü", "emoji": "😀"}.items():  # fmt: skip
        _field(f"value-never-holds-{id}", "security 2.2 (echoed)", f"Task-ID: {text}".encode())
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
        ("plain", "Task-ID: t-1", "t-1"), ("no-space", "Task-ID:t-1", "t-1"), ("many-spaces", "Task-ID:    t-1   ", "t-1"),
        ("tabs", "Task-ID:\tt-1\t", "t-1"), ("mixed-space", "Task-ID: \t t-1 \t ", "t-1"), ("empty", "Task-ID:", ""),
        ("blank", "Task-ID:   ", ""), ("inner-space", "Task-ID: a  b", "a  b"), ("inner-tab", "Task-ID: a\tb", "a\tb"),
        ("colons", "Task-ID: a:b:c", "a:b:c"), ("colon-first", "Task-ID: :a", ":a"), ("quotes", 'Task-ID: "a, b"', '"a, b"'),
        ("looks-like-a-field", "Task-ID: Content-Length: 5", "Content-Length: 5"), ("escape", "Task-ID: %0d%0aX: y", "%0d%0aX: y"),
    ):  # fmt: skip
        _field(f"value-{id}", syntax, field.encode(), ("Task-ID", read))
    _field("spelling-is-kept", "AGTP-043", b"aGeNt-iD: AbC", ("aGeNt-iD", "AbC"))
    _field("repeated", "RFC 9110 5.3", b"X-A: 1\r\nX-B: 2\r\nX-A: 3", ("X-A", "1"), ("X-B", "2"), ("X-A", "3"))
    _field("repeated-other-case", "RFC 9110 5.3", b"X-A: 1\r\nx-a: 2", ("X-A", "1"), ("x-a", "2"))
    for name in ("AGTP-Version", "AGTP-Method", "AGTP-Status", "Principal-ID", "Server-Agent-ID"):
        _field(f"removed-{name}", "AGTP-026 (a later gate)", f"{name}: x".encode(), (name, "x"))
    for name in ("Priority", "TTL", "Budget-Limit", "AGTP-Zone-ID", "Content-Schema", "Telemetry-Export", "Method-Grammar",
                 "X-HTTP-Method-Override", "Connection", "Upgrade", "Expect", "TE", "Trailer", "Host"):  # fmt: skip
        _field(f"no-effect-{name}", "AGTP-027, AGTP-028, AGTP-056", f"{name}: x".encode(), (name, "x"))
    _field("first-error-decides", "core 5.4.1", b"Bad Name: a\r\nContent-Length: +5")
    _case("T-HI-long-name", "RFC 9110 5.1", b"AGTP/1.0 QUERY /\r\n" + b"N" * 200 + b": a\r\n\r\n", "",
          _request("QUERY", "/", None, ("N" * 200, "a")))  # fmt: skip


# --- T-LM: limits -----------------------------------------------------------------------------------------


def _limits() -> None:
    source = "security 2.2: 8 KiB lines, 32 KiB block, 100 fields, 1 MiB body"
    start = b"AGTP/1.0 QUERY /"
    path = "/" + "p" * (8192 - len(start))
    most = start + b"p" * (8192 - len(start))
    _case("T-LM-line-most", source, most + b"\r\n\r\n", "", _request("QUERY", path))
    _case("T-LM-line-one-over", source, most + b"p\r\n\r\n", "request-line-too-large")
    _case("T-LM-line-over-without-end", source, most + b"p", "request-line-too-large")
    _case("T-LM-line-most-without-end", source, most, waiting="header")
    _case("T-LM-line-lf-at-the-limit", source, most + b"\n", ENDING)
    value = "v" * (8192 - len("X-A: "))
    _case("T-LM-field-most", source, start + f"\r\nX-A: {value}\r\n\r\n".encode(), "", _request("QUERY", "/", None, ("X-A", value)))
    _case("T-LM-field-one-over", source, start + f"\r\nX-A: {value}v\r\n\r\n".encode(), "header-line-too-large")
    _case("T-LM-field-over-without-end", source, start + f"\r\nX-A: {value}v".encode(), "header-line-too-large")
    _case("T-LM-field-most-without-end", source, start + f"\r\nX-A: {value}".encode(), waiting="header")
    _case("T-LM-name-over", source, start + b"\r\n" + b"N" * 8193, "header-line-too-large")
    quarter = ("X-A", "v" * (8192 - len("X-A: ") - 2))
    block = (f"X-A: {quarter[1]}\r\n" * 4).encode()
    _case("T-LM-block-most", source, start + b"\r\n" + block + b"\r\n", "", _request("QUERY", "/", None, *[quarter] * 4))
    _case("T-LM-block-most-and-more", source, start + b"\r\n" + block + b"X", "header-block-too-large")
    _case("T-LM-block-one-over", source, start + b"\r\n" + block[:-2] + b"v\r\n\r\n", "header-block-too-large")
    _case("T-LM-block-over-by-lines", source, start + b"\r\n" + b"X: 1\r\n" * 10 + b"Y: " + b"v" * 8189 + b"\r\n" + block, "header-block-too-large")
    fields = tuple((f"X-{n}", "1") for n in range(101))
    lines = [f"{name}: 1\r\n".encode() for name, _ in fields]
    _case("T-LM-count-most", source, start + b"\r\n" + b"".join(lines[:100]) + b"\r\n", "", _request("QUERY", "/", None, *fields[:100]))
    _case("T-LM-count-one-over", source, start + b"\r\n" + b"".join(lines) + b"\r\n", "too-many-headers")
    _case("T-LM-count-over-without-end", source, start + b"\r\n" + b"".join(lines), "too-many-headers")
    _case("T-LM-count-same-name", source, start + b"\r\n" + b"X: 1\r\n" * 101 + b"\r\n", "too-many-headers")
    _case("T-LM-body-most", source, start + b"\r\nContent-Length: 1048576\r\n\r\n", waiting="body")
    for id, size in {"one-over": "1048577", "gib": "1073741824", "10-digits": "9999999999"}.items():
        _case(f"T-LM-body-{id}", source, start + f"\r\nContent-Length: {size}\r\n\r\n".encode(), "body-too-large")
    _case("T-LM-body-11-digits", source, start + b"\r\nContent-Length: 99999999999\r\n\r\n", LENGTH)


# --- T-RS: responses --------------------------------------------------------------------------------------


def _response(id: str, source: str, line: bytes, *first: object) -> None:
    octets = line + b"\r\nContent-Length: 0\r\n\r\n"
    if first:
        _case(f"T-RS-{id}", source, octets, "", Message(first=first, fields=(ZERO,)), role="client")
    else:
        _case(f"T-RS-{id}", source, octets, RESPONSE_LINE, role="client")


def _responses() -> None:
    source = "AGTP-018, AGTP-019"
    for code, text in ((200, "OK"), (263, "Banana"), (0, "OK"), (599, "x"), (999, "x"), (42, "x"), (204, "No Content"), (262, "")):
        _response(f"code-{code:03d}", source, f"AGTP/1.0 {code:03d} {text}".encode(), code, text)
    for id, text in {"space": " ", "two-spaces": "  a  b ", "tab": "a\tb", "fragment": "#1", "punctuation": "a/b?c=%zz"}.items():
        _response(f"text-{id}", source, f"AGTP/1.0 200 {text}".encode(), 200, text)
    for id, line in {
        "two-digits": b"AGTP/1.0 20 OK", "four-digits": b"AGTP/1.0 2000 OK", "no-digits": b"AGTP/1.0 OK", "signed": b"AGTP/1.0 +20 OK",
        "foreign-digits": "AGTP/1.0 ٢٠٠ OK".encode(), "letter": b"AGTP/1.0 2o0 OK", "no-space": b"AGTP/1.0 200", "joined": b"AGTP/1.0 200OK",
        "double-space": b"AGTP/1.0  200 OK", "tab": b"AGTP/1.0 200\tOK", "tab-before-code": b"AGTP/1.0\t200 OK", "version": b"AGTP/1.1 200 OK",
        "http": b"HTTP/1.1 200 OK", "lower-case": b"agtp/1.0 200 OK", "empty": b"", "nul-in-text": b"AGTP/1.0 200 a\x00b",
        "delete-in-text": b"AGTP/1.0 200 a\x7f", "8-bit-in-text": b"AGTP/1.0 200 \xfc", "request": b"AGTP/1.0 QUERY /",
    }.items():  # fmt: skip
        _response(f"line-{id}", source, line)
    ok = b"AGTP/1.0 200 OK\r\n"
    more = {"role": "client"}
    whole = Message(first=(200, "OK"), fields=(("Content-Length", "2"),), body=b"{}")
    _case("T-RS-body", "AGTP-013", ok + b"Content-Length: 2\r\n\r\n{}", "", whole, **more)
    _case("T-RS-two", "AGTP-013", (ok + b"Content-Length: 2\r\n\r\n{}") * 2, "", whole, whole, **more)
    _case("T-RS-body-short", "AGTP-013", ok + b"Content-Length: 2\r\n\r\n{", waiting="body", **more)
    _case("T-RS-head-short", "AGTP-013", ok, waiting="header", **more)
    _case("T-RS-no-length", "AGTP-012", ok + b"\r\n", NO_LENGTH, **more)
    _case("T-RS-no-length-204", "AGTP-012", b"AGTP/1.0 204 No Content\r\n\r\n", NO_LENGTH, **more)
    _case("T-RS-length-twice", "AGTP-012", ok + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n", LENGTH, **more)
    _case("T-RS-length-plus", "AGTP-012", ok + b"Content-Length: +0\r\n\r\n", LENGTH, **more)
    _case("T-RS-chunked", "AGTP-015", ok + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ENCODING, **more)
    _case("T-RS-lf", "core 5.4.1", b"AGTP/1.0 200 OK\nContent-Length: 0\n\n", ENDING, **more)
    _case("T-RS-fold", "RFC 9112 5.2", ok + b"X-A: a\r\n b\r\n\r\n", FIELD, **more)
    _case("T-RS-too-large", "security 2.4", ok + b"Content-Length: 1048577\r\n\r\n", "body-too-large", **more)
    _case("T-RS-garbage-behind", "AGTP-013", ok + b"Content-Length: 2\r\n\r\n{}garbage", RESPONSE_LINE, whole, **more)
    interim = b"AGTP/1.0 202 Accepted\r\nContinuation-Token: c\r\nContent-Length: 0\r\n\r\n"
    token = Message(first=(202, "Accepted"), fields=(("Continuation-Token", "c"), ZERO))
    _case("T-RS-interim", "AGTP-016", interim * 2 + ok + b"Content-Length: 2\r\n\r\n{}", "", token, token, whole, **more)


_request_lines()
_framing()
_header_fields()
_limits()
_responses()
