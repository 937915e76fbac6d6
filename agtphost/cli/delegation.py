"""The ``agtp delegation`` group: issue the tokens that DELEGATE requires (companion section 8.1)."""

from __future__ import annotations

import re
import time
from pathlib import Path

import click

from agtphost.cli.failures import Unverified, WrongInput
from agtphost.cli.groups import VerbGroup
from agtphost.cli.local_files import load_signing_key, load_verifying_key, read_octets
from agtphost.cli.options import EXISTING, json_option
from agtphost.cli.output import print_json, print_summary
from agtphost.identity import delegation
from agtphost.identity.delegation import LONGEST_LIFE, DelegationError, DelegationToken

_TOKEN = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)
"""A JWS in compact form, as opposed to a file name."""


@click.group(cls=VerbGroup)
def command() -> None:
    """Issue and show delegation tokens, which are valid for one delegation each."""


def _summary(token: DelegationToken) -> dict[str, object]:
    return {
        "issuer": token.issuer,
        "delegator": token.delegator,
        "delegatee": token.delegatee,
        "scope": sorted(token.scope),
        "task_id": token.task_id,
        "depth": token.depth,
        "parent": token.parent,
        "issued_at": token.issued_at,
        "expires_at": token.expires_at,
        "token_id": token.token_id,
        "kid": token.kid,
        "token_hash": token.digest,
    }


@command.command("issue")
@click.option(
    "--key", type=EXISTING, required=True, metavar="FILE", help="Private key of the delegator, or of its registrar."
)
@click.option("--from", "delegator", required=True, metavar="ID", help="Agent-ID of the delegator.")
@click.option("--to", "delegatee", required=True, metavar="ID", help="Agent-ID of the agent to delegate to.")
@click.option("--scope", "scopes", multiple=True, metavar="TOKEN", help="A scope to delegate; may be repeated.")
@click.option("--task-id", required=True, metavar="ID", help="The Task-ID that the DELEGATE will carry.")
@click.option("--issuer", metavar="NAME", help="Name of the registrar whose key signs; default: the delegator.")
@click.option("--parent", metavar="HASH", help="Hash of the previous hop's token; needed from the second hop on.")
@click.option(
    "--depth",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="NUMBER",
    help="Number of this hop; 1: the first.",
)
@click.option(
    "--lifetime",
    type=click.IntRange(1, LONGEST_LIFE),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="Time until the token expires.",
)
@json_option
def issue_command(
    key: Path,
    delegator: str,
    delegatee: str,
    scopes: tuple[str, ...],
    task_id: str,
    issuer: str | None,
    parent: str | None,
    depth: int,
    lifetime: int,
    as_json: bool,
) -> None:
    """
    Issue a delegation token and print it.

    \b
    Example:
      agtp delegation issue --key agent.key --from $ME --to $LIBRARIAN --scope documents:query --task-id task-1
    """
    try:
        token = delegation.issue(
            load_signing_key(key),
            issuer=issuer or delegator,
            delegator=delegator,
            delegatee=delegatee,
            scope=scopes,
            task_id=task_id,
            now=time.time(),
            lifetime=lifetime,
            depth=depth,
            parent=parent,
        )
    except DelegationError as error:
        raise WrongInput(f"the token cannot be issued: {error}") from None
    if as_json:
        print_json({"delegation_token": token, **_summary(delegation.show(token))})
    else:
        click.echo(token)


@command.command("show")
@click.argument("file")
@click.option("--key", type=EXISTING, metavar="FILE", help="Public key that must have signed the token.")
@json_option
def show_command(file: str, key: Path | None, as_json: bool) -> None:
    """
    Show the contents of a delegation token; with --key, also verify it.

    FILE may be - for standard input, or the token.

    \b
    Examples:
      agtp delegation show token.txt --key agent.pub
      agtp delegation show $TOKEN
    """
    text = file if _TOKEN.fullmatch(file) else read_octets(file).decode("ascii", "replace").strip()
    try:
        if key is None:
            token = delegation.show(text)
        else:
            public = load_verifying_key(key)
            token = delegation.read(text, {public.kid: public}, time.time())
    except DelegationError as error:
        raise Unverified(
            f"the token does not verify: {error}", answer={"verified": False, "reason": error.reason}
        ) from None
    shown = {"verified": key is not None, **_summary(token)}
    if as_json:
        print_json(shown)
        return
    print_summary(shown)
    if key is None:
        click.echo("signature and times were not checked (no --key)")
