"""The ``agtp catalog`` group: show, check and compare method catalogs (AGTP-API sections 3 and 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from agtphost.cli.catalog.pins import catalog_in, fetch, pin
from agtphost.cli.failures import ExitStatus, HostRefused, WrongInput
from agtphost.cli.groups import VerbGroup
from agtphost.cli.host_config import find_config, load_config
from agtphost.cli.local_files import MAX_BODY, read_octets
from agtphost.cli.options import EXISTING, HOST_TOML, Connection, connection_options, json_option
from agtphost.cli.output import print_fields, print_json, print_note, print_table, visible
from agtphost.contract.catalog_diff import (
    Artifact,
    CatalogConflict,
    CatalogDiff,
    Role,
    compare,
    conflicts,
    irregularities,
)
from agtphost.vocabulary import tomltext
from agtphost.vocabulary.catalog import CATEGORIES, Catalog, CatalogEntry
from agtphost.vocabulary.tomltext import TomlError

HOST_FILES = ("host.toml", "agtp-server.toml")
RECIPE_FILES = ("recipes.toml", "agtp-recipes.toml")
ENDPOINTS = "endpoints"


@click.group(cls=VerbGroup)
def command() -> None:
    """Show, compare, check, fetch and pin method catalogs."""


command.add_command(fetch)
command.add_command(pin)


# show


@command.command()
@click.argument("name", required=False, metavar="[METHOD]")
@click.option("--category", type=click.Choice(CATEGORIES), help="Only methods of this effect class.")
@click.option("--deprecated", is_flag=True, help="Only deprecated methods.")
@click.option("--document", "whole", is_flag=True, help="Print the catalog as a JSON document.")
@click.option("--catalog", "file", type=EXISTING, metavar="FILE", help="Show this catalog.")
@click.option("--config", type=HOST_TOML, metavar="FILE", help="Show the catalog of this host.toml.")
@json_option
def show(
    name: str | None,
    category: str | None,
    deprecated: bool,
    whole: bool,
    file: Path | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """
    Show the methods of a catalog, or one of them.

    Without --catalog, this is the catalog that the host.toml found here names, or else the one that ships with the
    host.

    \b
    Examples:
      agtp catalog show BOOK
      agtp catalog show --category transaction --json
      agtp catalog show --catalog methods-2.0.0.json --deprecated
      agtp catalog show --document > methods.json
    """
    catalog = _load_configured(config) if file is None else _catalog(str(file))
    if whole:
        print_json(catalog.document())
        return
    if name is not None:
        _show_one(catalog, name.upper(), as_json)
        return
    entries = [
        entry
        for entry in catalog.entries.values()
        if (category is None or category in entry.categories) and (not deprecated or entry.warning)
    ]
    entries.sort(key=lambda entry: entry.name)
    if as_json:
        methods = [_members(catalog, entry) for entry in entries]
        print_json({"version": catalog.version, "methods": methods})
        return
    print_table(
        ("METHOD", "CATEGORIES", "DESCRIPTION"),
        ((entry.name, ", ".join(entry.categories), _describe_entry(entry)) for entry in entries),
    )
    print_note(f"{len(entries)} of the {len(catalog.methods)} methods of catalog {catalog.version}")


def _load_configured(config: Path | None) -> Catalog:
    path = find_config(Connection(config=config))
    named = None if path is None else load_config(path).catalog.path
    return Catalog.load() if named is None else _catalog(str(named))


def _catalog(name: str) -> Catalog:
    return catalog_in(name, read_octets(name))


def _describe_entry(entry: CatalogEntry) -> str:
    return entry.description if entry.warning is None else f"{entry.description} [{entry.warning}]"


def _members(catalog: Catalog, entry: CatalogEntry) -> dict[str, Any]:
    members: dict[str, Any] = {
        "method": entry.name,
        "categories": list(entry.categories),
        "description": entry.description,
        "embedded": entry.name in catalog.embedded,
    }
    optional = ("deprecated_in", "removed_in", "successor", "floor", "standard")
    return members | {key: value for key in optional if (value := getattr(entry, key)) is not None}


def _show_one(catalog: Catalog, name: str, as_json: bool) -> None:
    entry = catalog.entry(name)
    if entry is None:
        close = catalog.close_matches(name)
        remedy = f"Similar names: {', '.join(close)}." if close else "agtp catalog show lists all."
        answer = {"method": name, "known": False, "close_matches": list(close), "version": catalog.version}
        raise HostRefused(f"{name[:40]} is not in catalog {catalog.version}", remedy, answer=answer)
    members = _members(catalog, entry)
    if as_json:
        print_json({"version": catalog.version, **members})
        return
    preferred_by = [verb for verb, preferred in catalog.legacy.items() if preferred == name]
    shown = {**members, "categories": ", ".join(entry.categories), "preferred for HTTP": ", ".join(preferred_by)}
    print_fields((key, _inline(value)) for key, value in {**shown, "catalog": catalog.version}.items())


def _inline(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return "; ".join(f"{key} {part}" for key, part in value.items())


# validate


@command.command()
@click.argument("name", required=False, metavar="[FILE]")
@click.option("--previous", metavar="FILE", help="Previous version; also check the changes from it.")
@click.option("--strict", is_flag=True, help="Treat broken version rules as errors.")
@click.option("--config", type=HOST_TOML, metavar="FILE", help="Check the catalog of this host.toml.")
@json_option
def validate(name: str | None, previous: str | None, strict: bool, config: Path | None, as_json: bool) -> None:
    """
    Check that a file is a method catalog.

    Its versions are checked, too. Without FILE, this is the catalog that the host.toml found here names, or else the
    one that ships with the host; - is standard input. The exit status is 0 for a valid catalog and 2 for an invalid
    one. Broken version rules are listed; with --strict they make the exit status 1.

    \b
    Examples:
      agtp catalog validate methods.json
      agtp catalog validate methods-1.2.0.json --previous methods-1.1.0.json --strict --json
    """
    catalog = _load_configured(config) if name is None else _catalog(name)
    broken = list(irregularities(catalog))
    if previous is not None:
        broken.extend(compare(_catalog(previous), catalog).violations)
    answer = {
        "version": catalog.version,
        "valid": True,
        "methods": len(catalog.methods),
        "deprecated": sorted(catalog.warnings),
        "violations": broken,
    }
    if broken and strict:
        listed = "\n".join(f"  {sentence}" for sentence in broken)
        raise HostRefused(f"catalog {catalog.version} breaks the rules for versions:\n{listed}", answer=answer)
    if as_json:
        print_json(answer)
        return
    for sentence in broken:
        click.echo(visible(f"version rule broken: {sentence}"))
    click.echo(f"catalog {catalog.version} is valid ({len(catalog.methods)} methods)")


# negotiate


@command.command()
@click.argument("uri", required=False, metavar="[URI]")
@click.option("--prefer", "preferred", metavar="VERSION", help="Preferred version; default: that of agtp.")
@click.option("--known", multiple=True, metavar="VERSION", help="Another acceptable version; may be repeated.")
@connection_options
def negotiate(uri: str | None, preferred: str | None, known: tuple[str, ...], where: Connection, as_json: bool) -> None:
    """
    Find the catalog version for talking to a server.

    The result is the preferred version if the server has it, or else the highest that both have. Without --known, every
    version with the same MAJOR number is acceptable. The exit status is 1 if there is none.

    \b
    Examples:
      agtp catalog negotiate agtp://agents.example.com --prefer 1.2.0
      agtp catalog negotiate --prefer 2.0.0 --known 1.1.0 --json
    """
    from agtphost.cli.exchange import open_client
    from agtphost.cli.target import resolve
    from agtphost.client.errors import CatalogMismatch

    target = resolve(where, uri)
    wanted = preferred or Catalog.load().version
    with open_client(target) as client:
        try:
            version = client.negotiate_catalog(target.uri, wanted, {wanted, *known} if known else None)
        except CatalogMismatch as error:
            answer = {"preferred": wanted, "supported": list(error.supported), "version": None}
            raise HostRefused(error.explanation, error.remedy, answer=answer) from None
    if as_json:
        print_json({"preferred": wanted, "version": version})
    else:
        click.echo(version)


# diff


@command.command()
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@click.option(
    "--against-deployment", "deployment", type=EXISTING, metavar="DIR",
    help="Find what would break in this deployment.",
)  # fmt: skip
@json_option
def diff(old: str, new: str, deployment: Path | None, as_json: bool) -> None:
    """
    Compare two catalogs: what was added, removed and changed.

    Deprecations count as changes, and are listed separately. OLD and NEW are files; - is standard input. A version
    that breaks the version rules is reported, without effect on the exit status. The exit status is 0 if nothing
    breaks, 1 if something in the deployment breaks, and 2 if a file cannot be read.

    \b
    Examples:
      agtp catalog diff methods-1.0.0.json methods-1.1.0.json
      agtp catalog diff old.json new.json --against-deployment /srv/agents --json
    """
    before, after = _catalog(old), _catalog(new)
    found = compare(before, after)
    artifacts = [] if deployment is None else list(_artifacts(deployment))
    concerned = conflicts(artifacts, before, after)
    broken = any(conflict.breaking for conflict in concerned)
    if as_json:
        answer = found.document()
        if deployment is not None:
            answer["deployment"] = {
                "directory": str(deployment),
                "files": [artifact.file for artifact in artifacts],
                "conflicts": [conflict.document() for conflict in concerned],
            }
        print_json({**answer, "breakage": broken})
    else:
        _print_diff(found)
        if deployment is not None:
            _print_conflicts(deployment, len(artifacts), concerned)
    if broken:
        raise click.exceptions.Exit(int(ExitStatus.REFUSED))


script = click.Command(
    "agtp-catalog-diff",
    callback=diff.callback,
    params=diff.params,
    help="""
    Compare two method catalogs, and find what the newer one breaks in a deployment.

    Exit status: 0 nothing breaks, 1 something in the deployment breaks, 2 a file cannot be read.

    \b
    Examples:
      agtp-catalog-diff methods-1.0.0.json methods-2.0.0.json
      agtp-catalog-diff old.json new.json --against-deployment /srv/agents
    """,
)


def _print_diff(found: CatalogDiff) -> None:
    click.echo(f"catalog {found.old_version} -> {found.new_version}")
    for title in ("added", "removed", "deprecated"):
        names = getattr(found, title)
        click.echo(f"{title} ({len(names)}): {' '.join(names)}".rstrip(": "))
    click.echo(f"changed ({len(found.changed)})")
    for change in found.changed:
        click.echo(visible(f"  {change.method} {change.member}: {change.before!r} -> {change.after!r}"))
    for violation in found.violations:
        click.echo(f"version rule broken: {violation}")


def _print_conflicts(deployment: Path, files: int, concerned: list[CatalogConflict]) -> None:
    for conflict in concerned:
        mark = "breaks" if conflict.breaking else "warning"
        where = f"{conflict.file}:{conflict.line}"
        click.echo(visible(f"{where}: {mark} ({conflict.kind.value}): {conflict.message}"))
    breaking = sum(conflict.breaking for conflict in concerned)
    click.echo(f"{deployment}: {files} files, {breaking} breaking, {len(concerned) - breaking} warnings")


# A deployment's files


def _artifacts(directory: Path) -> Iterator[Artifact]:
    if not directory.is_dir():
        raise WrongInput(f"{directory} is not a directory", "Name the directory of host.toml.")
    hosts = [directory / name for name in HOST_FILES if (directory / name).is_file()]
    endpoints = directory / ENDPOINTS
    recipes = [directory / name for name in RECIPE_FILES if (directory / name).is_file()]
    for file in hosts:
        host = _artifact(Role.HOST, file)
        yield host
        named = _text_at(host.document.tree, "endpoints", "directory")
        endpoints = directory / named if named else endpoints
        listed = _text_at(host.document.tree, "recipes", "file")
        if listed and directory / listed not in recipes:
            recipes.append(directory / listed)
    found = sorted(endpoints.glob("*.toml")) if endpoints.is_dir() else []
    if not hosts and not found:
        raise WrongInput(f"{directory} has neither a host.toml nor endpoints", "Name the directory of a deployment.")
    for file in found:
        yield _artifact(Role.ENDPOINTS, file)
    for file in recipes:
        yield _artifact(Role.RECIPES, file)


def _text_at(tree: Mapping[str, Any], section: str, key: str) -> str | None:
    table = tree.get(section)
    value = table.get(key) if isinstance(table, Mapping) else None
    return value if isinstance(value, str) else None


def _artifact(role: Role, file: Path) -> Artifact:
    try:
        return Artifact(role=role, file=str(file), document=tomltext.read(file, MAX_BODY))
    except TomlError as error:
        where = f"{file}:{error.line}" if error.line else str(file)
        raise WrongInput(f"{where}: the file {error}") from None


def catalog_diff_script() -> None:
    """Run the ``agtp-catalog-diff`` script."""
    script(prog_name="agtp-catalog-diff")
