"""What the answer to a call inside this host gives to the handler that made it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.dispatch.violations import scopes_of
from agtphost.errors import Refusal
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.reasons import ForeignReason, Reason
from agtphost.vocabulary.status import Status
from agtphost.wire.events import Response


def awaits_approval(status: int, body: Any) -> bool:
    """Return whether a response says that the call waits for a person's approval."""
    return (
        status == Status.ACCEPTED
        and isinstance(body, dict)
        and body.get("reason") == Reason.APPROVAL_REQUIRED
        and "result" not in body
    )


def _approval_members(status: int, body: Any) -> dict[str, Any]:
    """Return the members that name the approval a call waits for; empty for all others."""
    names = ("approval_id", "expires_at", "digest")
    return {name: body[name] for name in names if name in body} if awaits_approval(status, body) else {}


def _document(response: Response) -> Any:
    if not response.body:
        return {}
    if not response.own:
        return jsontext.decode(response.body)
    try:
        return jsontext.decode_own(response.body)
    except jsontext.JSONTextError:
        # The input of a call is nested in the answer, which may so be deeper or larger than a call's body may be.
        return jsontext.decode_kept(response.body)


def result_of(response: Response) -> Mapping[str, Any]:
    """
    Return the result of an answer.

    :raises Refusal: with its status and reason, where it is outside 2xx or waits for a person.
    """
    body = _document(response)
    succeeded = 200 <= response.status < 300 and response.status != Status.AUTHORIZATION_REQUIRED
    if succeeded and not awaits_approval(response.status, body):
        if isinstance(body, dict) and "result" in body and "attribution" in body:
            body = body["result"]
        return body if isinstance(body, dict) else {"value": body}
    reason = body.get("reason", "") if isinstance(body, dict) else ""
    raise Refusal(
        ForeignReason(reason or Reason.INVOCATION_FAILED, Status(response.status)),  # type: ignore[call-arg]
        body.get("explanation", "") if isinstance(body, dict) else "",
        details={"audit_id": response.audit_id, **_approval_members(response.status, body)},
        scopes=scopes_of(body),
    )
