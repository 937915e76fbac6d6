"""Write and summarize drafts of declarations that were made from documents of another kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.failures import WrongInput, local_file
from agtphost.cli.local_files import write_new
from agtphost.cli.output import print_json, visible
from agtphost.cli.progress import show_progress

if TYPE_CHECKING:
    from agtphost.contract.openapi.importer import Imported, ImportedEndpoint

NOT_LOADED = (
    "The host does not load these files as they are. Confirm the REVIEW lines of an endpoint, set the environment "
    "variables that its [handler] headers name, and rename the file to .toml."
)

TITLES = {"openapi": "OpenAPI", "agis": "AGIS document"}
"""Titles of the kinds of documents; ``--json`` has a member for each kind."""


def deliver(
    imported: Imported, kind: str, out: Path | None, stubs: Path | None, as_json: bool, prefix: str = ""
) -> None:
    """
    Write declarations if a directory is named, and print what was made from what.

    :param kind: a key of :data:`TITLES`.
    :param stubs: file of a module to write, whose functions handle the endpoints instead of the old service.
    :param prefix: prefix of the endpoints' paths, used in the name of the file of shared definitions.
    """
    from agtphost.contract.openapi.shared_definitions import file_name, share_definitions

    if stubs is not None:
        imported = _with_stubs(imported, stubs)
    name = file_name(imported, prefix)
    imported, definitions = share_definitions(imported, name)
    if out is not None:
        _write(imported, out, {name: definitions} if definitions else {})
    if as_json:
        shared = {"definitions": name} if definitions else {}
        print_json({**_summary(imported, kind, out), **shared})
    else:
        _print(imported, kind, out)
        if definitions:
            click.echo(f"{name} has their shared definitions: keep it in the directory of the endpoints")


def _with_stubs(imported: Imported, module: Path) -> Imported:
    """Write the module, and return endpoints that its functions handle."""
    from agtphost.contract.openapi.stubs import with_stubs

    if module.suffix != ".py" or not module.stem.isidentifier():
        raise WrongInput(f"{module} is not the file name of a Python module", "Give one such as handlers_shop.py.")
    rehosted, source = with_stubs(imported, module.stem)
    write_new(module, source.encode("utf-8"))
    return rehosted


def _write(imported: Imported, out: Path, beside: Mapping[str, str]) -> None:
    """
    Write all files, or none if one of them exists.

    :param beside: texts of further files, by name.
    """
    targets = [(out / name, text) for name, text in beside.items()]
    targets += [(out / endpoint.file, endpoint.text(imported.title)) for endpoint in imported.endpoints]
    present = [path for path, _ in targets if path.exists()]
    if present:
        count = f" and {len(present) - 1} more" if len(present) > 1 else ""
        raise WrongInput(f"{present[0]} exists{count}", "Choose another directory, or move them away.")
    with local_file(out, doing="written"):
        out.mkdir(parents=True, exist_ok=True)
    for path, text in show_progress(targets, "declarations written", len(targets)):
        write_new(path, text.encode("utf-8"))


def _members(endpoint: ImportedEndpoint) -> dict[str, Any]:
    return {
        "source": endpoint.source,
        "method": endpoint.method,
        "path": endpoint.path,
        "file": endpoint.file,
        "review": list(endpoint.reviews),
        "lost": list(endpoint.losses),
    }


def _summary(imported: Imported, kind: str, out: Path | None) -> dict[str, Any]:
    return {
        "title": imported.title,
        kind: imported.version,
        "directory": None if out is None else str(out),
        "loadable": False,
        "note": NOT_LOADED,
        "endpoints": [_members(endpoint) for endpoint in imported.endpoints],
        "renamed_paths": [{"from": old, "to": new} for old, new in imported.renamed],
        "lost": dict(imported.losses),
        "skipped": list(imported.skipped),
    }


def _print(imported: Imported, kind: str, out: Path | None) -> None:
    click.echo(visible(f"{imported.title} ({TITLES[kind]} {imported.version})"))
    for endpoint in imported.endpoints:
        click.echo(visible(f"  {endpoint.source} -> {endpoint.method} {endpoint.path}"))
        for review in endpoint.naming:
            click.echo(visible(f"    review {review}"))
    reviews = sum(len(endpoint.reviews) for endpoint in imported.endpoints)
    click.echo(f"{len(imported.endpoints)} endpoints, {reviews} points to review")
    for what, count in imported.losses.items():
        click.echo(visible(f"lost: {what} ({count})"))
    for skipped in imported.skipped:
        click.echo(visible(f"skipped: {skipped}"))
    click.echo(f"written to {out}" if out is not None else "nothing written: name a directory with --out")
    click.echo(NOT_LOADED)
