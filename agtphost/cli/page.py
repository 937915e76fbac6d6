"""The command ``agtp page``: get a sign-in link to the operators' page of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from agtphost.cli.exchange import open_client, require_success, result_of, signing_keys
from agtphost.cli.failures import HostRefused, NoConnection, WrongInput
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_json, print_note, visible
from agtphost.cli.ports import free_port
from agtphost.cli.target import resolve
from agtphost.client.local_identities import REGISTRAR
from agtphost.identity.key_ring import KeyRing
from agtphost.vocabulary.quantities import plural
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.uris import DEFAULT_PORT, parse

if TYPE_CHECKING:
    from agtphost.client.reply import Reply

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@click.command()
@click.option("--open", "opened", is_flag=True, help="Open the link in the browser, if it leads to this host.")
@click.option("--end-sessions", "ends", is_flag=True, help="End all sessions of the page instead, of all people.")
@host_options
def command(opened: bool, ends: bool, where: Connection, as_json: bool) -> None:
    """
    Get a sign-in link to the operators' page.

    Only for operators and registrars. The link is valid once, and for one minute; the browser
    that opens it has the rights of the certificate that this command presented. Without --cert and --as that is the
    registrar of the configured host.

    The link also has the fingerprint of the key with which this command verifies the host's records, so that the
    browser can check that it uses the same key. The part after # is not sent to any server.

    --end-sessions ends every open session of the page and every unused link, also those of other people. Only
    administrators may; the record names the one who did.

    \b
    Examples:
      agtp page
      agtp page --as operator --open
      agtp page --cert ops.pem --uri agtp://agents.example.com
      agtp page --end-sessions
    """
    if ends:
        if opened:
            raise WrongInput("--end-sessions and --open are both given", "Give one of them.")
        _end_sessions(where, as_json)
        return
    target = resolve(where, identity=REGISTRAR)
    with open_client(target) as client:
        asked = {"subject": "self", "resource": "/page", "scope": "page:enter"}
        result = result_of(_require_page(client.call(target.uri, "AUTHORIZE", "/page", asked), target.uri))
        keys = KeyRing.copy_of(signing_keys(target, client)).in_use
    url = result.get("url")
    if not isinstance(url, str) or not url.startswith("https://"):
        raise NoConnection("the answer has no link", "Check that this is an AGTP host of the same version.")
    fingerprint = keys[-1].fingerprint if keys else ""
    url = f"{url}.{fingerprint}" if fingerprint else url
    if as_json:
        print_json({**result, "url": url, "signing_key": fingerprint})
    else:
        click.echo(visible(url))
        if fingerprint:
            print_note(f"signing key {fingerprint}")
    if not opened:
        return
    there, here = urlsplit(url).hostname, parse(target.uri).host
    if there == here or {there, here} <= LOOPBACK:
        click.launch(url)
    else:
        # A host chooses the link, so it is opened unseen only if it leads to the host that the user named.
        said = f"not opened: the link of {here} leads to {there}. If that is its page, open it yourself."
        print_note(said)


def propose_page_port(uri: str) -> int:
    """Return a port for the page of a host: the one after its own, or on this machine the next that is free."""
    there = parse(uri)
    port = (there.port or DEFAULT_PORT) % 65_535 + 1
    return free_port(port) if there.host in LOOPBACK else port


def _require_page(reply: Reply, uri: str) -> Reply:
    """
    Return the reply if it is successful.

    :param uri: the host's.
    :raises HostRefused: it is not; the error tells whether the host has no page.
    """
    if reply.reason == Reason.NOT_FOUND:
        raise HostRefused(
            "the host has no operators' page",
            f'Write listen = "ssl:{propose_page_port(uri)}:interface=127.0.0.1" under [admin] in its host.toml, '
            "and restart it.",
            answer={"status": reply.status, **reply.document, "audit_id": reply.audit_id},
        )
    return require_success(reply)


def _end_sessions(where: Connection, as_json: bool) -> None:
    """End all sessions of the page."""
    target = resolve(where, identity=REGISTRAR)
    with open_client(target) as client:
        reply = _require_page(client.call(target.uri, "REVOKE", "/page/sessions", {}), target.uri)
        ended = result_of(reply)
    if as_json:
        print_json({**ended, "audit_id": reply.audit_id})
        return
    sessions, links = plural(ended.get("sessions"), "session"), plural(ended.get("links"), "unused link")
    click.echo(f"ended: {sessions} and {links}")
    print_note(f"recorded as {reply.audit_id}")
