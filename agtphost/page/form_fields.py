"""Read the fields of forms, and describe the request that a form becomes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agtphost.page.layout import PageView
from agtphost.page.person_client import PageReply, PersonClient

Fields: TypeAlias = Mapping[str, str]

LONGEST = 4_096
"""Characters of one field."""


class MalformedForm(Exception):
    """A form that no page has; the message is one sentence."""


@dataclass(frozen=True, kw_only=True)
class FormRequest:
    """The request that a form becomes."""

    method: str
    path: str
    given: Mapping[str, Any]
    done: str
    """The message about its success."""

    rights_of: str = ""
    """The Agent-ID with whose rights the request is judged; empty for the person's own."""

    show: Callable[[PageReply, PersonClient], Awaitable[PageView]] | None = None
    """Draws the view of the answer; None: a success leads back, with :attr:`done` as its message."""

    further: Sequence[FormRequest] = ()
    """Requests that are sent after this one, also after a refusal: the others of a group."""

    check: Callable[[PersonClient], Awaitable[str]] | None = None
    """Returns why the request is not sent as things are now, a sentence; empty text if it is sent."""


def read_word(fields: Fields, name: str) -> str:
    """
    Return a field that must be there.

    :raises MalformedForm: it is missing or too long.
    """
    value = fields.get(name, "").strip()
    if not value or len(value) > LONGEST:
        raise MalformedForm(f"The field {name} is missing or has more than {LONGEST} characters.")
    return value


def read_reason(fields: Fields) -> dict[str, str]:
    """
    Return the reason as a member of a request; nothing where none was typed.

    :raises MalformedForm: it is too long.
    """
    value = fields.get("reason", "").strip()
    if len(value) > LONGEST:
        raise MalformedForm(f"The reason has more than {LONGEST} characters.")
    return {"reason": value} if value else {}


def require_button(fields: Fields, *known: str) -> str:
    """
    Return the button that sent the form.

    :raises MalformedForm: it was none of these.
    """
    value = fields.get("do", "")
    if value not in known:
        raise MalformedForm("The form was not sent by one of its buttons.")
    return value


def require_confirmation(fields: Fields, explanation: str) -> None:
    """
    Require that the box of the form was ticked.

    :raises MalformedForm: it was not, with this explanation.
    """
    if fields.get("confirmed") != "yes":
        raise MalformedForm(explanation)
