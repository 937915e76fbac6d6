"""The handlers of the nine operations of ACP."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zope.interface import implementer

from agtphost.adapters import precedence, upstream_actions
from agtphost.adapters.acp.server import ACPServer
from agtphost.adapters.callers import agent_of, caller_of, owner_of
from agtphost.errors import Refusal, not_found
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.upstream.failures import UnreadableAnswer
from agtphost.upstream.ownership import OwnedTask, TaskOwnership, is_remote_id
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

AWAITING = "awaiting"
FAILED = "failed"
TERMINAL = frozenset({"completed", "cancelled", FAILED})
MODES = ("sync", "async", "stream")


class _AcpAction(upstream_actions.UpstreamAction):
    """The common part of the handlers for one server."""

    kind = "acp"
    remote_id_member = "acp_run_id"

    def __init__(self, server: ACPServer, links: TaskOwnership) -> None:
        super().__init__(server, links)
        self._server = server

    async def _call_server(
        self, context: BuiltInContext, method: str, path: tuple[str, ...], body: object = None
    ) -> Any:
        return await self._await_outcome(
            self._server.ask(method, path, self._seconds(context), body, caller_of(context))
        )

    def _find_link(self, context: BuiltInContext) -> OwnedTask:
        """Return the run that a request is about: ``run_id`` of its payload, or else its Task-ID."""
        owner, given = owner_of(context), context.input.get("run_id")
        links = self._links
        if given is None:
            link = links.by_task(owner, self._name, context.task_id)
        else:
            link = links.by_remote(owner, self._name, given) or links.by_task(owner, self._name, given)
        if link is None:
            raise not_found(Reason.UNKNOWN_RUN)
        return link

    def _check_run(self, value: Any, link: OwnedTask | None = None) -> dict[str, Any]:
        proper = isinstance(value, dict) and is_remote_id(value.get("run_id")) and isinstance(value.get("status"), str)
        if not proper or (link is not None and value["run_id"] != link.remote_id):
            raise self._to_refusal(UnreadableAnswer("its answer is not the run that was asked for"))
        run: dict[str, Any] = value
        return run

    def _answer(
        self, context: BuiltInContext, run: Mapping[str, Any], link: OwnedTask, extra: Mapping[str, object]
    ) -> Answer:
        changes = self._links.changes(link)
        record = {**extra, "acp_run_id": link.remote_id, "acp_state": link.state}
        result: dict[str, Any] = {"run": run, "task_id": link.task_id, "acp_run_id": link.remote_id}
        if link.state == FAILED:
            raise Refusal(
                Reason.ACP_RUN_FAILED, details={"upstream": self._name, "result": result}, changes=changes, extra=record
            )
        if link.state == AWAITING:
            result["resultType"] = "input_required"
            result["inputRequests"] = {"await": run.get("await_request")}
            result["requestState"] = link.remote_id
        return Answer(
            result=result,
            status=Status.OK if link.state in TERMINAL else Status.ACCEPTED,
            headers=() if context.task_id is not None else (("Task-ID", link.task_id),),
            changes=changes,
            extra=record,
        )

    def _update_link(self, run: Mapping[str, Any], link: OwnedTask) -> OwnedTask:
        return replace(link, state=str(run["status"])[:32])


class _RunExecution(_AcpAction):
    """The common part of the handlers that begin or resume a run, in one of its three modes."""

    async def _perform(
        self,
        context: BuiltInContext,
        path: tuple[str, ...],
        body: Mapping[str, Any],
        mode: str,
        link: OwnedTask | None,
        begun: Any,
        extra: Mapping[str, object],
    ) -> Answer:
        """
        Begin or resume a run.

        A run whose end is waited for is followed as a stream. The stream names the run before it ends, so that the run
        can be cancelled if its caller is stopped before that. The caller gets the events only if it asked for a stream.

        :param begun: makes the link of a run that was just created.
        """
        if mode == "sync" and link is None:
            mode, body = "stream", {**body, "mode": "stream"}
        if mode != "stream":
            run = self._check_run(await self._call_server(context, "POST", path, body), link)
            return self._answer(context, run, self._update_link(run, link or begun(run)), extra)
        known = link
        last: dict[str, Any] = {}
        output: list[Any] = []

        async def take(event: Any) -> None:
            nonlocal known, last
            if not isinstance(event, dict) or not isinstance(event.get("type"), str):
                raise UnreadableAnswer("it sent a malformed event")
            if isinstance(event.get("run"), dict):
                last = self._check_run(event["run"], known)
                if known is None:
                    # Make the run durable before the caller learns of it: a crash in the middle loses the stream, not
                    # the run.
                    known = begun(last)
                    told = {"type": "acp.run", "task_id": known.task_id, "acp_run_id": known.remote_id}
                    await context.invocation.commit(told, self._links.changes(known), {"acp_run_id": known.remote_id})
            elif event["type"] == "message.completed":
                output.append(event.get("message"))
            elif event["type"] == "error":
                last = {**last, "status": FAILED, "error": event.get("error")}
            await context.emit({"type": "acp.event", "event": event})

        streaming = self._server.stream(path, self._seconds(context), body, take, caller_of(context))
        await self._await_outcome(streaming, lambda: known)
        if known is None or not last:
            raise self._to_refusal(UnreadableAnswer("its stream had no run"))
        if output and not last.get("output"):
            last["output"] = output
        return self._answer(context, last, self._update_link(last, known), extra)


@implementer(IBuiltInHandler)
class CreateRun(_RunExecution):
    """The handler of ``acp.runs.create``: POST /runs; with ``inputResponses``, an answer to the run that awaits one."""

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Begin a run, once.

        :raises Refusal: see :mod:`agtphost.upstream.refusals`; 503 for an agent whose manifest changed.
        """
        payload = context.input
        contradicted = precedence.differences(context, payload, payload.get("metadata"))
        extra = self._note(contradicted, context)
        if "inputResponses" in payload:
            return await self._resume(context, extra)
        agent = await self._agent(context)
        if not isinstance(payload.get("input"), list) or not payload["input"]:
            raise _payload_refusal("The payload has no input.", 'Send {"input": [{"parts": [{"content": "..."}]}]}.')
        if "session" in payload:
            raise Refusal(
                Reason.CALLBACK_REFUSED,
                "A request cannot bring a session whose history is fetched from URLs.",
                remedy="Send the Session-ID of the session.",
            )
        mode = _mode(context)
        body: dict[str, Any] = {"agent_name": agent, "input": payload["input"], "mode": mode}
        session = ""
        if context.session_id is not None:
            session = self._links.find_conversation(owner_of(context), self._name, context.session_id)
            body["session_id"] = session = session or str(uuid.uuid4())
        task_id = context.task_id or secrets.token_hex(16)

        def make_link(run: Mapping[str, Any]) -> OwnedTask:
            told = run.get("session_id")
            return OwnedTask(
                owner=owner_of(context),
                agent_id=agent_of(context),
                upstream=self._name,
                remote_id=str(run["run_id"]),
                task_id=task_id,
                conversation=session or (str(told) if is_remote_id(told) else ""),
                session_id=context.session_id or "",
                state=str(run["status"])[:32],
            )

        return await self._perform(context, ("runs",), body, mode, None, make_link, extra)

    async def _resume(self, context: BuiltInContext, extra: Mapping[str, object]) -> Answer:
        responses, state = context.input["inputResponses"], context.input.get("requestState")
        link = self._links.by_task(owner_of(context), self._name, context.task_id)
        answer = responses.get("await") if isinstance(responses, dict) else None
        if link is None or link.state != AWAITING or (state is not None and state != link.remote_id):
            raise Refusal(
                Reason.STALE_REQUEST_STATE,
                "No run of this Task-ID waits for this answer.",
                remedy="Read the run with acp.runs.get, and answer what it asks now.",
            )
        mode = _mode(context)
        body = {"await_resume": _await_resume(answer), "mode": mode}
        return await self._perform(context, ("runs", link.remote_id), body, mode, link, None, extra)

    async def _agent(self, context: BuiltInContext) -> str:
        server = self._server
        given = context.input.get("agent_name")
        if not server.manifests and not server.changed:
            await self._await_description(context)
        names = sorted(server.manifests)
        if given is None and len(names) == 1:
            return names[0]
        if isinstance(given, str) and given in server.manifests:
            return given
        if given in server.changed:
            raise Refusal(Reason.ACP_MANIFEST_CHANGED)
        if given is None:
            raise Refusal(
                Reason.AMBIGUOUS_AGENT,
                "The server has several agents, and the payload names none.",
                remedy="Name one as payload.agent_name.",
                details={"candidates": names},
            )
        raise Refusal(Reason.UNKNOWN_ACP_AGENT, details={"acp_agents": names})


@implementer(IBuiltInHandler)
class ResumeRun(_RunExecution):
    """The handler of ``acp.runs.resume``: POST /runs/{run_id}."""

    async def handle(self, context: BuiltInContext) -> Answer:
        """Answer the question of one of the caller's own runs."""
        link = self._find_link(context)
        mode = _mode(context)
        body = {"await_resume": _await_resume(context.input.get("await_resume")), "mode": mode}
        return await self._perform(context, ("runs", link.remote_id), body, mode, link, None, {})


@implementer(IBuiltInHandler)
class RunAction(_AcpAction):
    """The handler of ``acp.runs.get`` and ``acp.runs.cancel``."""

    def __init__(self, server: ACPServer, links: TaskOwnership, *, cancel: bool) -> None:
        super().__init__(server, links)
        self._cancel = cancel

    async def handle(self, context: BuiltInContext) -> Answer:
        """Read or cancel one of the caller's own runs."""
        link = self._find_link(context)
        if self._cancel:
            value = await self._call_server(context, "POST", ("runs", link.remote_id, "cancel"))
        else:
            value = await self._call_server(context, "GET", ("runs", link.remote_id))
        run = self._check_run(value, link)
        after = self._update_link(run, link)
        return Answer(
            result={"run": run, "task_id": link.task_id, "acp_run_id": link.remote_id},
            status=Status.ACCEPTED if self._cancel and after.state not in TERMINAL else Status.OK,
            changes=self._links.changes(after),
            extra={"acp_run_id": link.remote_id, "acp_state": after.state},
        )


@implementer(IBuiltInHandler)
class RunEvents(_AcpAction):
    """The handler of ``acp.runs.events``: GET /runs/{run_id}/events."""

    async def handle(self, context: BuiltInContext) -> Answer:
        """Return the events of one of the caller's own runs."""
        link = self._find_link(context)
        value = await self._call_server(context, "GET", ("runs", link.remote_id, "events"))
        events = value.get("events") if isinstance(value, dict) else None
        if not isinstance(events, list):
            raise self._to_refusal(UnreadableAnswer("its list of events is malformed"))
        return Answer(result={"events": events, "task_id": link.task_id, "acp_run_id": link.remote_id})


@implementer(IBuiltInHandler)
class ReadSession(_AcpAction):
    """The handler of ``acp.sessions.get``: GET /sessions/{session_id}, for the caller's own Session-ID."""

    async def handle(self, context: BuiltInContext) -> Answer:
        """Return the session as the server has it."""
        session = self._links.find_conversation(owner_of(context), self._name, context.session_id)
        if not session:
            raise not_found(Reason.UNKNOWN_SESSION)
        value = await self._call_server(context, "GET", ("sessions", session))
        return Answer(result={"session": value, "acp_session_id": session})


@implementer(IBuiltInHandler)
class Ping(_AcpAction):
    """The handler of ``acp.ping``: GET /ping."""

    async def handle(self, context: BuiltInContext) -> Answer:
        """Check that the server answers."""
        await self._call_server(context, "GET", ("ping",))
        return Answer(result={"pong": True})


@implementer(IBuiltInHandler)
class ReadAgents(_AcpAction):
    """The handler of ``acp.agents.list`` and ``acp.agents.get``: approved manifests only."""

    def __init__(self, server: ACPServer, links: TaskOwnership, *, one: bool) -> None:
        super().__init__(server, links)
        self._one = one

    async def handle(self, context: BuiltInContext) -> Answer:
        """Return the manifests of the agents that may be reached."""
        server = self._server
        if not server.manifests and not server.changed:
            await self._call_server(context, "GET", ("ping",))
        if not self._one:
            return Answer(result={"agents": [dict(manifest) for manifest in server.manifests.values()]})
        name = context.input.get("name", context.input.get("agent_name"))
        manifest = server.manifests.get(name) if isinstance(name, str) else None
        if manifest is None:
            raise Refusal(Reason.UNKNOWN_ACP_AGENT, details={"acp_agents": sorted(server.manifests)})
        return Answer(result={"agent": dict(manifest)})


def _mode(context: BuiltInContext) -> str:
    """Return the mode asked for; a caller of AGTP that wants a stream gets one."""
    asked = context.invocation is not None and context.invocation.exchange.context.get("stream") is True
    mode = context.input.get("mode", "stream" if asked else "sync")
    if mode not in MODES:
        raise _payload_refusal(f"The payload's mode {str(mode)[:64]!r} is unknown.", f"Use one of {', '.join(MODES)}.")
    return str(mode)


def _await_resume(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and isinstance(value.get("message"), dict):
        return {"type": "message", **value}
    raise _payload_refusal(
        "The payload has no answer to the run's question.",
        'Send {"message": {"parts": [{"content": "..."}]}} as await_resume, or as inputResponses.await.',
    )


def _payload_refusal(explanation: str, remedy: str) -> Refusal:
    return Refusal(Reason.INVALID_PAYLOAD, explanation, remedy=remedy)
