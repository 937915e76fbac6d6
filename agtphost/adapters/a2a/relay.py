"""
Carry whole A2A operations from the front to an agent behind the host; :mod:`.relay_requests` translates their ids.

Each operation is a separate action, so that every gate decides about it and its record names it. The agent's answers go
to the client, errors included; only the owner of the task is kept.
"""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from twisted.internet.defer import CancelledError
from zope.interface import implementer

from agtphost.adapters.a2a import relay_requests
from agtphost.adapters.a2a.agent import A2AAgent, CallOptions
from agtphost.adapters.a2a.card import REST
from agtphost.adapters.a2a.dialects import A2aOperation
from agtphost.adapters.a2a.front_tasks import client_key
from agtphost.adapters.a2a.handlers import A2aAction
from agtphost.adapters.a2a.messages import FORWARDED
from agtphost.adapters.a2a.relay_requests import RelayClient, RelayRequest, TaskNews, make_error
from agtphost.adapters.a2a.tasks import task_in
from agtphost.adapters.callers import agent_of, caller_of, is_forwarded, owner_of
from agtphost.audit.drafts import Change
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.identity.peer import Withdrawable
from agtphost.upstream.failures import CallCancelled, UnreadableAnswer, UpstreamFailure
from agtphost.upstream.ownership import OwnedTask, TaskOwnership
from agtphost.vocabulary import a2a_errors, jsontext
from agtphost.vocabulary.a2a_push import missing_member

PREFIX = "a2a.relay."

ACTIONS: Mapping[str, A2aOperation] = {f"{PREFIX}{operation.value[0]}": operation for operation in A2aOperation}
"""The operations by their actions."""

READ_OPERATIONS = frozenset(
    {A2aOperation.GET, A2aOperation.LIST, A2aOperation.SUBSCRIBE, A2aOperation.EXTENDED_CARD}
    | {A2aOperation.PUSH_GET, A2aOperation.PUSH_LIST}
)

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "agent": {"type": "string"},
        "params": {"type": "object"},
        "binding": {"enum": ["JSONRPC", "HTTP+JSON", ""]},
        "extensions": {"type": "string", "maxLength": 4096, "pattern": "^[\\x20-\\x7e]*$"},
    },
    "required": ["params"],
    "additionalProperties": False,
}

PUSH_OPERATIONS = frozenset(
    {A2aOperation.PUSH_CREATE, A2aOperation.PUSH_GET, A2aOperation.PUSH_LIST, A2aOperation.PUSH_DELETE}
)
"""Operations on push notification configurations."""

NO_PUSH = "Push notifications are not supported by the agent"

MOST_PER_CLIENT = 200
"""Tasks of one client of the front with one agent; with more, its oldest is forgotten."""

MOST_OF_ALL = 950
"""Tasks of all clients that call in one agent's name; with more, the oldest of the client with most is forgotten."""

MOST_PAGES = 20
"""Pages of the agent's tasks that are read for one page of a client's tasks."""

LONGEST_PAGE = 100


def _client_of(context: BuiltInContext, links: TaskOwnership, upstream: str) -> RelayClient:
    owner = owner_of(context)
    link = context.peer.link if context.peer is not None else None
    client = link.client if isinstance(link, Withdrawable) else ""
    by_path = context.input.get("binding") == REST
    return RelayClient(
        links=links,
        upstream=upstream,
        owner=owner,
        client="" if client == client_key(agent_of(context)) else client,
        malformed=a2a_errors.INVALID_REQUEST if by_path else a2a_errors.INVALID_PARAMS,
    )


@implementer(IBuiltInHandler)
class A2aRelay(A2aAction):
    """The handler of one operation, asked of the agent for a client."""

    def __init__(self, agent: A2AAgent, links: TaskOwnership, operation: A2aOperation) -> None:
        super().__init__(agent, links)
        self._operation = operation

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Send the operation to the agent.

        :return: its answer, as ``response``; a stream's events are interim messages.
        :raises agtphost.errors.Refusal: with the error of the agent, or of A2A where the host refuses, as
            ``result.error``.
        """
        operation, given = self._operation, context.input
        whose = _client_of(context, self._links, self._name)
        spoken = CallOptions(binding=str(given.get("binding", "")), extensions=str(given.get("extensions", "")))
        link: OwnedTask | None = None
        try:
            if operation in PUSH_OPERATIONS:
                self._require_pushing(given["params"])
            asked = relay_requests.read(operation, given["params"], whose)
            link = asked.link
            self._require(asked)
            told = self._agent.settings.forward_identity and is_forwarded(context)
            if told and operation in (A2aOperation.SEND, A2aOperation.STREAM):
                metadata = asked.params.get("metadata")
                known = metadata if isinstance(metadata, dict) else {}
                asked.params["metadata"] = {**known, FORWARDED: agent_of(context)}
            if operation in (A2aOperation.STREAM, A2aOperation.SUBSCRIBE):
                return await self._stream(context, asked, whose, spoken)
            if operation is A2aOperation.LIST:
                return await self._list(context, asked, whose, spoken)
            seconds = self._seconds(context)
            result = await self._agent.ask(operation, asked.params, seconds, caller_of(context), spoken)
        except UpstreamFailure as failure:
            raise self._to_refusal(failure, link) from failure
        except CancelledError:
            raise self._to_refusal(CallCancelled(), link) from None
        return self._answer(context, asked, whose, result)

    def _require(self, asked: RelayRequest) -> None:
        """
        Check a request before it is sent to the agent.

        :raises agtphost.upstream.failures.ErrorAnswer: it names a URL that the operator has not allowed, or no task.
        """
        settings, card = self._agent.settings, self._agent.card
        able = card is None or card.push
        if isinstance(asked.pushed, dict) and able:
            if not settings.push_origins:
                raise make_error(a2a_errors.PUSH_UNSUPPORTED, NO_PUSH)
            if asked.pushed.get("url") and not relay_requests.may_push(asked.pushed["url"], settings.push_origins):
                raise make_error(
                    a2a_errors.INVALID_PARAMS, "The operator does not allow push notifications to that URL"
                )

    def _require_pushing(self, params: Mapping[str, Any]) -> None:
        """
        Refuse an incomplete request, and then every request if push is unavailable, before the task is checked.

        :raises agtphost.upstream.failures.ErrorAnswer: -32602, or -32003.
        """
        lacking = missing_member(self._operation.value[0], params)
        if lacking:
            raise make_error(a2a_errors.INVALID_PARAMS, f"{lacking} is missing")
        card = self._agent.card
        if not self._agent.settings.push_origins or not (card is None or card.push):
            raise make_error(a2a_errors.PUSH_UNSUPPORTED, NO_PUSH)

    def _answer(self, context: BuiltInContext, asked: RelayRequest, whose: RelayClient, result: Any) -> Answer:
        operation = self._operation
        if operation is A2aOperation.PUSH_DELETE:
            return Answer(result={"response": None})
        if not isinstance(result, dict):
            raise self._to_refusal(UnreadableAnswer("its result is not an object"))
        if operation is A2aOperation.SEND:
            heard = relay_requests.read_news(result)
        elif operation in (A2aOperation.GET, A2aOperation.CANCEL):
            try:
                result = task_in(result)
            except UpstreamFailure as failure:
                raise self._to_refusal(failure) from failure
            heard = relay_requests.read_task_news(result)
        else:
            return Answer(result={"response": result})
        link = self._link(context, asked, whose, heard)
        if link is None:
            return Answer(result={"response": result})
        return Answer(
            result={"response": relay_requests.rename_context(result, link.conversation, link.shown)},
            changes=self._changes(link),
            extra={"a2a_task_id": link.remote_id, "a2a_state": link.state},
        )

    def _link(
        self, context: BuiltInContext, asked: RelayRequest, whose: RelayClient, heard: TaskNews
    ) -> OwnedTask | None:
        """Return the link to keep for an answer; None where it names neither a task nor a conversation."""
        known = asked.link
        if known is not None and heard.task_id in ("", known.remote_id):
            return _with_news(known, heard)
        if not heard.task_id and not heard.context:
            return None
        named = asked.context != "" and heard.context in ("", asked.context)
        return OwnedTask(
            owner=whose.owner,
            agent_id=agent_of(context),
            upstream=self._name,
            remote_id=heard.task_id,
            task_id=context.task_id or secrets.token_hex(16),
            conversation=asked.context if named else heard.context,
            shown=asked.shown if named and asked.shown != asked.context else "",
            session_id="",
            state=heard.state,
            client=whose.client,
        )

    def _changes(self, link: OwnedTask) -> tuple[Change, ...]:
        """Return the changes that store a link, and make room for it."""
        kept = self._links.changes(link)
        gone = make_room(self._links, link) if link.client and kept else None
        return kept if gone is None else (gone, *kept)

    # Streams

    async def _stream(
        self, context: BuiltInContext, asked: RelayRequest, whose: RelayClient, spoken: CallOptions
    ) -> Answer:
        link = asked.link

        async def take(event: Any) -> None:
            nonlocal link
            heard = relay_requests.read_news(event)
            if link is None:
                link = self._link(context, asked, whose, heard)
                if link is not None and link.remote_id:
                    # Make the task durable before the client learns of it: with its id the client can continue it.
                    told = {"type": "a2a.task", "task_id": link.task_id, "a2a_task_id": link.remote_id}
                    record = {"a2a_task_id": link.remote_id}
                    await context.invocation.commit(told, self._changes(link), record)
            elif heard.task_id == link.remote_id:
                link = _with_news(link, heard)
            shown = event if link is None else relay_requests.rename_context(event, link.conversation, link.shown)
            await context.emit({"type": "a2a.event", "event": shown})

        seconds, caller = self._seconds(context), caller_of(context)
        streaming = self._agent.stream(self._operation, asked.params, seconds, take, caller, spoken)
        await self._await_outcome(streaming, lambda: link)
        if link is None:
            return Answer(result={"response": None})
        return Answer(
            result={"response": None},
            changes=self._changes(link),
            extra={"a2a_task_id": link.remote_id, "a2a_state": link.state},
        )

    # Lists

    async def _list(
        self, context: BuiltInContext, asked: RelayRequest, whose: RelayClient, spoken: CallOptions
    ) -> Answer:
        """
        Return a page of the client's tasks: the agent knows this host as one client, and lists the tasks of all.

        A token has the agent's own token, and the number of tasks of its page that were shown already.
        """
        own = {link.remote_id: link for link in whose.all() if link.remote_id}
        params = dict(asked.params)
        size = params.get("pageSize")
        wanted = size if type(size) is int and 0 < size <= LONGEST_PAGE else None
        token, skip = _unpack_token(params.get("pageToken"))
        began, more = not token and not skip, ""
        found: list[dict[str, Any]] = []
        told: dict[str, Any] = {}
        for page in range(MOST_PAGES):
            params["pageToken"] = token
            if not token:
                del params["pageToken"]
            result = await self._agent.ask(
                A2aOperation.LIST, params, self._seconds(context), caller_of(context), spoken
            )
            tasks, following = _page_of(result)
            told = told or result
            wanted = wanted if wanted is not None else _size_of(result)
            mine = [(place, task) for place, task in enumerate(tasks) if place >= skip and task.get("id") in own]
            room = wanted - len(found)
            found += [task for _, task in mine[:room]]
            if len(mine) > room:
                more = _pack_token(token, mine[room][0])
                break
            token, skip = following, 0
            more = _pack_token(token, 0) if token else ""
            if not token or len(found) == wanted or page + 1 == MOST_PAGES:
                break
        links = [_with_news(own[task["id"]], relay_requests.read_task_news(task)) for task in found]
        changes = [change for link in links for change in self._links.changes(link)]
        shown = [
            relay_requests.rename_context(task, link.conversation, link.shown)
            for task, link in zip(found, links, strict=True)
        ]
        total = len(shown) if began and not more else _total(own.values(), params)
        response = {**told, "tasks": shown, "nextPageToken": more, "totalSize": max(total, len(shown))}
        return Answer(result={"response": response}, changes=tuple(changes))


def make_room(links: TaskOwnership, new: OwnedTask) -> Change | None:
    """Return the change that forgets a link to make room for a client's new one; None where there is room."""
    of_client: dict[str, list[OwnedTask]] = {}
    for link in links.list_all_of(new.owner):
        if link.key == new.key:
            return None
        of_client.setdefault(link.client, []).append(link)
    own = of_client.get(new.client, [])
    if len(own) >= MOST_PER_CLIENT:
        return links.removal(own[0])
    if sum(map(len, of_client.values())) < MOST_OF_ALL:
        return None
    # The client with most tasks makes room, so that no client loses its tasks to one that has more.
    most = max((each for client, each in of_client.items() if client), key=len, default=None)
    return None if most is None else links.removal(most[0])


def _with_news(link: OwnedTask, heard: TaskNews) -> OwnedTask:
    """Return a link with the news of its task."""
    return replace(link, conversation=link.conversation or heard.context, state=heard.state or link.state)


def _page_of(result: Any) -> tuple[list[dict[str, Any]], str]:
    """Return the tasks of an answer to ListTasks, and the token of the next page."""
    tasks = result.get("tasks", []) if isinstance(result, dict) else None
    following = result.get("nextPageToken", "") if isinstance(result, dict) else ""
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise UnreadableAnswer("its list of tasks is malformed")
    return tasks, following if isinstance(following, str) else ""


def _size_of(result: Mapping[str, Any]) -> int:
    size = result.get("pageSize")
    return size if type(size) is int and 0 < size <= LONGEST_PAGE else 50


def _total(links: Any, params: Mapping[str, Any]) -> int:
    """Return how many tasks a client has, by their last known states."""
    context, state = params.get("contextId"), params.get("status")
    return sum(
        context in (None, "", link.conversation) and state in (None, "", "TASK_STATE_UNSPECIFIED", link.state)
        for link in links
    )


def _pack_token(token: str, skip: int) -> str:
    return urlsafe_b64encode(jsontext.encode([token, skip])).decode("ascii")


def _unpack_token(value: Any) -> tuple[str, int]:
    """
    Return the agent's token and the place in its page, from a token that :func:`_pack_token` made.

    :raises agtphost.upstream.failures.ErrorAnswer: -32602 for any other.
    """
    if value is None or value == "":
        return "", 0
    try:
        token, skip = jsontext.decode(urlsafe_b64decode(str(value).encode("ascii")))
    except (ValueError, TypeError, jsontext.JSONTextError):
        token, skip = None, None
    if not isinstance(token, str) or type(skip) is not int or not 0 <= skip <= LONGEST_PAGE:
        raise make_error(a2a_errors.INVALID_PARAMS, "Invalid page token")
    return token, skip
