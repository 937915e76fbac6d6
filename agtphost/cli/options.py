"""Options that several commands share."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from agtphost.cli.failures import JSON_MODE, WrongInput
from agtphost.cli.output import WIDE, print_note, visible
from agtphost.vocabulary import scopes
from agtphost.vocabulary.identifiers import is_opaque_id

if TYPE_CHECKING:
    from agtphost.client.reply import Reply

F = TypeVar("F", bound=Callable[..., Any])

EXISTING = click.Path(path_type=Path)
"""The type of a path. Its existence shows when it is read, so that the error can name its purpose."""


class _HostToml(click.Path):
    """The type of a ``host.toml``, or of the directory that has one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        return path / "host.toml" if path.is_dir() else path


HOST_TOML = _HostToml(path_type=Path)
"""The type of ``--config``."""


def host_file(command: F) -> F:
    """Give a command the argument ``[HOST.TOML]``, and ``--config`` as another way to write it: ``file``, ``named``."""
    option = click.option("--config", "-c", "named", type=HOST_TOML, metavar="FILE", help=HOST_TOML_HELP)
    return click.argument("file", type=HOST_TOML, required=False, metavar="[HOST.TOML]")(option(command))


HOST_TOML_HELP = "The host.toml, or its directory."


def named_file(file: Path | None, named: Path | None) -> Path | None:
    """
    Return the ``host.toml`` that a command of :func:`host_file` was given; None if it was given none.

    :raises agtphost.cli.failures.CommandError: it was given two.
    """
    if file is not None and named is not None and file != named:
        raise WrongInput("two host.toml are named", "Give one, as an argument or with --config.")
    return file or named


def _remember(context: click.Context, _: click.Parameter, value: bool) -> bool:
    if value:
        context.meta[JSON_MODE] = True
    return value


HERE = "-"
"""Argument in place of a URI that means the configured host."""

json_option = click.option(
    "--json", "as_json", is_flag=True, is_eager=True, callback=_remember, help="Print JSON for machines."
)


def _widen(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[WIDE] = value


wide_option = click.option(
    "--wide", is_flag=True, is_eager=True, expose_value=False, callback=_widen, help="Show full identifiers."
)
"""Option of commands whose tables have Agent-IDs, Audit-IDs or digests; without it they are shortened."""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """The options that select a host, and the agent to call it as."""

    host_uri: str = HERE
    """Value of ``--uri``."""

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
    quic: bool | Literal["auto"] = False


_URI = click.option("--uri", "host_uri", default=HERE, metavar="URI", help="The host; default: the configured one.")
_OPTIONS = (
    click.option("--config", type=HOST_TOML, metavar="FILE", help="A local host: its host.toml, or its directory."),
    click.option("--profile", metavar="NAME", help="A host of ~/.config/agtphost/config.toml."),
    click.option("--as", "identity", metavar="NAME", help="Call as this agent (name or Agent-ID), or as registrar."),
    click.option("--cert", type=EXISTING, metavar="FILE", help="Client certificate to call with (PEM)."),
    click.option(
        "--key", type=EXISTING, metavar="FILE", help="Private key of --cert; default: the .key file next to it."
    ),
    click.option(
        "--cacert", type=EXISTING, metavar="FILE", help="Authority that the host's certificate must be from (PEM)."
    ),
    click.option("--agent-id", metavar="ID", help="The Agent-ID to send; default: the certificate's."),
    click.option("--no-cert", is_flag=True, help="Present no client certificate."),
    click.option(
        "--plain-parameters",
        is_flag=True,
        help="Send parameters as the body, for servers without the AGTP envelope.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(0.1, 86_400),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for an answer.",
    ),
)


AUTO: Literal["auto"] = "auto"
"""Value of ``--quic`` that leaves the carrier to the client."""

_QUIC_AUTO = "--quic=auto"


class _QuicOption(click.Option):
    """``--quic``, whose value ``auto`` follows an equals sign: the next word is never taken for it."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        parser.add_option(obj=self, opts=[_QUIC_AUTO], dest=self.name, action="store_const", const=AUTO)
        match = parser._match_long_opt

        def match_with_value(name: str, value: str | None, state: Any) -> None:
            if name == "--quic" and value is not None:
                if value != AUTO:
                    raise click.UsageError(f"--quic={value[:40]} is not known: write --quic or {_QUIC_AUTO}", ctx)
                name, value = _QUIC_AUTO, None
            match(name, value, state)

        parser._match_long_opt = match_with_value

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        return "--quic[=auto]", self.help or ""

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        return value if value == AUTO else super().type_cast_value(ctx, value)


_QUIC = click.option(
    "--quic",
    is_flag=True,
    cls=_QuicOption,
    help="Call over QUIC (UDP) instead of TLS; auto: where the host offers it and answers. Needs agtphost[quic].",
)


def add_options(kind: type[Any], keyword: str, options: Sequence[Callable[[Any], Any]]) -> Callable[[F], F]:
    """
    Return a decorator that adds options; the function receives their values as one object.

    :param kind: a dataclass whose fields have the names of the options.
    :param keyword: name of the parameter that receives the object.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call_with_object(*args: Any, **values: Any) -> Any:
            given = {field.name: values.pop(field.name) for field in fields(kind) if field.name in values}
            return function(*args, **{keyword: kind(**given)}, **values)

        decorated: Any = call_with_object
        for option in reversed(options):
            decorated = option(decorated)
        result: F = decorated
        return result

    return decorate


connection_options = add_options(Connection, "where", (*_OPTIONS, _QUIC, json_option))
"""Adds the options of :class:`Connection`, and ``--json``; the function gets ``where`` and ``as_json``."""

tls_connection_options = add_options(Connection, "where", (*_OPTIONS, json_option))
"""The same options for commands that speak TLS alone."""

signing_keys_option = click.option(
    "--signing-key",
    "signing_keys_at",
    type=EXISTING,
    multiple=True,
    metavar="FILE|DIR",
    help="Public key of the host, or a directory of keys; may be repeated.",
)

host_options = add_options(Connection, "where", (_URI, *_OPTIONS, _QUIC, json_option))
"""Options of commands that also need ``--uri``, because they have no URI argument."""


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Headers that every request may carry (core v08 section 5.5)."""

    scope: tuple[str, ...]
    task_id: str | None
    session_id: str | None
    idempotency_key: str | None
    stream: bool
    wait_approval: float | None

    def keywords(self) -> dict[str, Any]:
        """Return keyword arguments for :func:`agtphost.cli.exchange.call_with_approval`."""
        for name in ("task_id", "session_id", "idempotency_key"):
            value = getattr(self, name)
            if value is not None and not is_opaque_id(value):
                option = name.replace("_", "-")
                raise WrongInput(
                    f"--{option} {value[:64]!r} is not 1 to 128 visible ASCII characters",
                    "Shorten it, or write it without spaces and other characters.",
                )
        return {
            "scopes": self._scopes(),
            "task_id": self.task_id,
            "session_id": self.session_id,
            "idempotency_key": self.idempotency_key,
            "patience": self.wait_approval,
        }

    def _scopes(self) -> tuple[str, ...] | None:
        if not self.scope:
            return None
        try:
            return tuple(sorted(scopes.parse(",".join(self.scope))))
        except scopes.ScopeError as error:
            raise WrongInput(f"--scope: {error}") from None

    def follow(self, as_json: bool) -> Callable[[Reply], None] | None:
        """Return a function that prints interim messages as they arrive, or None without ``--stream``."""
        if not self.stream:
            return None

        def show(interim: Reply) -> None:
            result = interim.result
            event = result.get("event", result) if isinstance(result, dict) else result
            text = json.dumps(event, ensure_ascii=as_json)
            print_note(text) if as_json else click.echo(visible(text))

        return show


_REQUEST_OPTIONS = (
    click.option(
        "--scope", multiple=True, metavar="TOKEN", help="Use only this scope of the agent's; may be repeated."
    ),
    click.option("--task-id", metavar="ID", help="Task-ID of the request, which its record has."),
    click.option("--session-id", metavar="ID", help="Session-ID of the request, which its record has."),
    click.option(
        "--idempotency-key", metavar="KEY", help="Repeat the request with the same key to execute it at most once."
    ),
    click.option("--stream", is_flag=True, help="Request interim messages, and print them as they arrive."),
    click.option(
        "--wait-approval",
        type=click.FloatRange(0, 86_400),
        metavar="SECONDS",
        help="Wait for a person's approval if necessary, then make the call.",
    ),
)


request_options = add_options(RequestOptions, "request", _REQUEST_OPTIONS)
"""Adds the options of :class:`RequestOptions`; the function gets one as ``request``."""


_IMPORT_OPTIONS = (
    click.argument("file"),
    click.option(
        "--out", type=click.Path(path_type=Path), metavar="DIR", help="Write the endpoints to this directory."
    ),
    click.option(
        "--catalog",
        "catalog_file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Catalog of the methods to choose from; default: the one shipped.",
    ),
    click.option(
        "--stubs",
        type=click.Path(path_type=Path),
        metavar="FILE.py",
        help="Also write a module with a stub of each handler.",
    ),
)


def import_options(function: F) -> F:
    """Add the argument and the options that each import of a document has."""
    for option in reversed(_IMPORT_OPTIONS):
        function = option(function)
    return function
