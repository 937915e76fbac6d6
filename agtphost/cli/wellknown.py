"""The command ``agtp wellknown``: print a host's bootstrap document, to serve it elsewhere (core v08 section 6.1)."""

from __future__ import annotations

from pathlib import Path

import click

from agtphost.cli.failures import WrongInput
from agtphost.cli.host_config import NO_HOST, find_config, load_config
from agtphost.cli.options import Connection, host_file, json_option, named_file


@click.command()
@host_file
@json_option
def command(file: Path | None, named: Path | None, as_json: bool) -> None:
    """
    Print the document to serve at https://DOMAIN/.well-known/agtp.

    It tells clients that know only the domain where its AGTP endpoint is. The host serves it if [wellknown] listen is
    set; otherwise serve it from the domain's web server, as application/json.

    \b
    Examples:
      agtp wellknown host.toml > /var/www/html/.well-known/agtp
      agtp wellknown
    """
    from agtphost.config.presence import NoPresence, bootstrap_facts
    from agtphost.http.bootstrap_document import DomainFacts, encode_document

    path = find_config(Connection(config=named_file(file, named)))
    if path is None:
        raise WrongInput("no host.toml is named", NO_HOST)
    config = load_config(path)
    try:
        document = encode_document(DomainFacts(**bootstrap_facts(config)))
    except NoPresence as error:
        raise WrongInput(str(error)) from None
    # The document is JSON, with or without --json.
    click.echo(document.decode(), nl=False)
