"""The request line: T-RL."""

from __future__ import annotations

from tests.wire.case import LINE, ZERO, Message, Table, name_of

TABLE = Table()


def _line(id: str, source: str, line: bytes, *first: object, strict: bool = False) -> None:
    """A request of one line and ``Content-Length: 0``; refused if no parts are given."""
    octets = line + b"\r\nContent-Length: 0\r\n\r\n"
    if first:
        TABLE.case(f"T-RL-{id}", source, octets, "", Message(first=first, fields=(ZERO,)), strict=strict)
    else:
        TABLE.case(f"T-RL-{id}", source, octets, LINE, strict=strict)


def _request_lines() -> None:
    core = "core v08 section 5.4.1"
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
    _line("empty-inner-segment", "RFC 3986 section 3.3", b"AGTP/1.0 QUERY /a//b", "QUERY", "/a//b", None)
    _line(
        "dot-segments",
        "RFC 3986 section 3.3 (never resolved)",
        b"AGTP/1.0 QUERY /a/../b/./c",
        "QUERY",
        "/a/../b/./c",
        None,
    )
    _line("escaped-dots", "RFC 3986 section 2.1", b"AGTP/1.0 QUERY /%2e%2e/a", "QUERY", "/%2e%2e/a", None)
    _line("escaped-nul", "RFC 3986 section 2.1 (later gate)", b"AGTP/1.0 QUERY /a%00", "QUERY", "/a%00", None)
    _line("escaped-crlf", "RFC 3986 section 2.1 (later gate)", b"AGTP/1.0 QUERY /a%0d%0ab", "QUERY", "/a%0d%0ab", None)
    _line("escaped-overlong", "RFC 3986 section 2.1 (later gate)", b"AGTP/1.0 QUERY /%c0%af", "QUERY", "/%c0%af", None)
    _line("escapes-only", "RFC 3986 section 2.1", b"AGTP/1.0 QUERY /%41%42", "QUERY", "/%41%42", None)
    for octet in b"-._~!$&'()*+,;=:@":
        path = f"/a{chr(octet)}b"
        _line(
            f"path-may-hold-{name_of(octet)}",
            "RFC 3986 section 3.3",
            f"AGTP/1.0 QUERY {path}".encode(),
            "QUERY",
            path,
            None,
        )
    for octet in b"-._~!$&'()*+,;=:@/?":
        query = f"a{chr(octet)}b"
        line = f"AGTP/1.0 QUERY /?{query}".encode()
        _line(f"query-may-hold-{name_of(octet)}", "RFC 3986 section 3.4", line, "QUERY", "/", query)
    for octet in [*b'"<>[]\\^`{|}', *range(0x20), 0x7F, 0x80, 0x85, 0xA0, 0xFF]:
        if octet not in b"\r\n":
            byte = bytes([octet])
            _line(f"path-never-holds-{name_of(octet)}", "API-029", b"AGTP/1.0 QUERY /a" + byte + b"b")
            _line(f"query-never-holds-{name_of(octet)}", core, b"AGTP/1.0 QUERY /?a" + byte + b"b")
    for octet in [*b'"<>[]\\{}(),/:;=?@', *set(range(0x20)) - {0x0A, 0x0D}, 0x7F, 0x80, 0x85, 0xA0, 0xFF]:
        _line(
            f"method-never-holds-{name_of(octet)}",
            "RFC 9110 section 5.6.2",
            b"AGTP/1.0 QU" + bytes([octet]) + b"ERY /",
        )
    for octet in b"!$%&'*+-.^_`|~09az":
        method = f"QU{chr(octet)}ERY"
        _line(
            f"method-may-hold-{name_of(octet)}",
            "RFC 9110 section 5.6.2 (459 later)",
            f"AGTP/1.0 {method} /".encode(),
            method,
            "/",
            None,
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
    for id, target in {
        "double-slash": b"//",
        "double-slash-name": b"//a",
        "double-slash-query": b"//?a",
    }.items():
        _line(f"target-{id}", "RFC 3986 section 3.3 segment-nz", b"AGTP/1.0 QUERY " + target)
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
        _line(f"escape-{id}", "RFC 3986 section 2.1", b"AGTP/1.0 QUERY " + target)
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
        _line(
            f"method-{method[:8]}-{len(method)}",
            "AGTP-017 (459 later)",
            f"AGTP/1.0 {method} /".encode(),
            method,
            "/",
            None,
        )
    _line("method-too-long", "AGTP-API section 3.2", b"AGTP/1.0 " + b"M" * 65 + b" /")
    _line("method-too-long-two-tokens", "AGTP-API section 3.2", b"AGTP/1.0 " + b"M" * 65)
    _line("method-8k", "AGTP-API section 3.2", b"AGTP/1.0 " + b"M" * 8000 + b" /")
    TABLE.case("T-RL-refused-before-the-head-ends", core, b"AGTP/1.0 QUERY foo\r\n", LINE)
    TABLE.case("T-RL-refused-at-the-first-octet", core, b"G", LINE)
    TABLE.case("T-RL-refused-at-the-ninth-octet", core, b"AGTP/1.0\t", LINE)
    leading = "core v08 section 5.4.1 (no leading line ends)"
    TABLE.case("T-RL-crlf-before-it", leading, b"\r\nAGTP/1.0 QUERY /\r\n\r\n", LINE)
    TABLE.case("T-RL-crlf-alone", core, b"\r\n\r\n", LINE)


_request_lines()
