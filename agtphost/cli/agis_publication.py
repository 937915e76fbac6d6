"""The commands ``agtp agis import``, ``export`` and ``publish``: AGIS documents and a host's endpoints (AGTP-API)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.agis_conversion import refusal_of, split_texts, write_texts
from agtphost.cli.colour import Verdict as Colour
from agtphost.cli.colour import echo
from agtphost.cli.failures import WrongInput, catalog_error
from agtphost.cli.options import HERE, Connection, connection_options, import_options, json_option
from agtphost.cli.output import print_file, print_json, print_note, visible
from agtphost.cli.plain_files import output_option, read_octets

if TYPE_CHECKING:
    from agtphost.agis.document import AgisDocument
    from agtphost.config import Config

UNPUBLISHED = "unpublished"
"""Version of a document that no host has published."""

TO_PUBLISH = "To publish it, set publish = true in [agis] and run agtp reload; the host then requires it to conform."


@click.command("import")
@import_options
@json_option
def import_(file: str, out: Path | None, catalog_file: Path | None, stubs: Path | None, as_json: bool) -> None:
    """
    Make endpoint declarations from an AGIS document, for review.

    FILE is YAML or JSON and must conform; - is standard input. confidence_guidance becomes confidence, impact_tier
    becomes impact, and input becomes input_schema. The declarations are written as .toml.review, which no host loads
    before they are renamed. REVIEW lines mark the decisions that a person must make. Without --out they are only
    summarized. --stubs also writes a module with the functions that the declarations name.

    \b
    Examples:
      agtp agis import service.agis --out endpoints
      agtp agis export agtp://agents.example.com | agtp agis import - --json
      agtp agis import service.agis --out endpoints --stubs handlers_service.py
    """
    from agtphost.agis import validate
    from agtphost.agis.endpoints import import_endpoints
    from agtphost.cli.import_output import deliver
    from agtphost.vocabulary.catalog import CatalogError
    from agtphost.vocabulary.catalog_files import load_catalog

    verdict = validate(read_octets(file))
    if verdict.document is None or not verdict.conforms:
        raise refusal_of(file, verdict)
    try:
        catalog = load_catalog(catalog_file)
    except CatalogError as error:
        raise catalog_error(catalog_file, error) from None
    deliver(import_endpoints(verdict.document, catalog), "agis", out, stubs, as_json)


@click.command()
@click.argument("uri", required=False, metavar="[URI]")
@click.option(
    "--to", "form", type=click.Choice(["yaml", "json"]), default="yaml", help="Format of the document; default: yaml."
)
@click.option("--built-ins", is_flag=True, help="With URI: also export the protocol's built-in endpoints.")
@output_option
@connection_options
def export(uri: str | None, form: str, built_ins: bool, output: Path | None, where: Connection, as_json: bool) -> None:
    """
    Print the AGIS document of a host.

    With a URI, or - for the configured host, the document has what this caller may call, as the host reports it.
    It is checked, and refused if it does not conform. Without a URI, it has every endpoint in the files of --config
    host.toml, or of the host.toml found here, whether the host runs or not. Endpoints that AGIS cannot express are left
    out and listed on standard error. Above the 4 MiB limit of a document, several are written: service-1.agis and so
    on.

    \b
    Examples:
      agtp agis export --config host.toml -o service.agis
      agtp agis export - --as demo
      agtp agis export agtp://agents.example.com --to json | agtp agis validate -
    """
    from agtphost.agis import normal
    from agtphost.cli.host_config import find_config, load_config

    config = find_config(where) if uri is None else None
    left_out: Mapping[str, str]
    if config is not None:
        document, left_out = _export_files(load_config(config))
    else:
        document = normal.to_canonical(_fetch_document(where, uri or HERE, built_ins))
        left_out = dict.fromkeys(document.get("left_out", ()), "left out by the host")
    texts = split_texts(document, normal.as_json if form == "json" else normal.as_yaml)
    files = write_texts(texts, output)
    if as_json:
        found = {"document": document} if output is None else {"file": files[0], "files": files}
        print_json({"endpoints": len(document["endpoints"]), "left_out": left_out, **found})
        return
    if output is None:
        print_file(texts[0])
    for name, why in left_out.items():
        print_note(f"left out: {name}: {why}")
    target = "" if output is None else f", written to {', '.join(files)}"
    print_note(f"{len(document['endpoints'])} endpoints{target}")


@click.command(epilog="Exit status: 0 the document conforms, 1 it does not, 2 wrong usage.")
@click.option("--check", is_flag=True, help="Check only the files; the host need not run.")
@connection_options
def publish(check: bool, where: Connection, as_json: bool) -> None:
    """
    Check the AGIS document that a host would publish.

    Each endpoint that breaks a rule is listed with its file, line and rule. With [agis] publish = true, a host that has
    such an endpoint does not start; otherwise the documents leave the endpoint out. An intent that contradicts its
    method (pass 6) is no reason not to start. Without --check, the running host's document is fetched and must conform
    as well.

    \b
    Examples:
      agtp agis publish --check
      agtp agis publish --config host.toml --as demo
    """
    from agtphost.cli.host_config import require_config
    from agtphost.cli.own_endpoints import own_endpoints
    from agtphost.methods.discovery.agis_service import problems_of

    config = require_config(where, "publishing")
    _, endpoints = own_endpoints(config)
    problems = list(problems_of(config, endpoints)) if endpoints else []
    served = None
    if not check and not problems:
        document = _fetch_document(where, HERE, False)
        served = {"agtp": str(document.members["agtp"]), "endpoints": len(document.endpoints)}
    if as_json:
        told = [{"file": each.file, "line": each.line, "message": each.message, "hint": each.hint} for each in problems]
        answer = {"conforms": not problems, "publish": config.agis.publish, "endpoints": len(endpoints)}
        print_json({**answer, "problems": told, "served": served})
    else:
        for problem in problems:
            echo(visible(str(problem)), Colour.BAD)
        _print_outcome(config, len(endpoints), len(problems), served)
    if problems:
        click.get_current_context().exit(1)


def _print_outcome(config: Config, endpoints: int, problems: int, served: Mapping[str, Any] | None) -> None:
    if problems:
        echo(f"{endpoints} endpoints, {problems} findings: the document does not conform", Colour.BAD)
        return
    echo(f"{endpoints} endpoints: the document conforms", Colour.GOOD)
    if served is not None:
        click.echo(visible(f"{served['agtp']} serves a document of {served['endpoints']} endpoints, which conforms"))
    if not config.agis.publish:
        click.echo(TO_PUBLISH)


def _fetch_document(where: Connection, uri: str, built_ins: bool) -> AgisDocument:
    """Fetch the document of a host for this caller; it conforms."""
    from agtphost.cli.exchange import open_client, require_success
    from agtphost.cli.target import resolve
    from agtphost.client.service_documents import document_of

    target = resolve(where, uri)
    asked = {"format": "agis", **({"built_ins": True} if built_ins else {})}
    with open_client(target) as client:
        return document_of(require_success(client.call(target.uri, "DISCOVER", "/", asked)))


def _export_files(config: Config) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Return the document of the declared endpoints, and the endpoints left out, each with the rule that it breaks."""
    from agtphost.agis.endpoints import export_endpoint
    from agtphost.agis.service import Unpublishable, build_own_document
    from agtphost.cli.own_endpoints import own_endpoints
    from agtphost.config.presence import root_of
    from agtphost.methods.discovery.agis_service import service_of

    _, endpoints = own_endpoints(config)
    if not endpoints:
        raise WrongInput(f"{config.file} declares no endpoints", "Declare at least one endpoint.")
    try:
        found = build_own_document(
            service_of(config, root_of(config), UNPUBLISHED, endpoints=endpoints),
            [export_endpoint(each.projection()) for each in endpoints],
        )
    except Unpublishable as error:
        raise WrongInput(f"cannot make an AGIS document: {error}", "Run agtp agis publish --check.") from None
    document = {name: value for name, value in found.document.items() if name != "left_out"}
    return document, {name: f"{each.message} ({each.rule.name})" for name, each in found.left_out.items()}
