"""The ``agtp endpoint`` group: write the operator's own endpoints."""

from __future__ import annotations

import os
from pathlib import Path

import click

from agtphost.cli.endpoint.module_edit import ModuleEditError, add_function, bound_names
from agtphost.cli.endpoint.scaffold import EndpointPlan
from agtphost.cli.failures import WrongInput, local_file
from agtphost.cli.groups import VerbGroup
from agtphost.cli.host_config import require_config
from agtphost.cli.options import HOST_TOML, Connection, json_option
from agtphost.cli.output import print_entries, print_json, print_note
from agtphost.cli.own_endpoints import own_endpoints
from agtphost.vocabulary.catalog import LEGACY, Catalog, is_method_name
from agtphost.vocabulary.paths import template_faults

KINDS = ("function", "declaration", "test")
"""The kinds of files of an endpoint."""


@click.group(cls=VerbGroup)
def command() -> None:
    """List and write your own endpoints."""


@command.command("list")
@click.option("--config", type=HOST_TOML, metavar="FILE", help="The host.toml, or its directory.")
@json_option
def list_command(config: Path | None, as_json: bool) -> None:
    """
    List the endpoints in the files of [endpoints] directory.

    The host need not run; what it serves beyond these files, such as tools and built-in methods, is not listed.

    \b
    Examples:
      agtp endpoint list
      agtp endpoint list --config work --json
    """
    settings = require_config(Connection(config=config), "a list of endpoints")
    columns = {"METHOD": "method", "PATH": "path", "SCOPES": "scopes", "ASSURANCE": "assurance", "FILE": "file"}
    entries = [
        {
            "method": each.method,
            "path": each.path,
            "scopes": list(each.required_scopes),
            "assurance": each.min_assurance.label,
            "description": each.description,
            "file": each.file,
        }
        for each in own_endpoints(settings)[1]
    ]
    print_entries(entries, columns, as_json)


@command.command()
@click.argument("method", metavar="METHOD")
@click.argument("path", metavar="/PATH")
@click.option("--function", required=True, metavar="MODULE.NAME", help="The Python function, such as orders.find.")
@click.option("--config", type=HOST_TOML, metavar="FILE", help="The host.toml, or its directory.")
@json_option
def new(method: str, path: str, function: str, config: Path | None, as_json: bool) -> None:
    """
    Create an endpoint: a declaration, a Python function and a test.

    The test passes without changes. The module goes to the first directory of [endpoints] python_path, the declaration
    to [endpoints] directory, and the test to tests/ in the directory of host.toml. Other files are not changed. Then
    validate the host with `agtp check`. After `agtp reload` it serves the endpoint; in production, after a restart.

    If the module exists, the function is added at its end with the imports that it needs, and every other line stays.

    \b
    Examples:
      agtp endpoint new QUERY /orders/{id} --function handlers.orders.find
      agtp endpoint new BOOK /desks/{desk} --function handlers.desks.book
    """
    settings = require_config(Connection(config=config), "a new endpoint")
    if settings.endpoints.directory is None:
        raise WrongInput(
            f"{settings.file} has no [endpoints] directory",
            'Add [endpoints] with directory = "endpoints" and python_path = ["."].',
        )
    plan = _plan(method, path, function, settings.policies.methods.custom)
    modules = settings.endpoints.python_path[0] if settings.endpoints.python_path else settings.folder
    source = modules.joinpath(*plan.module.split(".")).with_suffix(".py")
    declaration = settings.endpoints.directory / f"{plan.slug}.toml"
    test = settings.folder / "tests" / f"test_{plan.slug}.py"
    from_test = Path(os.path.relpath(modules, test.parent))
    package = source.with_suffix("") / "__init__.py"
    source = package if package.is_file() else source
    files = {
        source: _add_to(source, plan) if source.exists() else plan.source(),
        declaration: plan.declaration(),
        test: plan.test(Path(os.path.relpath(declaration, modules)), from_test),
    }
    for file in (declaration, test):
        if file.exists():
            raise WrongInput(f"{file} exists", "Choose another module or name; existing files are not changed.")
    for file, content in files.items():
        with local_file(file, doing="written"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode("utf-8"))
    written = [os.path.relpath(file) for file in files]
    if as_json:
        print_json({"endpoint": f"{method} {path}", "files": dict(zip(KINDS, written, strict=True))})
        return
    for kind, name in zip(KINDS, written, strict=True):
        click.echo(f"{kind:<12} {name}")
    print_note(f"next: pytest {written[2]}, agtp check, then agtp reload (in production, restart the host)")


def _add_to(source: Path, plan: EndpointPlan) -> str:
    """
    Return the text of a module that exists with the function of an endpoint added.

    :raises WrongInput: it cannot be added.
    """
    with local_file(source, UnicodeDecodeError):
        text = source.read_bytes().decode("utf-8")
    try:
        bound = bound_names(text)
        longer = f"{''.join(word.title() for word in plan.name.split('_'))}Answer"
        names = ("Answer", longer, *(f"{longer}{number}" for number in range(2, 100)))
        answer = next(each for each in names if each not in bound)
        return add_function(text, plan.definitions(answer), plan.name)
    except ModuleEditError as error:
        raise WrongInput(f"{source} {error}", "Choose another name for the function, or another module.") from None


def _plan(method: str, path: str, function: str, custom: tuple[str, ...]) -> EndpointPlan:
    """
    Plan the files of an endpoint.

    :raises WrongInput: the arguments do not make an endpoint.
    """
    catalog = Catalog.load()
    if method in LEGACY:
        raise WrongInput(f"{method} is an HTTP verb, which new endpoints may not use", f"Use {catalog.legacy[method]}.")
    if not is_method_name(method) or not (catalog.knows(method) or method in custom):
        close = ", ".join(catalog.close_matches(method)) if is_method_name(method) else ""
        raise WrongInput(
            f"{method[:40]!r} is not in the catalog of methods",
            f"Similar names: {close}." if close else "`agtp methods --tier all` lists methods.",
        )
    for fault in template_faults(path, catalog.methods):
        raise WrongInput(f"{path[:128]}: {fault}")
    plan = EndpointPlan(method=method, path=path, function=function, entry=catalog.entries.get(method))
    if fault := plan.fault():
        raise WrongInput(fault, "Give a module and a function, such as handlers.orders.find.")
    return plan
