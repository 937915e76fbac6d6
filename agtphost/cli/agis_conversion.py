"""The commands ``agtp agis to-mcp``, ``from-mcp``, ``from-openapi`` and ``to-openapi`` (AGIS v01)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.colour import Verdict as Colour
from agtphost.cli.colour import echo
from agtphost.cli.failures import HostRefused, WrongInput
from agtphost.cli.options import HERE, Connection, connection_options, json_option
from agtphost.cli.output import print_file, print_json, print_note, visible
from agtphost.cli.plain_files import output_option, read_octets, write_new
from agtphost.vocabulary.media_types import MCP_TOOLS

if TYPE_CHECKING:
    from agtphost.agis.document_reader import Tree
    from agtphost.agis.drafts import DraftDocument
    from agtphost.agis.validation import Verdict

SCHEME = "agtp://"

DOCUMENT = click.Path(allow_dash=True)
"""The type of a file argument, so that shells complete it. Whether the file exists shows when it is read."""

PATIENCE = 15.0
"""Seconds to wait for an MCP server that was just started."""

_form_option = click.option(
    "--to",
    "form",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    help="Format of the document; only yaml has REVIEW comments.",
)
_service_option = click.option("--service", metavar="TEXT", help="Name of the service in the document.")
_address_option = click.option(
    "--agtp", "address", metavar="URI", help="Address of the service, such as agtp://pets.example.com."
)


# MCP


@click.command("to-mcp")
@click.argument("file", type=DOCUMENT)
@click.option("--original-names", is_flag=True, help="Use the tool names that the document was made from.")
@output_option
@json_option
def to_mcp(file: str, original_names: bool, output: Path | None, as_json: bool) -> None:
    """
    Print the endpoints of an AGIS document as MCP tools.

    The output has the form of tools/list. A tool's name is mcp_tool_name, or else the method and the first segment of
    the path. Its description is the intent with parameter_hints, and its inputSchema is the input. Output, errors,
    confidence and state_transition have no counterpart and are left out. FILE is YAML or JSON; - is standard input.

    \b
    Examples:
      agtp agis to-mcp service.agis
      agtp agis to-mcp service.agis -o tools.json
    """
    from agtphost.agis import to_mcp as making
    from agtphost.agis import validate

    verdict = validate(read_octets(file))
    if verdict.document is None or not making.may_be_tools(verdict):
        raise refusal_of(file, verdict)
    _deliver(making.to_mcp(verdict.document, original=original_names), output, as_json)


@click.command("from-mcp")
@click.argument("source", metavar="FILE|-|URI", type=DOCUMENT)
@click.option("--server", metavar="SERVER", help="One MCP server of a host; then - is the configured host.")
@_service_option
@_address_option
@_form_option
@output_option
@connection_options
def from_mcp(
    source: str,
    server: str | None,
    service: str | None,
    address: str | None,
    form: str,
    output: Path | None,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Make an AGIS document from an MCP server's tools, for review.

    FILE is an answer of tools/list, and - is standard input. With a URI, or with - and --server, the tools come from
    an MCP server of a host, and standard input is not read. A tool's first word becomes the method, the rest the path,
    its description the intent and its inputSchema the input. REVIEW comments mark what was chosen rather than found;
    for JSON they go to standard error. The exit status is 1 if the document does not conform.

    \b
    Examples:
      agtp agis from-mcp tools.json > service.agis
      agtp agis from-mcp - --server files | agtp agis validate -
      agtp agis from-mcp agtp://agents.example.com --server files -o files.agis
    """
    from agtphost.agis import from_mcp as making

    _check_address(address)
    try:
        if _is_host(source, server, where):
            listed, found = _fetch_tools(source, server, where)
            tools, server = _select_server(making.tools_of(listed), server)
            address = address or found
            said = f"the tools of the MCP server {server} at {found}"
        else:
            tools = making.tools_of(_tree(source).root)
            if server is not None:
                tools = making.of_server(tools, server)
            said = "tools of MCP" if source == HERE else f"the tools of {Path(source).name}"
    except making.ToolsError as error:
        remedy = "agtp tools ls shows the tools of a host; without --server, - is standard input."
        if not _is_host(source, server, where):
            remedy = "Give the answer of tools/list, in JSON."
        raise WrongInput(f"{source}: {error}", remedy) from None
    name = service or server or ("tools" if source == HERE else Path(source).stem)
    _deliver_draft(making.from_mcp(tools, service=name, agtp=address), said, form, output, as_json)


def _is_host(source: str, server: str | None, where: Connection) -> bool:
    named = server is not None or where.config is not None or where.profile is not None
    return source.startswith(SCHEME) or (source == HERE and named)


def _fetch_tools(source: str, server: str | None, where: Connection) -> tuple[Any, str]:
    """Return the MCP tools that a host lists, and the host's address; wait for servers that are starting."""
    from agtphost.cli.exchange import entries_of, open_client, require_success
    from agtphost.cli.target import resolve
    from agtphost.cli.tools import absent_servers
    from agtphost.client.tools import payload_type_of

    target = resolve(where, source)
    until = time.monotonic() + PATIENCE
    with open_client(target) as client:
        while True:
            listed = require_success(client.call(target.uri, "DISCOVER", "/tools")).result
            tools = [each for each in entries_of(listed, "tools") if payload_type_of(each) == MCP_TOOLS]
            if any(server is None or str(each.get("name")).startswith(f"{server}.") for each in tools):
                break
            told = require_success(client.call(target.uri, "DESCRIBE", "/", {"capability_domains": "tools"})).result
            if not _is_starting(told, server) or time.monotonic() > until:
                break
            time.sleep(0.2)
    if not tools:
        why = (
            "; ".join(absent_servers(told))
            or 'One with start = "lazy" is listed after its first call: agtp tools call.'
        )
        raise HostRefused("the host lists no tools of MCP to this caller", why)
    return _read("the host's list of tools", json.dumps(tools).encode()).root, target.uri.rstrip("/")


def _is_starting(described: Any, server: str | None) -> bool:
    """Return whether a requested MCP server is still starting."""
    hosted = described.get("hosted_protocols") if isinstance(described, dict) else None
    entries = [each for each in hosted if isinstance(each, dict)] if isinstance(hosted, list) else []
    return any(
        each.get("protocol") == "MCP" and each.get("state") == "starting" and server in (None, each.get("name"))
        for each in entries
    )


def _select_server(tools: Any, server: str | None) -> tuple[Any, str]:
    """Return the tools of one server, which need not be named if there is only one."""
    from agtphost.agis.from_mcp import ToolsError, of_server

    servers = sorted({tool["name"].partition(".")[0] for tool in tools})
    if server is None and len(servers) > 1:
        raise ToolsError(f"the host has the servers {', '.join(servers[:20])}; name one with --server")
    chosen = server or servers[0]
    return of_server(tools, chosen), chosen


# OpenAPI


@click.command("from-openapi")
@click.argument("file", type=DOCUMENT)
@_service_option
@_address_option
@_form_option
@output_option
@json_option
def from_openapi(
    file: str, service: str | None, address: str | None, form: str, output: Path | None, as_json: bool
) -> None:
    """
    Make an AGIS document from an OpenAPI document, for review.

    The operationId becomes the method, the path keeps its nouns, the summary becomes the intent, x-outcome the outcome,
    parameters and requestBody the input, 200 the output, the refusals the errors, and the first tag the domain.
    REVIEW comments mark what was chosen rather than found; for JSON they go to standard error. FILE is OpenAPI 3.0 or
    3.1, JSON or YAML; - is standard input. Nothing is fetched. The exit status is 1 if the document does not conform.

    \b
    Examples:
      agtp agis from-openapi petstore.yaml > petstore.agis
      agtp agis from-openapi petstore.yaml --agtp agtp://pets.example.com | agtp agis validate -
    """
    from agtphost.agis import from_openapi as making
    from agtphost.contract.openapi.importer import OpenAPIError

    _check_address(address)
    try:
        found = making.read_openapi(read_octets(file))
        drafted = making.from_openapi(found, service=service or "", agtp=address)
    except OpenAPIError as error:
        raise WrongInput(f"{file}: {error}", "Give OpenAPI 3.0 or 3.1, as JSON or YAML.") from None
    said = "an OpenAPI document" if file == HERE else Path(file).name
    _deliver_draft(drafted, said, form, output, as_json)


@click.command("to-openapi")
@click.argument("file", type=DOCUMENT)
@click.option("--server-url", metavar="URL", help="URL at which the service is served over HTTP.")
@output_option
@json_option
def to_openapi(file: str, server_url: str | None, output: Path | None, as_json: bool) -> None:
    """
    Print an AGIS document as an OpenAPI 3.1 document.

    X-AGIS-Method names the method of each operation, and an HTTP method carries it. Members without a counterpart in
    OpenAPI go to x-agis, so that from-openapi makes the same endpoints again. Losses are printed on standard error, or
    with --json in the result. FILE is YAML or JSON; - is standard input.

    \b
    Examples:
      agtp agis to-openapi service.agis -o openapi.json
      agtp agis to-openapi service.agis --server-url https://api.example.com
    """
    from agtphost.agis import to_openapi as making
    from agtphost.agis import validate

    verdict = validate(read_octets(file))
    if verdict.document is None or not verdict.conforms:
        raise refusal_of(file, verdict)
    document, losses = making.to_openapi(verdict.document, server_url=server_url)
    if as_json:
        where = {"document": document} if output is None else {"file": str(output)}
        if output is not None:
            write_new(output, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())
        print_json({"operations": len(verdict.document.endpoints), "losses": [*losses], **where})
        return
    _deliver(document, output, as_json)
    for loss in losses:
        print_note(f"lost: {loss}")


# The notation of the draft's examples


def convert_illustrative(file: str, octets: bytes) -> bytes:
    """Convert a document in the notation of the draft's examples; return YAML or JSON documents unchanged."""
    from agtphost.agis import normal
    from agtphost.agis.document_reader import Unreadable, read
    from agtphost.agis.illustrative import from_illustrative

    try:
        if isinstance(read(octets).root, dict):
            return octets
    except Unreadable as other:
        if not other.illustrative:
            return octets  # The parser of documents reports what is wrong.
    try:
        found = from_illustrative(octets)
    except Unreadable as error:
        line, column = error.mark
        raise WrongInput(f"{file}:{line}:{column}: {error.reason}", "AGIS v01 section 11 shows the notation.") from None
    for note in found.notes:
        print_note(f"note: {note}")
    return normal.as_yaml(found.root).encode()


# Shared by several commands


def _check_address(address: str | None) -> None:
    from agtphost.agis.drafts import is_address

    if address is not None and not is_address(address):
        raise WrongInput(f"--agtp: {address} is not an AGTP address", "Give one such as agtp://agents.example.com.")


def _tree(file: str) -> Tree:
    return _read(file, read_octets(file))


def _read(name: str, octets: bytes) -> Tree:
    """Parse JSON or YAML within the size limits of documents."""
    from agtphost.agis.document_reader import Unreadable, read

    try:
        return read(octets)
    except Unreadable as error:
        line, column = error.mark
        raise WrongInput(f"{name}:{line}:{column}: {error.reason}", "Give valid JSON or YAML.") from None


def refusal_of(file: str, verdict: Verdict) -> HostRefused:
    """Print every error of a document, and return the exception to raise."""
    _tell_errors(file, verdict)
    return HostRefused(f"{file} does not conform, so it is not used", "agtp agis validate lists every finding.")


def _tell_errors(file: str, verdict: Verdict) -> None:
    from agtphost.agis import report

    for finding in verdict.findings:
        if finding.severity.value == "error":
            echo(visible(report.line(file, finding)), Colour.BAD, err=True)


def split_texts(document: Mapping[str, Any], render: Callable[[Mapping[str, Any]], str]) -> list[bytes]:
    """Return the text of a document, or of the several documents that it is split into."""
    from agtphost.agis.document_split import TooLarge, split_document

    try:
        return split_document(document, render)
    except TooLarge as error:
        raise WrongInput(f"cannot make an AGIS document: {error}") from None


def write_texts(texts: Sequence[bytes], output: Path | None) -> list[str]:
    """Write each text to a file; number the files if there are several."""
    if output is None:
        if len(texts) > 1:
            most = f"these endpoints need {len(texts)} documents of at most 4 MiB each"
            raise WrongInput(most, "Name a file with -o: NAME.agis becomes NAME-1.agis, NAME-2.agis, ...")
        return []
    files = [output]
    if len(texts) > 1:
        files = [output.with_name(f"{output.stem}-{number}{output.suffix}") for number in range(1, len(texts) + 1)]
    present = [file for file in files if file.exists()] if len(files) > 1 else []
    if present:
        raise WrongInput(f"{present[0]} exists", "Choose another name, or move the file away.")
    for file, text in zip(files, texts, strict=True):
        write_new(file, text)
    return [str(file) for file in files]


def _deliver(value: Mapping[str, Any], output: Path | None, as_json: bool) -> None:
    """Write a JSON document to a file or to standard output."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    _write(text, output, as_json)


def _write(text: str, output: Path | None, as_json: bool) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    write_new(output, text.encode("utf-8"))
    if as_json:
        print_json({"file": str(output)})
    else:
        print_note(f"wrote {output}")


def _deliver_draft(drafted: DraftDocument, source: str, form: str, output: Path | None, as_json: bool) -> None:
    """
    Write a draft for review, and check it as it must be checked before publication (AGIS v01 appendix C).

    A draft with more than 4 MiB is written as several documents, which readers take.
    """
    from agtphost.agis import normal

    def render(document: Mapping[str, Any]) -> str:
        part = replace(drafted, document=dict(document))
        return part.text(source) if form == "yaml" else normal.as_json(part.document)

    texts = split_texts(drafted.document, render)
    files = write_texts(texts, output)
    verdict = drafted.validate()
    if as_json:
        findings = [
            {"rule": each.rule.name, "place": each.place, "message": each.message}
            for each in verdict.findings
            if each.severity.value == "error"
        ]
        reviews = [{"place": each.place, "member": each.member, "note": each.note} for each in drafted.reviews]
        where = {"file": files[0], "files": files} if files else {"document": drafted.document}
        print_json({"conforms": verdict.conforms, "reviews": reviews, "errors": findings, **where})
    else:
        if files:
            print_note(f"wrote {', '.join(files)}")
        else:
            print_file(texts[0])
        for review in drafted.reviews if form == "json" else ():
            print_note(f"review: {review.line}")
    if not verdict.conforms:
        if not as_json:
            _tell_errors(source, verdict)
            print_note("the document does not conform yet: correct the findings above")
        click.get_current_context().exit(1)
