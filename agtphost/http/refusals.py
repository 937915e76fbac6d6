"""
Refuse requests before anything is called, in the form that the surface's clients read.

A request that names a sender is refused on record, as in AGTP: by a certificate, a known token, or one that is not
valid any more (security invariant 1). The refusal is answered once that record is durable, so nothing of the body is
read. A request without any proof leaves an access line; over the gateway, where every answer has a record, it has one
too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from agtphost.errors import Refusal
from agtphost.http.bounded_request import BoundedRequest, field_of, phrase_of, tail_of
from agtphost.http.clients import NO_DETAILS, ClaimedSender, ClientRefused
from agtphost.http.status import FIELD
from agtphost.iagtp import IDispatcher
from agtphost.vocabulary import jsontext, media_types
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Headers

log = Logger()

PROOF = "Send Authorization: Bearer with a token that the operator gave you, or show an agent's client certificate."

DEFAULT_REMEDIES = {
    404: "Check the path.",
    405: "Use one of the methods in Allow.",
    413: "Send a smaller body.",
    415: "Send the body in the required type.",
    417: "Leave Expect out.",
}
"""The default remedy, by HTTP status, before that of the reason: the reason's is for callers over AGTP."""

_DROPPED = frozenset({"content-type", "content-length", "supported-methods"})
"""Fields of the sealed answer that the HTTP answer sets itself or omits."""


Form = Callable[["TurnedAway"], tuple[bytes, str]]
"""Encodes a refusal for the clients of a surface: its octets, and their type."""


@dataclass(frozen=True, kw_only=True)
class TurnedAway:
    """The refusal of a request before anything is called."""

    status: int
    """The HTTP status."""

    reason: Reason
    explanation: str
    remedy: str
    fields: tuple[tuple[str, str], ...]
    """HTTP fields in addition to those of every answer."""

    details: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the body."""

    form: Form | None = None
    """The encoding; None: that of the surface."""

    audit_id: str = ""
    """The Audit-ID of its record; empty if it has none."""

    @property
    def agtp_status(self) -> int:
        """Return the AGTP status: HTTP's own statuses, such as 413 and 421, do not exist in AGTP."""
        return self.status if self.status in self.reason.statuses else int(self.reason.statuses[0])

    @property
    def document(self) -> Mapping[str, Any]:
        """Return the body of a refusal in AGTP."""
        token = str(self.reason)
        body: dict[str, Any] = {"status": self.agtp_status, **self.details}
        body |= {"reason": token, "type": token, "code": token}
        body |= {"error": {"code": token, "message": self.explanation}, "explanation": self.explanation}
        return {**body, "remedy": self.remedy} if self.remedy else body

    @property
    def text(self) -> bytes:
        """Return the refusal as text, for people with a browser."""
        return f"{self.explanation} {self.remedy}".rstrip().encode() + b"\n"


def agtp_form(turned: TurnedAway) -> tuple[bytes, str]:
    """Encode a refusal as AGTP does."""
    return jsontext.encode(turned.document), media_types.AGTP_JSON


def refuse(
    request: BoundedRequest,
    status: int,
    reason: Reason,
    explanation: str,
    *fields: tuple[str, str],
    remedy: str = "",
    details: Mapping[str, Any] = NO_DETAILS,
    form: Form | None = None,
) -> bytes:
    """
    Refuse a request of any surface.

    :param status: the HTTP status.
    :param fields: HTTP fields in addition to those of every answer.
    :param details: further members of the body.
    :param form: the encoding; None: that of the surface.
    :return: the body.
    """
    turned = TurnedAway(
        status=status,
        reason=reason,
        explanation=explanation,
        remedy=remedy or DEFAULT_REMEDIES.get(status) or reason.remedy,
        fields=fields,
        details=details,
        form=form,
    )
    request.turned_away = turned
    said = (FIELD, f"{turned.agtp_status} {phrase_of(turned.agtp_status)}")
    octets, kind = _encode(request, turned)
    return tail_of(request, status, octets, *fields, said, kind=kind)


def refuse_unproven(request: BoundedRequest, refused: ClientRefused, *fields: tuple[str, str]) -> bytes:
    """Refuse a request without proof of identity, with 401; ``WWW-Authenticate`` is added unless ``fields`` have it."""
    shown = field_of(request, "authorization") is not None
    challenge = ("WWW-Authenticate", 'Bearer error="invalid_token"' if shown else "Bearer")
    told = fields if any(name == "WWW-Authenticate" for name, _ in fields) else (challenge, *fields)
    remedy = refused.remedy or (refused.reason.remedy if refused.reason is Reason.OAUTH_INVALID else PROOF)
    return refuse(request, 401, refused.reason, str(refused), *told, remedy=remedy, details=refused.details)


def _encode(request: BoundedRequest, turned: TurnedAway) -> tuple[bytes, str]:
    if "text/html" in (field_of(request, "accept") or "").lower():
        return turned.text, "text/plain"
    return _form(request, turned)(turned)


def _form(request: BoundedRequest, turned: TurnedAway) -> Form:
    if turned.form is not None:
        return turned.form
    form: Form = agtp_form if request.mount is None else getattr(request.mount.resource, "refusal_form", agtp_form)
    return form


class RefusalRecorder:
    """
    A recorder of refusals.

    :param dispatcher: seals them.
    """

    def __init__(self, dispatcher: IDispatcher) -> None:
        self._dispatcher = dispatcher

    def record(self, request: BoundedRequest, finish: Callable[[bytes], object]) -> bool:
        """
        Record the refusal of a request, if it names a sender.

        :param finish: called with the body of the answer once the record is durable.
        :return: whether it names a sender; otherwise nothing is recorded.
        """
        resource = request.mount.resource
        tried: ClaimedSender | None = (
            resource.find_claimed_sender(request) if hasattr(resource, "find_claimed_sender") else None
        )
        if tried is None:
            return False

        def answer(octets: bytes) -> None:
            if not request.is_disconnected and not request.finished:
                finish(octets)

        def note_failure(failure: Failure) -> None:
            log.failure("a refusal at the door could not be answered; its connection is cut", failure)
            request.channel.cut()

        Deferred.fromCoroutine(self._record(request, tried)).addCallback(answer).addErrback(note_failure)
        return True

    async def _record(self, request: BoundedRequest, tried: ClaimedSender) -> bytes:
        turned: TurnedAway = request.turned_away
        asked = Request(
            method=request.method.decode("ascii", "replace"),
            path=request.path.decode("ascii", "replace"),
            headers=Headers(list(tried.fields)),
            line=b"%s %s HTTP/1.1\r\n" % (request.method, request.uri),
        )
        refusal = Refusal(
            turned.reason, turned.explanation, remedy=turned.remedy, cause=tried.cause, details=turned.details
        )
        response: Response = await self._dispatcher.turn_away(asked, refusal, tried.peer)
        if response.status == Status.RATE_LIMITED:
            again = Reason.RATE_LIMITED
            turned = replace(
                turned, status=429, reason=again, explanation=again.meaning, remedy=again.remedy, fields=()
            )
        request.agtp_status = response.status
        request.audit_id = response.audit_id
        for name, value in response.headers:
            if name.lower() not in _DROPPED:
                request.responseHeaders.setRawHeaders(name, [value])
        request.responseHeaders.setRawHeaders(FIELD, [f"{response.status} {phrase_of(response.status)}"])
        if _form(request, turned) is agtp_form:
            octets, kind = response.body, media_types.AGTP_JSON  # the signed octets, with the status of AGTP
        else:
            octets, kind = _encode(request, replace(turned, audit_id=request.audit_id))
        return tail_of(request, turned.status, octets, *turned.fields, kind=kind)
