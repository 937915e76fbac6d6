"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import click

from agtphost.cli.failures import JSON_MODE

F = TypeVar("F", bound=Callable[..., Any])

EXISTING = click.Path(path_type=Path)
"""A path; that it exists is found out where it is read, so that the error says what it was for."""


def _remember(context: click.Context, _: click.Parameter, value: bool) -> bool:
    if value:
        context.meta[JSON_MODE] = True
    return value


HERE = "-"
"""In place of a URI: the host of the configuration."""

host_option = click.option("--uri", default=HERE, metavar="URI", help="The host; default: the configured one.")

json_option = click.option(
    "--json", "as_json", is_flag=True, is_eager=True, callback=_remember, help="Print JSON for machines."
)


@dataclass(frozen=True, kw_only=True)
class Connection:
    """What the command line says about which host, and as whom."""

    config: Path | None = None
    profile: str | None = None
    cert: Path | None = None
    key: Path | None = None
    cacert: Path | None = None
    agent_id: str | None = None
    identity: str | None = None
    no_cert: bool = False
    plain_parameters: bool = False
    timeout: float = 60.0


_OPTIONS = (
    click.option("--config", type=EXISTING, metavar="FILE", help="The host.toml of a host on this machine."),
    click.option("--profile", metavar="NAME", help="A host of ~/.config/agtphost/config.toml."),
    click.option("--as", "identity", metavar="NAME", help="Known agent to be; or registrar."),
    click.option("--cert", type=EXISTING, metavar="FILE", help="Client certificate (PEM)."),
    click.option("--key", type=EXISTING, metavar="FILE", help="Its key; default: beside it, as .key."),
    click.option("--cacert", type=EXISTING, metavar="FILE", help="Authority of the host's certificate."),
    click.option("--agent-id", metavar="ID", help="The Agent-ID to send; default: the certificate's."),
    click.option("--no-cert", is_flag=True, help="Present no client certificate."),
    click.option(
        "--plain-parameters",
        is_flag=True,
        help="Send parameters at the top of the body, for servers that know no envelope.",
    ),
    click.option("--timeout", type=click.FloatRange(0.1, 86_400), default=60.0, show_default=True, help="Seconds."),
)


def connection_options(function: F) -> F:
    """Add the options of :class:`Connection`; the function gets one as ``where``."""

    @functools.wraps(function)
    def collected(*args: Any, **values: Any) -> Any:
        given = {field.name: values.pop(field.name) for field in fields(Connection)}
        return function(*args, where=Connection(**given), **values)

    decorated: Any = collected
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    result: F = decorated
    return result
