"""Send requests of the page to the dispatcher, in the name of the person who uses it."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred, gatherResults

from agtphost.iagtp import IDispatcher
from agtphost.page.entrance import PageSession
from agtphost.vocabulary import jsontext, media_types
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Headers

REFUSING_2XX = 262
"""The status Authorization-Required: a refusal among the successes of AGTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReply:
    """The host's answer to a request of the page."""

    status: int
    result: Mapping[str, Any]
    """The result of a success, or its body without an envelope; empty for a refusal."""

    document: Mapping[str, Any]
    """The whole body."""

    audit_id: str
    continuation: str = ""
    """The Continuation-Token of an incomplete list."""

    @property
    def ok(self) -> bool:
        """Return whether the request succeeded."""
        return 200 <= self.status < 300 and self.status != REFUSING_2XX

    def word(self, *names: str) -> str:
        """Return the first of these members of a refusal that is a string."""
        error = self.document.get("error")
        for members in (self.document, error if isinstance(error, dict) else {}):
            for name in names:
                if isinstance(members.get(name), str):
                    return str(members[name])
        return ""

    @property
    def reason(self) -> str:
        """Return the reason token of a refusal."""
        return self.word("reason", "error")

    @property
    def explanation(self) -> str:
        """Return the explanation of a refusal, one sentence."""
        return self.word("explanation", "message")

    @property
    def remedy(self) -> str:
        """Return the remedy of a refusal; may be empty."""
        return self.word("remedy")

    def entries(self, name: str) -> list[Mapping[str, Any]]:
        """Return the objects of a list in the result."""
        found = self.result.get(name)
        return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def reply_of(response: Response) -> PageReply:
    """Return a response as a :class:`PageReply`."""
    try:
        body = jsontext.decode(response.body) if response.body else {}
    except jsontext.JSONTextError:
        body = {}
    document: Mapping[str, Any] = body if isinstance(body, dict) else {"result": {"items": body}}
    refused = not 200 <= response.status < 300 or response.status == REFUSING_2XX
    result = document.get("result", document)
    return PageReply(
        status=response.status,
        result=result if isinstance(result, dict) and not refused else {},
        document=document,
        audit_id=response.audit_id,
        continuation=response.headers.get("continuation-token") or "",
    )


def reply_among(answer: Mapping[str, Any], audit_id: str) -> PageReply:
    """
    Return one of the answers of an INSPECT with several questions.

    :param audit_id: of the record of all of them.
    """
    status = int(answer.get("status") or 0)
    result = answer.get("result")
    return PageReply(
        status=status,
        result=result if isinstance(result, dict) else {},
        document=answer,
        audit_id=audit_id,
        continuation=str(answer.get("continuation_token") or ""),
    )


class PersonClient:
    """
    A client of the dispatcher that asks in the name of one person.

    :param address: of that person's browser.
    """

    def __init__(self, dispatcher: IDispatcher, session: PageSession, address: str) -> None:
        self._dispatcher = dispatcher
        self._session = session
        self._address = address

    async def ask(
        self, method: str, path: str = "/", given: Mapping[str, Any] | None = None, rights_of: str = ""
    ) -> PageReply:
        """
        Send a request, which is recorded like any other.

        :param rights_of: the Agent-ID with whose rights it is judged (:mod:`agtphost.dispatch.trial_calls`).
        """
        request = Request(
            method=method,
            path=path,
            headers=Headers([("Content-Type", media_types.AGTP_JSON)]),
            body=jsontext.encode({"method": method, "parameters": dict(given or {})}),
            line=f"AGTP/1.0 {method} {path}\r\n".encode("ascii"),
        )
        response: Response = await self._dispatcher.dispatch(request, self._session.peer(self._address, rights_of))
        return reply_of(response)

    def inspect(self, target: str, **given: Any) -> PageQuestion:
        """Return an INSPECT without the parameters that are None; it is sent when it is awaited or gathered."""
        named = {name: value for name, value in given.items() if value is not None}
        return PageQuestion(self, {"target": target, **named})

    async def inspect_several(self, questions: Sequence[PageQuestion]) -> list[PageReply]:
        """Send questions in one request, which is one record, and return their answers."""
        if len(questions) == 1:
            return [await questions[0]]
        asked = [question.given for question in questions]
        reply = await self.ask("INSPECT", "/", {"target": "several", "questions": asked})
        answers = reply.entries("answers")
        return [reply_among(each, reply.audit_id) for each in answers] if reply.ok else [reply] * len(questions)


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """An INSPECT that has not been sent yet; to await it sends it alone."""

    client: PersonClient
    given: Mapping[str, Any]

    def __await__(self) -> Generator[Any, Any, PageReply]:
        return self.client.ask("INSPECT", "/", self.given).__await__()


async def gather_replies(*waiting: Awaitable[PageReply]) -> list[PageReply]:
    """
    Return several answers, requested concurrently.

    Those of INSPECT are asked for in one request, so that a view is one record and not ten.
    """
    questions = [each for each in waiting if isinstance(each, PageQuestion)]
    others = [each for each in waiting if not isinstance(each, PageQuestion)]
    several = questions[0].client.inspect_several(questions) if questions else _answer_nothing()
    found: list[Any] = await gatherResults([Deferred.fromCoroutine(each) for each in (several, *others)])  # type: ignore[arg-type]
    answers, replies = iter(found[0]), iter(found[1:])
    return [next(answers) if isinstance(each, PageQuestion) else next(replies) for each in waiting]


async def _answer_nothing() -> list[PageReply]:
    return []
