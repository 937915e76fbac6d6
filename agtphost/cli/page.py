"""``agtp page``: a link to the operators' page of a host."""

from __future__ import annotations

import click

from agtphost.cli.exchange import ask, result_of
from agtphost.cli.failures import NoConnection
from agtphost.cli.identities import REGISTRAR
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_json, visible
from agtphost.cli.target import resolve


@click.command()
@click.option("--open", "opened", is_flag=True, help="Open the link in this machine's browser.")
@host_options
def command(opened: bool, where: Connection, as_json: bool) -> None:
    """
    Get a link to the operators' page.

    For operators, registrars, and those whom [admin] viewers lists. The link is good once, and for a minute; whoever
    opens it looks and acts as the certificate that this command has shown. Without --cert and --as that is the
    registrar of the configured host.

    \b
    Examples:
      agtp page
      agtp page --as operator --open
      agtp page --cert ops.pem --uri agtp://agents.example.com
    """
    result = result_of(ask(resolve(where, identity=REGISTRAR), "AUTHORIZE", "/page"))
    url = result.get("url")
    if not isinstance(url, str) or not url.startswith("https://"):
        raise NoConnection("the answer has no link", "Is this an AGTP host of the same version?")
    if as_json:
        print_json(dict(result))
    else:
        click.echo(visible(url))
    if opened:
        click.launch(url)
