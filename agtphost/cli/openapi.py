"""The ``agtp openapi`` group: convert OpenAPI documents to endpoints and back (AGTP-API section 14)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.failures import NoConnection, WrongInput, catalog_error
from agtphost.cli.groups import VerbGroup
from agtphost.cli.host_config import find_config, load_config
from agtphost.cli.import_output import deliver
from agtphost.cli.local_files import read_octets, write_new
from agtphost.cli.manifest import SCHEME, fetch_manifest
from agtphost.cli.options import HERE, Connection, connection_options, import_options, json_option
from agtphost.cli.output import print_file, print_json, print_note
from agtphost.cli.own_endpoints import own_endpoints
from agtphost.cli.target import address_of, resolve
from agtphost.client.errors import InvalidCall
from agtphost.client.local_host import LocalHost
from agtphost.vocabulary.catalog import CatalogError
from agtphost.vocabulary.catalog_files import load_catalog

if TYPE_CHECKING:
    from agtphost.config import Config
    from agtphost.contract.openapi.export import ExportResult


MOST_INDENTED = 4 << 20
"""Bytes up to which a document is indented; a larger one would need several times its size in memory."""

LARGE = ("paths", "components")
"""Members of a document that have an entry for each operation, or each schema."""


@click.group(cls=VerbGroup)
def command() -> None:
    """Import and export OpenAPI documents."""


# import


@command.command("import")
@import_options
@click.option("--prefix", metavar="PATH", default="", help="First segment of every path, such as stripe.")
@json_option
def import_(
    file: str, out: Path | None, catalog_file: Path | None, stubs: Path | None, prefix: str, as_json: bool
) -> None:
    """
    Make endpoint declarations from an OpenAPI document, for review.

    FILE is an OpenAPI 3.0 or 3.1 document, JSON or YAML; - is standard input. Nothing is fetched: references to other
    documents stay open, and are listed. Methods come from the catalog. The declarations have external_service handlers.
    They are written as .toml.review, which no host loads before they are renamed; without --out they are only
    summarized. Shared definitions go to one separate file. To put documents of two services on one host, give each a
    --prefix; the old services do not see it. With --stubs, registered functions handle the endpoints instead of the old
    service, and a module with their stubs is written.

    \b
    Examples:
      agtp openapi import petstore.yaml --out endpoints
      agtp openapi import stripe.json --out endpoints --prefix stripe
      agtp openapi import - --json < openapi.json
      agtp openapi import petstore.yaml --out endpoints --stubs handlers_petstore.py
    """
    from agtphost.contract.openapi.document_text import DocumentTextError, read_document
    from agtphost.contract.openapi.importer import OpenAPIError, PrefixError, import_openapi

    try:
        catalog = load_catalog(catalog_file)
        imported = import_openapi(read_document(read_octets(file)), catalog, prefix)
    except CatalogError as error:
        raise catalog_error(catalog_file, error) from None
    except PrefixError as error:
        raise WrongInput(f"--prefix {error}", "Give one such as stripe, or vendors/stripe.") from None
    except (DocumentTextError, OpenAPIError) as error:
        raise WrongInput(f"{file}: {error}", "Give OpenAPI 3.0 or 3.1, as JSON or YAML.") from None
    deliver(imported, "openapi", out, stubs, as_json, prefix)


# export


@command.command()
@click.argument("uri", required=False, metavar="[URI]")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="File to write; default: standard output."
)
@click.option("--server-url", metavar="URL", help="URL at which the endpoints are served over HTTP.")
@click.option(
    "--manifest", "manifest_file", metavar="FILE", help="Export this manifest; URI is then where it is published."
)
@click.option("--built-ins", is_flag=True, help="Also export the protocol's built-in endpoints.")
@connection_options
def export(
    uri: str | None,
    output: Path | None,
    server_url: str | None,
    manifest_file: str | None,
    built_ins: bool,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Print a host's endpoints as an OpenAPI 3.1 document.

    With a URI, or - for the configured host, the document is made from the published manifest. Without one, it is made
    from the files of --config host.toml, or of the host.toml found here, whether the host runs or not. The document
    says that it is derived and links the manifest. What OpenAPI cannot express is listed on standard error, or with
    --json in the result.

    \b
    Examples:
      agtp openapi export --config host.toml -o openapi.json
      agtp openapi export agtp://agents.example.com --server-url https://api.example.com --json
    """
    from agtphost.contract.manifest_validation import examine
    from agtphost.contract.openapi.export import export_openapi

    manifest, link = _manifest(uri, manifest_file, where)
    faults = [finding for finding in examine(manifest) if finding.fault]
    if faults:
        first = f"{faults[0].pointer} {faults[0].message}"
        kind = WrongInput if uri is None or manifest_file is not None else NoConnection
        raise kind(f"the manifest is faulty: {first}", "List every fault with agtp manifest validate.")
    exported = export_openapi(manifest, link=link, server_url=server_url, built_ins=built_ins)
    if output is not None:
        write_new(output, _render(exported.document))
    _print_outcome(exported, output, as_json)


def _render(document: Mapping[str, Any]) -> bytes:
    """Return the text of a document: indented, or if it is large with one line for each operation and each schema."""
    text = bytearray()
    for line in _lines(document):
        text += line
    if len(text) > MOST_INDENTED:
        return bytes(text)
    return json.dumps(document, indent=2, ensure_ascii=False).encode("utf-8") + b"\n"


def _lines(document: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the text in lines, without another copy of thousands of operations."""
    yield from _members(document, "", lambda name, value: _members(value, "  ", _deeper) if name in LARGE else None)
    yield b"\n"


def _deeper(name: str, value: Any) -> Iterator[bytes] | None:
    """Yield one line for each member of a group of ``components``."""
    return _members(value, "    ", lambda *_: None) if name == "schemas" else None


def _members(
    members: Mapping[str, Any], indent: str, within: Callable[[str, Any], Iterator[bytes] | None]
) -> Iterator[bytes]:
    sign = "{"
    for name, value in members.items():
        yield f"{sign}\n{indent}  {json.dumps(name, ensure_ascii=False)}: ".encode()
        sign = ","
        inner = within(name, value)
        if inner is None:
            yield json.dumps(value, ensure_ascii=False).encode("utf-8")
        else:
            yield from inner
    yield f"\n{indent}}}".encode() if members else b"{}"


def _print_outcome(exported: ExportResult, output: Path | None, as_json: bool) -> None:
    if as_json:
        answer: dict[str, Any] = {"operations": exported.operations, "losses": list(exported.losses)}
        answer |= {"document": exported.document} if output is None else {"file": str(output)}
        print_json(answer)
        return
    if output is None:
        print_file(_render(exported.document))
    for loss in exported.losses:
        print_note(f"lost: {loss}")
    target = "" if output is None else f", written to {output}"
    print_note(f"{exported.operations} operations{target}")


def _manifest(uri: str | None, file: str | None, where: Connection) -> tuple[Mapping[str, Any], str]:
    """Return the manifest, and the URI where it is published."""
    if file is not None:
        from agtphost.contract.openapi.document_text import DocumentTextError, read_document

        if uri is None or not uri.startswith(SCHEME):
            raise WrongInput("--manifest needs URI, where the manifest is published")
        try:
            return read_document(read_octets(file)), uri
        except DocumentTextError as error:
            raise WrongInput(f"{file}: {error}") from None
    path = find_config(where) if uri is None else None
    if path is not None:
        config = load_config(path)
        return _manifest_of(config), _link(config)
    target = resolve(where, uri or HERE)
    return fetch_manifest(target), f"{target.uri.rstrip('/')}/"


def _link(config: Config) -> str:
    try:
        return f"{address_of(LocalHost.of(config))}/"
    except InvalidCall:
        return f"{SCHEME}{config.host.server_id}/"


def _manifest_of(config: Config) -> dict[str, Any]:
    """Return the manifest of an operator's endpoints; dates and version are placeholders."""
    from agtphost.contract.manifest import Disclosure, Policies, ServerFacts, build_manifest
    from agtphost.contract.policy import MethodPolicy

    catalog, endpoints = own_endpoints(config)
    unknown = "1970-01-01T00:00:00Z"
    return build_manifest(
        ServerFacts(
            server_id=config.host.server_id,
            operator=config.host.operator,
            contact=config.host.contact,
            issued=unknown,
            updated=unknown,
            document_version="unpublished",
        ),
        catalog=catalog,
        policies=Policies(methods=MethodPolicy(custom=frozenset(config.policies.methods.custom))),
        disclosure=Disclosure(level="private"),
        endpoints=endpoints,
    )
