"""One record as it came with an answer: what ``curl -i`` prints of a gateway, on standard input."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from agtphost.cli.colour import Verdict, echo
from agtphost.cli.failures import Unverified, WrongInput
from agtphost.cli.output import print_json, print_table
from agtphost.client.verification import Evidence, verify
from agtphost.identity import jws
from agtphost.wire.headers import Headers

if TYPE_CHECKING:
    from agtphost.identity.keys import VerifyingKey

STDIN = "-"

LONGEST = 32 << 20
"""Octets that are read."""

RECORD = "attribution-record"
_HEAD = re.compile(rb"HTTP/[0-9.]+ [0-9]{3}[^\n]*\n(?:[^\r\n]+\r?\n)*\r?\n?")
_STATUS = re.compile(r"[0-9]{3}")
_WHAT = 'pipe what "curl -i" or "curl -D -" prints of an answer, or the Attribution-Record alone'


def read_answer(octets: bytes) -> Evidence:
    """
    The answer that was printed, or a record alone.

    :raises WrongInput: it is neither.
    """
    heads = [found for found in _HEAD.finditer(octets) if RECORD in found[0].decode("latin-1").lower()]
    if not heads:
        text = octets.decode("latin-1").strip()
        if text.count(".") != 2 or any(sign.isspace() for sign in text):
            raise WrongInput("standard input has no Attribution-Record", _WHAT)
        return _evidence(
            Headers([("Attribution-Record", text), ("Audit-ID", hashlib.sha256(text.encode("latin-1")).hexdigest())]),
            None,
        )
    lines = heads[-1][0].decode("latin-1").splitlines()[1:]
    fields = [(name.strip(), value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon]
    headers, body = Headers(fields), octets[heads[-1].end() :]
    announced = headers.get("content-length") or ""
    length = int(announced) if announced.isascii() and announced.isdigit() else len(body)
    # Terminals and editors add a line's end to what they keep.
    return _evidence(headers, body[:length] if body[length:].strip() == b"" and len(body) >= length else None)


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


def conclude_answer(keys: Mapping[str, VerifyingKey], as_json: bool) -> None:
    """
    Check what is on standard input, and say what was found.

    :raises Unverified: anything is wrong with it.
    """
    evidence = read_answer(sys.stdin.buffer.read(LONGEST))
    found = verify(evidence, keys, require_signature=True)
    payload = jws.parse_unverified(evidence.headers.get(RECORD) or "") if found.ok else {}
    audit_id = evidence.headers.get("audit-id")
    checks = [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in found.checks]
    answer = {"verified": found.ok, "audit_id": audit_id, "checks": checks, "payload": payload}
    if not found.ok:
        listed = "\n".join(f"  {check.name}: {check.detail}" for check in found.failures)
        raise Unverified(f"the record does not verify:\n{listed}", answer=answer)
    if as_json:
        print_json(answer)
        return
    print_table(("CHECK", "FOUND"), ((check.name, check.detail) for check in found.checks))
    if evidence.body is None:
        click.echo("the body was not piped: whether the record is of it was not checked")
    echo(f"verified: the record {audit_id}", Verdict.GOOD)
