"""Options of commands that send a request of the user's own."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agtphost.cli.failures import WrongInput
from agtphost.cli.output import visible
from agtphost.vocabulary import scopes
from agtphost.vocabulary.identifiers import is_opaque_id

if TYPE_CHECKING:
    from agtphost.client.reply import Reply

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Headers that every request may carry (core v08 section 5.5)."""

    scope: tuple[str, ...]
    task_id: str | None
    session_id: str | None
    idempotency_key: str | None
    stream: bool

    def keywords(self) -> dict[str, Any]:
        """As keyword arguments of the client's ``call``."""
        for name in ("task_id", "session_id", "idempotency_key"):
            value = getattr(self, name)
            if value is not None and not is_opaque_id(value):
                option = name.replace("_", "-")
                raise WrongInput(f"--{option} is not 1 to 128 visible ASCII characters")
        return {
            "scopes": self._scopes(),
            "task_id": self.task_id,
            "session_id": self.session_id,
            "idempotency_key": self.idempotency_key,
        }

    def _scopes(self) -> tuple[str, ...] | None:
        if not self.scope:
            return None
        try:
            return tuple(sorted(scopes.parse(",".join(self.scope))))
        except scopes.ScopeError as error:
            raise WrongInput(f"--scope: {error}") from None

    def follow(self, as_json: bool) -> Callable[[Reply], None] | None:
        """What prints interim messages as they come; None where none are asked for."""
        if not self.stream:
            return None

        def show(interim: Reply) -> None:
            result = interim.result
            event = result.get("event", result) if isinstance(result, dict) else result
            click.echo(visible(json.dumps(event, ensure_ascii=as_json)), err=as_json)

        return show


_OPTIONS = (
    click.option("--scope", multiple=True, metavar="TOKEN", help="Claim this scope only; may be repeated."),
    click.option("--task-id", metavar="ID", help="Task-ID header."),
    click.option("--session-id", metavar="ID", help="Session-ID header."),
    click.option("--idempotency-key", metavar="KEY", help="Idempotency-Key header: never done twice."),
    click.option("--stream", is_flag=True, help="Ask for interim messages, and show them as they come."),
)


def request_options(function: F) -> F:
    """Add the options of :class:`RequestOptions`; the function gets one as ``request``."""

    @functools.wraps(function)
    def collected(*args: Any, **values: Any) -> Any:
        given = {field.name: values.pop(field.name) for field in fields(RequestOptions)}
        return function(*args, request=RequestOptions(**given), **values)

    decorated: Any = collected
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    result: F = decorated
    return result
