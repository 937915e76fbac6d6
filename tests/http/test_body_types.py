"""Bodies at the gateway whose type no operation reads: 415, whatever is called."""

from __future__ import annotations

import json

from agtphost.identity import jws
from agtphost.testing import MemoryHost
from tests.http.test_left_over import TOKEN, connected
from tests.http.test_left_over import served as served
from tests.rows import each_row

MULTIPART = b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\nabc\r\n--x--\r\n'
TYPES = {
    "multipart/form-data; boundary=x": MULTIPART,
    "application/x-www-form-urlencoded": b"text=abc",
    "text/plain": b"abc",
    "application/vnd.agtp+yaml": b"text: abc",
}
PLACES = ("ECHO /text", "POST /tools/files/list_files", "DISCOVER /methods", "EXECUTE /")


def send(host: MemoryHost, line: str, kind: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, fields and body of the answer to one request."""
    channel, wire = connected(host)
    fields = ("Host: localhost:8080", f"Authorization: Bearer {TOKEN}", f"Content-Type: {kind}")
    head = "\r\n".join((f"{line} HTTP/1.1", *fields, f"Content-Length: {len(body)}", "", ""))
    channel.dataReceived(head.encode() + body)
    host.clock.settle()
    said, _, content = wire.value().partition(b"\r\n\r\n")
    status, *told = said.decode().split("\r\n")
    return int(status.split(" ")[1]), dict(each.split(": ", 1) for each in told), content


@each_row(("kind", "body"), TYPES.items(), ids=[kind.partition(";")[0] for kind in TYPES])
def test_a_body_of_another_type_is_415(served: MemoryHost, kind: str, body: bytes) -> None:
    """With the types that are read; AGTP has no 415, so the record and ``AGTP-Status`` have 400."""
    for line in PLACES:
        status, fields, content = send(served, line, kind, body)
        assert (status, json.loads(content)["reason"]) == (415, "unsupported-media-type"), (line, content)
        assert fields["AGTP-Status"] == "400 Bad Request" and "application/json" in fields["Accept"]
        assert jws.parse_unverified(fields["Attribution-Record"])["status"] == 400


def test_a_malformed_body_of_a_type_that_is_read_is_400(served: MemoryHost) -> None:
    """The control: nothing is wrong with its type."""
    status, fields, content = send(served, "ECHO /text", "application/json", b"{")
    assert (status, json.loads(content)["reason"]) == (400, "malformed-body") and "Accept" not in fields
