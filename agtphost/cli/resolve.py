"""The command ``agtp resolve``: what a URI addresses, verified (core v08 section 6.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.exchange import carrier_options, failure_of, refusal
from agtphost.cli.failures import Unverified, WrongInput
from agtphost.cli.local_files import load_verifying_key
from agtphost.cli.options import HERE, Connection, connection_options
from agtphost.cli.output import print_document, print_file, print_json, print_note
from agtphost.cli.target import Target
from agtphost.cli.target import resolve as target_of
from agtphost.identity.document_view import page
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.trust import TrustedIssuers
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.uris import AgtpUri, Form, UriError, parse

if TYPE_CHECKING:
    from agtphost.client.resolution import Resolution

FORMATS = ("manifest", "json", "yaml", "html", "certificate", "status")


@click.command()
@click.argument("uri", metavar="URI")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Format of the output.")
@click.option(
    "--registrar", "registrars", multiple=True, metavar="[ZONE=]FILE",
    help="Key of a trusted registrar, for all zones or only for ZONE; repeatable.",
)  # fmt: skip
@click.option("--host", "hosts", multiple=True, metavar="URI", help="Host to ask for a bare Agent-ID; repeatable.")
@click.option(
    "--fresh", type=click.FloatRange(1, 86_400), default=300.0, show_default=True, metavar="SECONDS",
    help="Maximum age of a Namespace Document.",
)  # fmt: skip
@connection_options
def command(
    uri: str,
    form: str | None,
    registrars: Sequence[str],
    hosts: Sequence[str],
    fresh: float,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Find the agent, host or domain of a URI, verify its document and print it.

    URI has one of the forms agtp://AGENT-ID, agtp://AGENT-ID@HOST[:PORT], agtp://HOST[:PORT], agtp://DOMAIN,
    agtp://DOMAIN/agents/NAME and agtp://DOMAIN/agents. The document goes to standard output and the checks to standard
    error. If a check fails, the exit status is 4, and no document is shown.

    \b
    Examples:
      agtp resolve agtp://agents.example.com
      agtp resolve agtp://example.com/agents/librarian --registrar registrar.pub
      agtp resolve agtp://example.com/agents --json
      agtp resolve agtp://example.com/agents/librarian --format html > librarian.html
    """
    from agtphost.client import errors
    from agtphost.client.bootstrap import BootstrapPolicy
    from agtphost.client.location import format_of
    from agtphost.client.resolution import TrustPolicy
    from agtphost.client.sync import Client

    named, target = _resolve_target(where, uri, hosts)
    looking = [_parse_uri(host) for host in hosts] or ([_parse_uri(target.uri)] if named.form is Form.AGENT else [])
    policy = TrustPolicy(issuers=_issuers(registrars), keys=target.keys, freshness=fresh)
    # The user chose the domain, so it may be in the user's own network.
    asking = BootstrapPolicy(addresses=None)
    try:
        with Client(**(target.client_options(resolver=looking, bootstrap=asking) | carrier_options(target))) as client:
            found = client.resolution(named, form, policy=policy)
    except errors.ClientError as error:
        raise failure_of(error) from None
    _show(found, form or format_of(named), as_json)


def _resolve_target(where: Connection, uri: str, hosts: Sequence[str]) -> tuple[AgtpUri, Target]:
    """Return the URI to resolve, and how to reach hosts; a bare Agent-ID is looked up at the configured host."""
    if uri == HERE:
        target = target_of(where)
        return _parse_uri(target.uri), target
    named = _parse_uri(uri)
    if named.form is not Form.AGENT:
        return named, target_of(where, uri)
    return named, target_of(where, hosts[0] if hosts else None)


def _parse_uri(uri: str) -> AgtpUri:
    try:
        return parse(uri)
    except UriError as error:
        raise WrongInput(f"{error.explanation} [{error.reason}]", error.hint) from None


def _issuers(entries: Sequence[str]) -> TrustedIssuers:
    everywhere: list[VerifyingKey] = []
    zones: dict[str, list[VerifyingKey]] = {}
    for entry in entries:
        zone, equals, file = entry.rpartition("=")
        key = load_verifying_key(Path(file))
        if equals:
            zones.setdefault(zone, []).append(key)
        else:
            everywhere.append(key)
    return TrustedIssuers(everywhere=everywhere, zones=zones)


def _show(found: Resolution, form: str | None, as_json: bool) -> None:
    answer = _fields(found)
    if not found.reply.ok:
        raise refusal(found.reply)
    if not found.ok:
        listed = "\n".join(f"  {check.name}: {check.detail}" for check in found.failures)
        raise Unverified(f"{found.located} does not verify:\n{listed}", answer=answer)
    if as_json:
        print_json(answer)
        return
    for check in found.checks:
        print_note(f"{check.name:<10} {check.detail}")
    if form == "html":
        # Render the verified document here, because the host's own page could say anything.
        print_file(page(found.document))
    elif form == "yaml":
        import yaml

        print_file(yaml.safe_dump(dict(found.document), sort_keys=False, allow_unicode=True))
    elif form in ("json", "certificate"):
        # These are the signed bytes; a manifest in parts is signed part by part.
        print_file(jsontext.encode(found.document) if found.parts > 1 else found.reply.body)
    else:
        print_document(found.document)


def _fields(found: Resolution) -> Mapping[str, Any]:
    return {
        "uri": str(found.uri),
        "located": str(found.located),
        "form": found.uri.form.value,
        "verified": found.ok,
        "trusted": found.trusted,
        "agent_id": found.agent_id,
        "scopes": sorted(found.scopes),
        "checks": [{"name": check.name, "ok": check.ok, "detail": check.detail} for check in found.checks],
        "document": found.document if found.ok else None,
    }
