"""An answer over HTTP as a terminal shows it, such as ``curl -i``: read for the record in it."""

from __future__ import annotations

import hashlib
import re

from agtphost.client.verification import Evidence
from agtphost.wire.headers import Headers

RECORD = "attribution-record"

_HEAD = re.compile(rb"HTTP/[0-9.]+ [0-9]{3}[^\n]*\n(?:[^\r\n]+\r?\n)*+(?:\r?\n)?", re.ASCII)
_STATUS = re.compile(r"[0-9]{3}", re.ASCII)


def read_printed(octets: bytes) -> Evidence:
    """
    Return the answer that was printed, the last one that has a record; or a record alone.

    :raises ValueError: it is neither.
    """
    heads = [found for found in _HEAD.finditer(octets) if RECORD in found[0].decode("latin-1").lower()]
    if not heads:
        text = octets.decode("latin-1").strip()
        if text.count(".") != 2 or any(sign.isspace() for sign in text):
            raise ValueError("the Attribution-Record is missing")
        digest = hashlib.sha256(text.encode("latin-1")).hexdigest()
        return _evidence(Headers([("Attribution-Record", text), ("Audit-ID", digest)]), None)
    lines = heads[-1][0].decode("latin-1").splitlines()[1:]
    fields = [(name.strip(), value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon]
    headers, body = Headers(fields), octets[heads[-1].end() :]
    announced = headers.get("content-length") or ""
    length = int(announced) if re.fullmatch("[0-9]{1,12}", announced, re.ASCII) else len(body)
    # Terminals and editors add a line's end to what they keep.
    whole = len(body) >= length and body[length:].strip() == b""
    return _evidence(headers, body[:length] if whole else None)


def _evidence(headers: Headers, body: bytes | None) -> Evidence:
    said = _STATUS.match(headers.get("agtp-status") or "")
    return Evidence(
        status=None if said is None else int(said[0]),
        headers=headers,
        body=body,
        request_line=None,
        request_body=b"",
        agent_id=None,
    )
