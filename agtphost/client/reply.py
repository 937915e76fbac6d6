"""One answer to a call, and the checks it can be put to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agtphost.client.approvals import PendingApproval, pending_of
from agtphost.client.errors import ApprovalRequired, CallRefused
from agtphost.client.terminal import escape, escape_octets
from agtphost.client.verification import Evidence, Verification, verify
from agtphost.identity.keys import VerifyingKey
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.jsonslices import Encoded
from agtphost.vocabulary.status import Status
from agtphost.wire.events import Response
from agtphost.wire.headers import Headers

_UNAUTHORIZED_2XX = Status.AUTHORIZATION_REQUIRED


PARTICULARS = {
    "missing_scopes": "missing scopes",
    "close_matches": "close names",
    "candidates": "candidates",
    "supported_actions": "actions",
    "allowed_methods_for_path": "allowed methods",
}
"""Members of refusals that are lists of words, and their names in messages."""

MOST_PARTICULARS = 20

SHORT = 12
"""Digits of an Audit-ID that tell it from others, for people."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Reply:
    """
    A response together with the request it answers.

    Decisions rest on :attr:`status` alone; :attr:`text` is for people (core v08 section 5.4.1).
    """

    status: int
    text: str
    headers: Headers
    body: bytes
    """Exactly Content-Length octets, untrusted."""

    request_line: bytes
    """The first line of the request as sent, CRLF included: what ``request_hash`` covers, with the next."""

    request_body: bytes = b""
    agent_id: str | None = None
    """The canonical Agent-ID that the URI named as the one to answer (Form 1a); None where it named none."""

    caller_id: str | None = None
    """As whom the call was made; None for an anonymous one."""

    interims: int = field(default=0, compare=False)
    """How many interim messages came before this one."""

    own: bool = field(default=False, compare=False)
    """Whether this very process wrote the body, as JSON."""

    encoded: Encoded | None = field(default=None, compare=False)
    """:attr:`result`, where this very process has it, as a server wrote it and decoded. None: the body has it."""

    verified: bool = field(default=False, compare=False)
    """Whether its record was checked, and is genuine: clients made by ``Client.of`` do that."""

    def __repr__(self) -> str:
        said = f"{self.status} {escape(self.text)}".rstrip()
        if self.approval is not None:
            said += f", waits for approval {escape(self.approval.approval_id)}"
        elif not self.ok and self.reason:
            said += f", {escape(self.reason)}: {escape(self.explanation)}"
        if self.interim:
            return f"<Reply {said}, interim>"
        audit = f"Audit-ID {escape(self.audit_id[:SHORT])}" if self.audit_id else "no Audit-ID"
        return f"<Reply {said}, {audit}, {'verified' if self.verified else 'not verified'}>"

    @property
    def ok(self) -> bool:
        """Whether the server did what was asked: any 2xx but 262, which refuses, and a call that waits for a person."""
        status = self.status
        if not 200 <= status < 300 or status == _UNAUTHORIZED_2XX:
            return False
        # Only a 202 can wait for a person; the cached property takes a lock for every other answer, too.
        return status != Status.ACCEPTED or self.approval is None

    @cached_property
    def approval(self) -> PendingApproval | None:
        """The approval that a person has to give before this call is made; None for every other answer."""
        return pending_of(self.document) if self.status == Status.ACCEPTED and not self.interim else None

    @property
    def interim(self) -> bool:
        """Whether more messages follow: a 202 with a Continuation-Token (design decision 11)."""
        return is_interim(self.status, self.headers)

    @property
    def _decode_body(self) -> Any:
        # Kept, and not by `cached_property`: that has one lock for all replies while it is at work.
        kept = self.__dict__
        if "_json" not in kept:
            kept["_json"] = (jsontext.decode_own if self.own else jsontext.decode)(self.body)
        return kept["_json"]

    def json(self) -> Any:
        """
        Return the body, decoded strictly, once; another thread may do it.

        :raises agtphost.vocabulary.jsontext.JSONTextError: if it is not JSON.
        """
        return self._decode_body

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The body where it is a JSON object; otherwise empty."""
        try:
            value = self._decode_body
        except jsontext.JSONTextError:
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def result(self) -> Any:
        """``result`` of an enveloped body (core v08 section 5.7), else the whole body; None if no JSON."""
        if self.encoded is not None:
            return self.encoded.value
        try:
            value = self._decode_body
        except jsontext.JSONTextError:
            return None
        return value["result"] if isinstance(value, dict) and "result" in value else value

    def _word(self, *names: str) -> str:
        """Return the first member of the body that is a text, or of its ``error``, where that is an object."""
        error = self.document.get("error")
        for members in (self.document, error if isinstance(error, dict) else {}):
            for name in names:
                value = members.get(name)
                if isinstance(value, str):
                    return value
        return ""

    @property
    def reason(self) -> str:
        """The stable token of a refusal; empty where there is none. Servers name the member in four ways."""
        return self._word("reason", "error", "code", "type")

    @property
    def explanation(self) -> str:
        """The server's sentence about a refusal, therefore untrusted; may be empty."""
        return self._word("explanation", "message", "detail")

    @property
    def remedy(self) -> str:
        """The server's advice on how to make a refused call succeed; may be empty."""
        return self._word("remedy")

    @property
    def particulars(self) -> tuple[str, ...]:
        """Further details of a refusal, where they are short: which field, which scope, which name."""
        return tuple(particulars_of(self.document))

    def raise_for_status(self) -> Reply:
        """
        Return the reply itself, if the host did what was asked.

        :raises agtphost.client.ApprovalRequired: if a person has to approve the call first.
        :raises agtphost.client.CallRefused: for every other answer that is not a success.
        """
        if self.ok:
            return self
        raise CallRefused(self) if self.approval is None else ApprovalRequired(self)

    @property
    def record(self) -> str | None:
        """Return the Attribution-Record as JWS Compact, unverified."""
        return self.headers.get("attribution-record")

    @property
    def audit_id(self) -> str | None:
        """The Audit-ID header, unverified."""
        if self.own:
            # As this process spells it: finding one field takes no index of all of them.
            for name, value in self.headers.fields:
                if name == "Audit-ID":
                    return value
            return None
        return self.headers.get("audit-id")

    @property
    def server_id(self) -> str | None:
        """The Server-ID header, unverified."""
        return self.headers.get("server-id")

    @property
    def task_id(self) -> str | None:
        """The Task-ID header."""
        return self.headers.get("task-id")

    @property
    def retry_after(self) -> float | None:
        """Seconds, from Retry-After; None where it is absent or no plain number."""
        value = self.headers.get("retry-after")
        return float(value) if value is not None and value.isascii() and value.isdigit() else None

    def verify(self, keys: Mapping[str, VerifyingKey], require_signature: bool = True) -> Verification:
        """
        Check the record, and that it is the record of this very exchange.

        :param keys: who may have signed, by ``kid``.
        :param require_signature: False lets an unsigned record pass the signature check; it proves nothing.
        """
        evidence = Evidence(
            status=self.status,
            headers=self.headers,
            body=self.body,
            request_line=self.request_line,
            request_body=self.request_body,
            agent_id=self.agent_id,
        )
        return verify(evidence, keys, require_signature=require_signature)

    # For terminals: everything a terminal would obey is escaped.

    @property
    def printable_head(self) -> str:
        """Status line and header fields, one a line."""
        lines = [f"AGTP/1.0 {self.status} {self.text}", *(f"{name}: {value}" for name, value in self.headers)]
        return "\n".join(escape(line) for line in lines)

    @property
    def printable_body(self) -> str:
        """The body as text; line ends and tabs stay."""
        return escape_octets(self.body)


def particulars_of(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on the details of a refusal, where they are short."""
    faults = document.get("faults")
    for fault in faults[:MOST_PARTICULARS] if isinstance(faults, list) else ():
        if isinstance(fault, dict):
            yield f"{fault.get('path') or '/'}: {fault.get('message', '')}"
    for member, words in PARTICULARS.items():
        given = document.get(member)
        if isinstance(given, list) and given and all(isinstance(each, str) for each in given):
            shown = given[:MOST_PARTICULARS]
            yield f"{words}: {', '.join(shown)}{', ...' if len(given) > len(shown) else ''}"
    if isinstance(document.get("said"), str) and document["said"]:
        yield f"they say: {document['said']}"


def is_interim(status: int, headers: Headers) -> bool:
    """Return whether a response is followed by another one to the same request: design decision 11."""
    return status == Status.ACCEPTED and "continuation-token" in headers


def reply_of(
    response: Response, *, line: bytes, body: bytes, agent_id: str | None, interims: int, caller_id: str | None = None
) -> Reply:
    """
    Return a reply from what the wire yielded.

    :param line: the request line that was sent, CRLF included.
    :param body: the request body that was sent.
    """
    return Reply(
        status=response.status,
        text=response.text,
        headers=response.headers,
        body=response.body,
        request_line=line,
        request_body=body,
        agent_id=agent_id,
        caller_id=caller_id,
        interims=interims,
        own=response.own,
        encoded=response.result,
    )
