"""Requests that a proxy and a server could read in two ways, and requests that claim what nobody asked them."""

from __future__ import annotations


def get(*fields: str, line: str = "GET {path} HTTP/1.1", host: str = "Host: localhost:{port}", body: str = "") -> str:
    """A request; what stands in braces depends on the listener."""
    return "\r\n".join([line, *([host] if host else []), *fields]) + "\r\n\r\n" + body


def post(*fields: str, body: str = "") -> str:
    return get("Content-Type: application/json", *fields, line="POST {path} HTTP/1.1", body=body)


CHUNKS = "3\r\nabc\r\n0\r\n\r\n"
CHUNKED = "Transfer-Encoding: chunked"
BAD, ANY = {400}, {400, 401, 403, 404, 405, 408, 413}
"""Of a body some surfaces want to see nothing, and say so before they have seen what is wrong with it."""

REFUSED: dict[str, tuple[str, set[int]]] = {
    # Who is meant
    "no host": (get(host=""), BAD),
    "an empty host": (get(host="Host:"), BAD),
    "two hosts": (get("Host: localhost:{port}"), BAD),
    "a host that rebinds": (get(host="Host: evil.example"), {421}),
    "a host of another address": (get(host="Host: 127.0.0.2:{port}"), {421}),
    "a host with a user": (get(host="Host: localhost:{port}@evil.example"), {421}),
    "a host with a dot behind": (get(host="Host: localhost.:{port}"), {421}),
    "a host in a list": (get(host="Host: localhost:{port}, evil.example"), {421}),
    "an absolute target": (get(line="GET http://localhost:{port}{path} HTTP/1.1"), BAD),
    "an absolute target of another": (get(line="GET http://evil.example{path} HTTP/1.1"), BAD),
    "a target that is an authority": (get(line="CONNECT localhost:{port} HTTP/1.1"), BAD),
    "a target that is a star": (get(line="OPTIONS * HTTP/1.1"), BAD),
    # Which page sends it
    "a page elsewhere": (get("Origin: https://evil.example"), {403}),
    "a page of no origin": (get("Origin: null"), {403}),
    "a page that says no origin": (get("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"), {403}),
    "a page of another port": (get("Sec-Fetch-Site: same-site"), {403}),
    "two origins": (get("Origin: https://localhost:{port}", "Origin: https://evil.example"), BAD),
    # How long the body is
    "a length and chunks": (post("Content-Length: 3", CHUNKED, body=CHUNKS), BAD),
    "chunks and a length": (post(CHUNKED, "Content-Length: 3", body=CHUNKS), BAD),
    "two lengths that differ": (post("Content-Length: 3", "Content-Length: 30", body="abc"), BAD),
    "two lengths alike": (post("Content-Length: 3", "Content-Length: 3", body="abc"), BAD),
    "lengths in a list": (post("Content-Length: 3, 3", body="abc"), BAD),
    "a length with a sign": (post("Content-Length: +3", body="abc"), BAD),
    "a length below nothing": (post("Content-Length: -3", body="abc"), BAD),
    "a length in hexadecimal": (post("Content-Length: 0x3", body="abc"), BAD),
    "a length of 5,000 digits": (post(f"Content-Length: {'9' * 5000}", body="abc"), BAD),
    "a space before the colon of a length": (post("Content-Length : 3", body="abc"), BAD),
    "a space before the colon of a coding": (post("Transfer-Encoding : chunked", body=CHUNKS), BAD),
    "another coding": (post("Transfer-Encoding: gzip, chunked", body=CHUNKS), BAD),
    "no coding, said": (post("Transfer-Encoding: identity", body=CHUNKS), BAD),
    "two codings": (post(CHUNKED, "Transfer-Encoding: identity", body=CHUNKS), BAD),
    "chunks twice": (post(CHUNKED, CHUNKED, body=CHUNKS), BAD),
    "chunks with a tab": (post("Transfer-Encoding: \x0bchunked", body=CHUNKS), BAD),
    "chunks in HTTP/1.0": (get(CHUNKED, line="POST {path} HTTP/1.0", body=CHUNKS), BAD),
    "a chunk of no number": (post(CHUNKED, body="0x3\r\nabc\r\n0\r\n\r\n"), ANY),
    "a chunk below nothing": (post(CHUNKED, body="-3\r\nabc\r\n0\r\n\r\n"), ANY),
    "a chunk of 40 digits": (post(CHUNKED, body="f" * 40 + "\r\nabc\r\n0\r\n\r\n"), ANY),
    "a chunk that is longer": (post(CHUNKED, body="3\r\nabcd\r\n0\r\n\r\n"), ANY),
    "a body that is coded": (post("Content-Encoding: gzip", "Content-Length: 3", body="abc"), {415}),
    "an expectation": (post("Expect: everything", "Content-Length: 3", body="abc"), {417}),
    # What a line is
    "a folded field": (get("X: a\r\n b"), BAD),
    "a field that begins with a space": (get(" Content-Length: 3"), BAD),
    "a field without a colon": (get("nonsense"), BAD),
    "a field without a name": (get(": x"), BAD),
    "a name with a space": (get("a b: x"), BAD),
    "a value with a return": (get("X: a\rContent-Length: 3"), BAD),
    "a value with a line feed": (get("X: a\nContent-Length: 3"), BAD),
    "a value with a zero": (get("X: a\0b"), BAD),
    "line feeds alone": ("GET {path} HTTP/1.1\nHost: localhost:{port}\n\n\r\n\r\n", BAD),
    "two spaces": (get(line="GET  {path} HTTP/1.1"), BAD),
    "a tab": (get(line="GET\t{path} HTTP/1.1"), BAD),
    "a space before": (get(line=" GET {path} HTTP/1.1"), BAD),
    "a space behind": (get(line="GET {path} HTTP/1.1 "), BAD),
    "no version": (get(line="GET {path}"), BAD),
    "a version in lower case": (get(line="GET {path} http/1.1"), BAD),
    "another version": (get(line="GET {path} HTTP/1.2"), BAD),
    "the preface of HTTP/2": ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {505}),
    "a method of marks": (get(line="GE[T] {path} HTTP/1.1"), BAD),
    "a target in octets": (get(line="GET {path}\xe9 HTTP/1.1"), BAD),
    "101 fields": (get(*(f"X-{number}: y" for number in range(101))), BAD),
    "a head of 17,000 octets": (get("X: " + "y" * 17_000), BAD),
    "two credentials": (get("Authorization: Bearer a", "Authorization: Bearer b"), BAD),
}

CLAIMS: dict[str, tuple[str, ...]] = {
    "an agent": ("Agent-ID: " + "f" * 64, "X-Agent-Id: " + "f" * 64, "Owner-ID: root"),
    "scopes": ("Authority-Scope: *:*", "X-Authority-Scope: *:*"),
    "contracts": ("Allow-RCNS: true", "Allow_RCNS: true", "Allow-RCNS: yes", "Contract-Synthesized: true"),
    "another address": ("X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1;host=evil.example", "X-Real-IP: ::1"),
    "another host": ("X-Forwarded-Host: evil.example", "X-Host: evil.example", "X-Original-URL: /agents"),
    "another method": ("X-HTTP-Method-Override: DELETE", "X-HTTP-Method: PUT"),
    "another protocol": ("Connection: close, Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQ"),
    "a certificate": ("X-SSL-Client-Cert: x", "X-Client-Verify: SUCCESS", "X-Forwarded-Client-Cert: Hash=aa"),
}
