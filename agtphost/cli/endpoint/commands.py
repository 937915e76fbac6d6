"""``agtp endpoint``: the operator's own endpoints."""

from __future__ import annotations

import os
from pathlib import Path

import click

from agtphost.cli.configured import require_config
from agtphost.cli.endpoint.scaffold import Plan
from agtphost.cli.failures import WrongInput, local_file
from agtphost.cli.options import HOST_TOML, Connection, json_option
from agtphost.cli.output import print_json
from agtphost.vocabulary.catalog import LEGACY, Catalog, is_method_name
from agtphost.vocabulary.paths import template_faults

KINDS = ("function", "declaration", "test")
"""The files of an endpoint."""


@click.group()
def command() -> None:
    """Write endpoints of your own."""


@command.command()
@click.argument("method", metavar="METHOD")
@click.argument("path", metavar="/PATH")
@click.option("--function", required=True, metavar="MODULE.NAME", help="The Python function, such as orders.find.")
@click.option("--config", type=HOST_TOML, metavar="FILE", help="The host.toml, or its directory.")
@json_option
def new(method: str, path: str, function: str, config: Path | None, as_json: bool) -> None:
    """
    Write a declaration, a function and a test.

    The test passes as it is. The module goes where [endpoints] python_path says
    first, the declaration into [endpoints] directory, the test into tests/ beside
    the host.toml. Nothing that is there is changed. `agtp check` then tells
    whether all is sound, and a host that is started answers it.

    \b
    Examples:
      agtp endpoint new QUERY /orders/{id} --function handlers.orders.find
      agtp endpoint new BOOK /desks/{desk} --function handlers.desks.book
    """
    settings = require_config(Connection(config=config), "a new endpoint")
    if settings.endpoints.directory is None:
        raise WrongInput(
            f"{settings.file} has no [endpoints] directory",
            'Write there: [endpoints], directory = "endpoints", python_path = ["."].',
        )
    plan = _plan(method, path, function, settings.policies.methods.custom)
    modules = settings.endpoints.python_path[0] if settings.endpoints.python_path else settings.folder
    source = modules.joinpath(*plan.module.split(".")).with_suffix(".py")
    declaration = settings.endpoints.directory / f"{plan.slug}.toml"
    test = settings.folder / "tests" / f"test_{plan.slug}.py"
    from_test = Path(os.path.relpath(modules, test.parent))
    files = {
        source: plan.source(),
        declaration: plan.declaration(),
        test: plan.test(Path(os.path.relpath(declaration, modules)), from_test),
    }
    for file in files:
        if file.exists():
            raise WrongInput(f"{file} exists", "Choose another module or name: nothing that is there is changed.")
    for file, content in files.items():
        with local_file(file, doing="written"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
    written = [os.path.relpath(file) for file in files]
    if as_json:
        print_json({"endpoint": f"{method} {path}", "files": dict(zip(KINDS, written, strict=True))})
        return
    for kind, name in zip(KINDS, written, strict=True):
        click.echo(f"{kind:<12} {name}")
    click.echo(f"next: pytest {written[2]}, agtp check, then start the host anew", err=True)


def _plan(method: str, path: str, function: str, custom: tuple[str, ...]) -> Plan:
    """
    What is to be written.

    :raises WrongInput: it cannot be an endpoint.
    """
    catalog = Catalog.load()
    if method in LEGACY:
        raise WrongInput(f"{method} is an HTTP verb, which new endpoints may not use", f"Use {catalog.legacy[method]}.")
    if not is_method_name(method) or not (catalog.knows(method) or method in custom):
        close = ", ".join(catalog.close_matches(method)) if is_method_name(method) else ""
        raise WrongInput(
            f"{method[:40]!r} is not in the catalog of methods",
            f"Close to it: {close}." if close else "`agtp methods --tier all` lists some.",
        )
    for fault in template_faults(path, catalog.methods):
        raise WrongInput(f"{path[:128]}: {fault}")
    plan = Plan(method=method, path=path, function=function, entry=catalog.entries.get(method))
    if fault := plan.fault():
        raise WrongInput(fault, "Write a module and a function, such as handlers.orders.find.")
    return plan
