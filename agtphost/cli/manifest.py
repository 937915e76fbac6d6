"""The ``agtp manifest`` group: show and check a server's manifest (AGTP-API section 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.exchange import ANOTHER_VERSION, open_client, require_success
from agtphost.cli.failures import HostRefused, NoConnection, Unverified, WrongInput, catalog_error
from agtphost.cli.groups import VerbGroup
from agtphost.cli.local_files import load_verifying_key, read_octets
from agtphost.cli.options import EXISTING, Connection, connection_options
from agtphost.cli.output import print_fields, print_json, print_note, print_table
from agtphost.cli.target import Target, resolve
from agtphost.contract.manifest_parts import PartError, PartReader
from agtphost.contract.manifest_validation import ManifestFinding, examine, examine_answer
from agtphost.identity.jws import JWSError
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.manifest_signature import verify_manifest
from agtphost.vocabulary.catalog import Catalog, CatalogError
from agtphost.vocabulary.catalog_files import load_catalog

if TYPE_CHECKING:
    from agtphost.client.manifests import ServerManifest
    from agtphost.client.reply import Reply
    from agtphost.client.sync import Client

SCHEME = "agtp://"


@click.group(cls=VerbGroup)
def command() -> None:
    """Show and check a server's manifest."""


@command.command()
@click.argument("uri", metavar="[URI]", default="-")
@click.option(
    "--issuer",
    "issuers",
    type=EXISTING,
    multiple=True,
    metavar="KEY",
    help="Public key that may have signed the manifest; may be repeated.",
)
@click.option("--document", "whole", is_flag=True, help="Print the manifest as it is published.")
@connection_options
def show(uri: str, issuers: tuple[Path, ...], whole: bool, where: Connection, as_json: bool) -> None:
    """
    Show the manifest of a server.

    URI is agtp://HOST[:PORT]; without it, or as -, it is the configured host. The signature is verified if a key is
    known. If it is missing or wrong, a warning is printed, and the manifest is still shown.

    \b
    Examples:
      agtp manifest show
      agtp manifest show agtp://agents.example.com --issuer signing.pub
      agtp manifest show - --document > manifest.json
    """
    keys = {key.kid: key for key in map(load_verifying_key, issuers)}
    target = resolve(where, uri)
    with open_client(target) as client:
        from agtphost.client.manifests import ManifestReader

        reader = ManifestReader(keys or target.keys)
        _read_all(client, target, reader.add)
        found = reader.manifest()
    if found.warning:
        print_note(f"warning: {found.warning}")
    if whole:
        print_json(found.document)
    elif as_json:
        print_json(
            {
                "manifest": found.document,
                "etag": found.etag,
                "api_version": found.api_version,
                "signature": found.signature.value,
                "warning": found.warning,
            }
        )
    else:
        _show(found)


def _show(found: ServerManifest) -> None:
    document = found.document
    server = document["server"] if isinstance(document["server"], dict) else {}
    print_fields(
        [
            ("server", server.get("server_id")),
            ("domain", server.get("domain")),
            ("operator", server.get("operator")),
            ("contact", server.get("contact")),
            ("features", _join_values(server.get("supported_features"))),
            ("version", found.document_version),
            ("api version", found.api_version),
            ("updated", server.get("updated")),
            ("catalog", _join_values(document.get("catalog_versions_supported"))),
            ("disclosure", document.get("agent_disclosure")),
            ("agents", _join_values(_members(document.get("hosted_agents"), "name"))),
            ("protocols", _join_values(_members(document.get("hosted_protocols"), "path"))),
            ("apis", _join_values(_members(document.get("apis"), "base_url"))),
            *_transports(document),
            ("signature", found.signature.value),
        ]
    )
    click.echo()
    endpoints = document["endpoints"] if isinstance(document["endpoints"], list) else []
    rows = [
        [str(endpoint.get(name, "")) for name in ("method", "path", "tier", "description")]
        for endpoint in endpoints
        if isinstance(endpoint, dict)
    ]
    print_table(("METHOD", "PATH", "TIER", "DESCRIPTION"), rows)


def _transports(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the carriers, with their ports, where there are several."""
    listed = document.get("transports")
    entries = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    if entries:
        shown = [f"{each.get('carrier', '')} {each.get('port', '')}".strip() for each in entries]
        yield "transports", _join_values(shown)


def _members(entries: Any, name: str) -> list[Any]:
    return [entry.get(name) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _join_values(values: Any) -> str:
    return ", ".join(str(value) for value in values) if isinstance(values, list) else ""


@command.command()
@click.argument("source", metavar="FILE|URI")
@click.option(
    "--issuer",
    "issuers",
    type=EXISTING,
    multiple=True,
    metavar="KEY",
    help="Public key that may have signed the manifest; may be repeated.",
)
@click.option(
    "--catalog",
    "catalog_file",
    type=EXISTING,
    metavar="FILE",
    help="Catalog file with the version that the manifest names.",
)
@connection_options
def validate(
    source: str,
    issuers: tuple[Path, ...],
    catalog_file: Path | None,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Check a manifest's structure and signature.

    Every violation is listed with its rule, its place, and the section of AGTP-API. FILE may be - for standard input;
    an agtp:// URI is asked for its manifest. The signature is verified with the key of --issuer, or for a URI with that
    of --config. The exit status is 0 for a valid manifest, 1 for a faulty one, and 4 if the signature does not verify.
    An unsigned manifest is valid unless a key is given.

    \b
    Examples:
      agtp manifest validate manifest.json --json
      agtp manifest validate manifest.json --issuer signing.pub
      agtp manifest validate agtp://agents.example.com --cacert ca.pem
    """
    keys = {key.kid: key for key in map(load_verifying_key, issuers)}
    if source.startswith(SCHEME):
        target = resolve(where, source)
        keys = keys or dict(target.keys)
        parts, problems = PartReader(), list[str | None]()

        def add(reply: Reply) -> str | None:
            part = _body(reply)
            token = parts.add(part, len(reply.body)) if isinstance(part, Mapping) else None
            written = parts.with_encoded_endpoints(part) if isinstance(part, Mapping) else part
            problems.append(_signature_problem(written, keys) if keys else None)
            return token

        with open_client(target) as client:
            first = _read_all(client, target, add)
        manifest = _join_parts(parts) if parts.count else _body(first)
        came_with = examine_answer({name.lower(): value for name, value in first.headers})
    else:
        manifest, came_with = _read(source), []
        problems = [_signature_problem(manifest, keys)] if keys else []
    findings = [*came_with, *examine(manifest, _catalog(catalog_file))]
    faults = [finding for finding in findings if finding.fault]
    problem = next((each for each in problems if each is not None), None)
    answer = {
        "valid": not faults,
        "faults": [finding.document() for finding in faults],
        "remarks": [finding.document() for finding in findings if not finding.fault],
        "signature": {"checked": bool(keys), "verified": bool(keys) and problem is None, "problem": problem},
    }
    if problem is not None:
        listed = "".join(f"\n  {_line(finding)}" for finding in faults)
        raise Unverified(f"the manifest does not verify: {problem}{listed}", answer=answer)
    if faults:
        listed = "\n".join(f"  {_line(finding)}" for finding in faults)
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        raise HostRefused(f"the manifest has {count}:\n{listed}", answer=answer)
    if as_json:
        print_json(answer)
    else:
        _print(manifest, findings, verified=bool(keys))


def fetch_manifest(target: Target) -> Mapping[str, Any]:
    """
    Fetch the manifest of a server: ``DISCOVER /`` without an Agent-ID (AGTP-API section 8.10).

    :raises agtphost.cli.failures.CommandError: the server has no manifest.
    """
    parts = PartReader()
    with open_client(target) as client:
        _read_all(client, target, lambda reply: parts.add(manifest_in(reply), len(reply.body)))
    return _join_parts(parts)


def _read_all(client: Client, target: Target, add: Callable[[Reply], str | None]) -> Reply:
    """
    Fetch all parts of the manifest.

    :param add: receives each answer, and returns the token of the next part, or None.
    :return: the first answer.
    """
    first = require_success(client.call(target.uri, "DISCOVER", anonymous=True))
    try:
        token = add(first)
        while token:
            token = add(require_success(client.call(target.uri, "DISCOVER", "/", {"part": token}, anonymous=True)))
    except PartError as error:
        raise _incomplete_error(error) from None
    return first


def _join_parts(parts: PartReader) -> Mapping[str, Any]:
    try:
        return parts.to_manifest()
    except PartError as error:
        raise _incomplete_error(error) from None


def _incomplete_error(error: PartError) -> NoConnection:
    return NoConnection(f"the manifest is incomplete: {error}", "Try again: it may have changed between its parts.")


def manifest_in(reply: Reply) -> Mapping[str, Any]:
    """
    Return the manifest in an answer.

    :raises NoConnection: the answer is not a manifest.
    """
    manifest = _body(reply)
    if not isinstance(manifest, dict):
        raise NoConnection("the answer is not a manifest", ANOTHER_VERSION)
    return manifest


def _body(reply: Reply) -> Any:
    """
    Return the JSON value of an answer.

    :raises NoConnection: the answer is not JSON.
    """
    from agtphost.contract.openapi.document_text import DocumentTextError, read_json

    try:
        # A manifest with a thousand endpoints exceeds the limits of the usual body decoder.
        return read_json(reply.body)
    except DocumentTextError as error:
        raise NoConnection(f"the answer is not JSON: {error}", "Check that this is an AGTP host.") from None


def _read(name: str) -> Any:
    from agtphost.contract.openapi.document_text import DocumentTextError, read_json

    try:
        return read_json(read_octets(name))
    except DocumentTextError as error:
        raise WrongInput(f"{name} is not JSON: {error}") from None


def _catalog(file: Path | None) -> Catalog:
    try:
        return load_catalog(file)
    except CatalogError as error:
        raise catalog_error(file, error) from None


def _signature_problem(manifest: Any, keys: Mapping[str, VerifyingKey]) -> str | None:
    try:
        verify_manifest(manifest if isinstance(manifest, Mapping) else {}, keys)
    except JWSError as error:
        return f"{error} [{error.reason}]"
    return None


def _line(finding: ManifestFinding) -> str:
    return f"{finding.rule}: {finding.pointer or '(document)'} {finding.message} (AGTP-API section {finding.section})"


def _print(manifest: Mapping[str, Any], findings: list[ManifestFinding], *, verified: bool) -> None:
    server = manifest["server"]
    print_fields(
        [
            ("server", server["server_id"]),
            ("operator", server["operator"]),
            ("version", manifest["document_version"]),
            ("catalog", manifest["catalog_version"]),
            ("endpoints", len(manifest["endpoints"])),
            ("signature", "verified" if verified else "not checked: no key is known"),
        ]
    )
    for finding in findings:
        print_note(f"remark: {_line(finding)}")
    click.echo("the manifest is valid")
