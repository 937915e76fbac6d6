"""Verify the record of one answer on standard input, such as the output of ``curl -i`` against a gateway."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from agtphost.cli.colour import Verdict, echo
from agtphost.cli.failures import Unverified, WrongInput
from agtphost.cli.output import print_json, print_table
from agtphost.client.printed_answer import RECORD, read_printed
from agtphost.client.verification import verify
from agtphost.identity import jws
from agtphost.vocabulary.foreign_errors import explain

if TYPE_CHECKING:
    from agtphost.identity.keys import VerifyingKey

STDIN = "-"

LONGEST = 32 << 20
"""Most bytes that are read."""


def conclude_answer(keys: Mapping[str, VerifyingKey], as_json: bool) -> None:
    """
    Verify the answer on standard input, and print the result.

    :raises Unverified: a check failed.
    """
    try:
        evidence = read_printed(sys.stdin.buffer.read(LONGEST))
    except ValueError as error:
        remedy = 'Pipe the output of "curl -i" or "curl -D -", or only an Attribution-Record.'
        raise WrongInput(f"standard input cannot be verified: {explain(error)}", remedy) from error
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
        click.echo("the body was not piped, so the record was not compared with it")
    echo(f"verified: the record {audit_id}", Verdict.GOOD)
