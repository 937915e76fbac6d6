"""
Grants, as AGTP knows them: AUTHORIZE, REVOKE and QUERY on ``/grants``.

Operators say what an agent may call here at most. Each change is a record, and applies from the agent's next request
on, on every connection. An agent can read its own grants.
"""

from __future__ import annotations

import difflib
import shlex
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.contract.grant_check import Grantable, NotGrantable
from agtphost.contract.grants import Grant, entry_of, stamp_of
from agtphost.contract.rights import GrantSet, format_grant, is_free, names_of
from agtphost.dispatch import cures
from agtphost.dispatch.rights import Rights
from agtphost.dispatch.scope_records import ScopeRecords
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.operators import OperatorAction
from agtphost.identity.agents import Agent
from agtphost.methods.rights import AgentRights
from agtphost.methods.scope_restatement import Restatement, read_restatement
from agtphost.vocabulary import scopes, times
from agtphost.vocabulary.grants import upstream_of
from agtphost.vocabulary.reasons import Reason

CALL = "call"
"""Scope of AUTHORIZE that limits: what is named may be called, and nothing else that is not granted."""

ALLOW = "allow"
"""Scope of AUTHORIZE that widens: what is named may be called as well."""

MOST_AT_ONCE = 64
"""Grants of one request."""

WHO = "Only administrators decide what an agent may call here."


@implementer(IBuiltInHandler)
class Granting:
    """
    The handler of AUTHORIZE, REVOKE and QUERY on ``/grants``.

    :param grantable: what there is to grant.
    :param statements: the scope statements on record.
    :param shown: tells the rights of an agent.
    :param known: every agent that the host knows.
    :param ask: waits until an upstream has listed its tools, or has failed to.
    :param contracts: methods and paths that an agent negotiated.
    """

    kind = "built_in"

    def __init__(
        self,
        rights: Rights,
        grantable: Grantable,
        statements: ScopeRecords,
        shown: AgentRights,
        known: Callable[[], Iterable[Agent]],
        authorization: Authorization,
        ask: Callable[[str], Awaitable[None]],
        contracts: Callable[[str], Iterable[tuple[str, str]]] = lambda agent_id: (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._rights = rights
        self._grantable = grantable
        self._statements = statements
        self._shown = shown
        self._known = known
        self._authorization = authorization
        self._ask = ask
        self._contracts = contracts
        self._now = now

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Answer a method on ``/grants``.

        :raises Refusal: 403 for those who say nothing here, 404 for agents that are not known, 422 for what cannot be.
        """
        if context.method == "QUERY":
            return await self._read(context)
        agent = self._find_managed_agent(context, parameters.require_text(context.input, "subject"))
        if context.method == "REVOKE":
            return self._take_back(context, agent)
        widens = parameters.choice(context.input, "scope", (CALL, ALLOW)) == ALLOW
        return await self._allow(context, agent) if widens else await self._grant(context, agent)

    # Who

    def _find_managed_agent(self, context: BuiltInContext, named: str) -> Agent:
        """
        Find the agent whose grants the caller changes or reads.

        :raises Refusal: 403 for all but operators and, where none are listed, who issued the agent: whether there is
            such an agent is revealed to operators. Never the agent itself.
        """
        if not (self._authorization.may(context, OperatorAction.GRANT) or self._is_issuer(context, named)):
            raise self._authorization.refuse(context, OperatorAction.GRANT, WHO)
        agent = self._agent(named)
        if context.caller is not None and context.caller.agent_id == agent.agent_id:
            raise Refusal(
                Reason.NOT_ENTITLED, "An agent cannot grant rights to itself.", remedy="Ask another operator."
            )
        return agent

    def _agent(self, named: str) -> Agent:
        found = [agent for agent in self._known() if named in (agent.agent_id, agent.name)]
        if len(found) > 1:
            listed = ", ".join(sorted(agent.agent_id for agent in found))
            raise parameters.invalid(
                "subject", f"{len(found)} agents have the name {named}.", f"Send the Agent-ID of one of them: {listed}."
            )
        if not found:
            near = difflib.get_close_matches(named[:64], sorted({agent.name for agent in self._known()}), 1)
            raise Refusal(
                Reason.AGENT_NOT_FOUND,
                f"No agent is known here as {named[:64]}.",
                remedy=f"{f'Did you mean {near[0]}? ' if near else ''}agtp agent ls lists them, and agtp reload admits "
                "those that were issued since.",
            )
        return found[0]

    # Granting

    async def _grant(self, context: BuiltInContext, agent: Agent) -> Answer:
        until, now = self._read_end(context), self._now()
        named = _read_resources(context.input)
        remarks = [remark for text in named if (remark := await self._remark_on(text, agent))]
        by, at = self._authorization.actor(context), times.stamp(now)
        grants = [
            Grant(agent_id=agent.agent_id, allow=text, until=until, by=by, at=at, operator=self._operator(context))
            for text in named
        ]
        first = not self._rights.is_narrowed(agent.agent_id)
        told = {"agent_id": agent.agent_id, "allow": named, "until": stamp_of(until), "by": by}
        kept = [grant for grant in self._rights.grants(agent.agent_id) if grant.allow not in named]
        return Answer(
            result={
                "agent_id": agent.agent_id,
                "label": agent.name,
                "narrowed": True,
                "first": first,
                "granted": [self._entry(grant) for grant in grants],
                "grants": [self._entry(grant) for grant in (*kept, *grants)],
                "remarks": remarks,
            },
            changes=tuple(self._rights.put(agent.agent_id, grants, agent.name)),
            extra={"granted": told},
        )

    def _read_end(self, context: BuiltInContext) -> float | None:
        until = parameters.moment(context.input, "until")
        if until is not None and until <= self._now():
            raise parameters.invalid("until", "The grant would have expired already.", "Send a time in the future.")
        return until

    # Allowing

    async def _allow(self, context: BuiltInContext, agent: Agent) -> Answer:
        """
        Let an agent call more than before; what it may call already stays.

        :raises Refusal: 409 ``statement-required`` if what is named asks for scopes that the agent lacks, and the
            request has no statement of its issuer that gives them.
        """
        until, now = self._read_end(context), self._now()
        restated = read_restatement(context.input, agent, self._statements, now)
        if restated is not None:
            lost = scopes.missing(restated.agent.scopes, sorted(agent.scopes))
            if lost:
                raise parameters.invalid(
                    "statement", f"The statement removes {', '.join(lost)} from the agent.", "REVOKE takes scopes back."
                )
        wanted = [] if restated is not None and not context.input.get("resource") else _read_resources(context.input)
        if until is not None and not wanted:
            raise parameters.invalid(
                "until",
                "A scope does not expire, so until cannot be used with it.",
                "Leave until out, or limit the agent.",
            )
        remarks = [remark for text in wanted if (remark := await self._remark_on(text, agent))]
        texts = self._texts_to_grant(agent, wanted, until)
        changed = agent if restated is None else restated.agent
        lacking = self._shown.missing_scopes(changed, wanted)
        if lacking:
            raise self._refuse_without_statement(agent, wanted, lacking, until)
        by, at = self._authorization.actor(context), times.stamp(now)
        grants = [
            Grant(agent_id=agent.agent_id, allow=text, until=until, by=by, at=at, operator=self._operator(context))
            for text in texts
        ]
        before = set(self._shown.callable_now(agent))
        changes = [*self._rights.put(agent.agent_id, grants, agent.name)] if grants else []
        extra: dict[str, Any] = {"allowed": {"agent_id": agent.agent_id, "allow": wanted, "by": by}}
        if grants:
            extra["granted"] = {
                "agent_id": agent.agent_id,
                "allow": [grant.allow for grant in grants],
                "until": stamp_of(until),
                "by": by,
            }
        if restated is not None:
            changes.append(self._restate(context, agent, restated, by, at))
            extra["scopes_stated"] = {"agent_id": agent.agent_id, **restated.fields(), "by": by}
        added = {grant.allow for grant in grants}
        kept = [grant for grant in self._rights.grants(agent.agent_id) if grant.allow not in added]
        narrowed = self._rights.is_narrowed(agent.agent_id)
        after = self._grantable.callable_with(
            changed.scopes,
            GrantSet(agent.agent_id, frozenset(each.allow for each in (*kept, *grants) if each.in_force(now)))
            if narrowed
            else None,
        )
        return Answer(
            result={
                "agent_id": agent.agent_id,
                "label": agent.name,
                "narrowed": narrowed,
                "changed": bool(changes),
                "granted": [self._entry(grant) for grant in grants],
                "grants": [self._entry(grant) for grant in (*kept, *grants)],
                "scopes_added": list(scopes.missing(agent.scopes, sorted(changed.scopes))),
                "newly_callable": [name for name in after if name not in before],
                "may_call_count": len(after),
                "remarks": remarks,
            },
            changes=tuple(changes),
            extra=extra,
        )

    def _refuse_without_statement(
        self, agent: Agent, wanted: Sequence[str], lacking: Sequence[str], until: float | None
    ) -> Refusal:
        """Return the refusal of things that ask for scopes which an agent lacks, with the command that gives them."""
        refusal = Refusal(
            Reason.STATEMENT_REQUIRED,
            f"{agent.name} lacks {', '.join(lacking)}, which {', '.join(wanted)} asks for.",
            details={"missing_scopes": lacking, "number": self._statements.number(agent.agent_id)},
        )
        shared = sum(each.name == agent.name for each in self._known()) > 1
        words = [agent.agent_id if shared else agent.name, *wanted]
        # Without its end the right would last longer than was asked for.
        end = () if until is None else ("--until", times.stamp(until))
        command = shlex.join(["agtp", "agent", "allow", *words, *end])
        return cures.add(refusal, "Type this on the machine that has the registrar's key", command)

    def _restate(self, context: BuiltInContext, agent: Agent, restated: Restatement, by: str, at: str) -> Change:
        return self._statements.change(
            agent, restated.statement, restated.document, by=by, operator=self._operator(context), at=at
        )

    def _operator(self, context: BuiltInContext) -> str:
        """Return the name of the calling operator; empty for an issuer without a role."""
        found = self._authorization.operator(context)
        return "" if found is None else found.name

    def _texts_to_grant(self, agent: Agent, wanted: Iterable[str], until: float | None) -> list[str]:
        """
        Return what a limited agent has to be granted to call what is wanted; nothing for an agent without limits.

        What is wanted may call something else in turn, which needs a grant as well. A grant that lasts longer stays.

        :raises Refusal: 422 for an end of what an agent without limits may call.
        """
        if not self._rights.is_narrowed(agent.agent_id):
            if until is not None:
                raise parameters.invalid(
                    "until",
                    f"{agent.name} has no limits, so nothing that it may call can end.",
                    "Limit it first: agtp agent limit.",
                )
            return []
        now = self._now()
        lasting = [
            grant
            for grant in self._rights.grants(agent.agent_id)
            if grant.in_force(now) and (grant.until is None or (until is not None and grant.until >= until))
        ]
        covered = GrantSet(agent.agent_id, frozenset(grant.allow for grant in lasting))
        texts = [text for text in wanted if text not in covered.grants and not covered.names((text,))]
        asked = GrantSet(agent.agent_id, frozenset(wanted))
        texts += [
            format_grant(each)
            for each in self._grantable.find(wanted)
            if not is_free(each) and not asked.names(names_of(each)) and not covered.names(names_of(each))
        ]
        return list(dict.fromkeys(texts))

    async def _remark_on(self, text: str, agent: Agent) -> str:
        """Return a remark on a grant, or empty text; ask a server first that has not listed its tools yet."""
        try:
            contracts = self._contracts(agent.agent_id)
            remark = self._grantable.remark(text, contracts)
            upstream = upstream_of(text)
            if remark and upstream is not None:
                await self._ask(upstream[0])
                remark = self._grantable.remark(text, contracts)
            return remark
        except NotGrantable as error:
            meant = f"Did you mean {', '.join(error.close)}?" if error.close else None
            said = str(error)
            raise Refusal(
                Reason.NOTHING_TO_GRANT,
                f"{said[:1].upper()}{said[1:]}.",
                remedy=meant,
                details={"parameter": "resource", "close_matches": list(error.close)},
            ) from None

    # Taking back

    def _take_back(self, context: BuiltInContext, agent: Agent) -> Answer:
        restated = read_restatement(context.input, agent, self._statements, self._now())
        if restated is not None:
            return self._take_scopes(context, agent, restated)
        agent_id, everything = agent.agent_id, context.input.get("all") is True
        own = [grant for grant in self._rights.grants(agent_id) if grant.by]
        configured = [grant for grant in self._rights.grants(agent_id) if not grant.by]
        if everything:
            if "resource" in context.input:
                raise parameters.invalid(
                    "all", "The request has both all and resource, but only one is allowed.", "Send one of them."
                )
            named = [grant.allow for grant in own]
            changes = tuple(self._rights.release(agent_id))
        else:
            named = _read_resources(context.input)
            for text in named:
                self._require_own(text, own, configured)
            changes = tuple(self._rights.take(agent_id, named, agent.name))
        left = [*configured, *([] if everything else (grant for grant in own if grant.allow not in named))]
        narrowed = bool(configured) or not everything
        by = self._authorization.actor(context)
        return Answer(
            result={
                "agent_id": agent_id,
                "label": agent.name,
                "narrowed": narrowed,
                "taken": named,
                "grants": [self._entry(grant) for grant in left],
            },
            changes=changes,
            extra={"grants_taken": {"agent_id": agent_id, "allow": named, "narrowed": narrowed, "by": by}},
        )

    def _take_scopes(self, context: BuiltInContext, agent: Agent, restated: Restatement) -> Answer:
        """Put a statement on record by which an agent has fewer scopes than before."""
        now = self._now()
        others = [name for name in ("resource", "all") if name in context.input]
        if others:
            raise parameters.invalid(others[0], f"{others[0]} comes with a statement.", "Send one of the two.")
        added = scopes.missing(agent.scopes, sorted(restated.statement.scopes))
        if added:
            raise parameters.invalid(
                "statement", f"The statement gives the agent {', '.join(added)}.", "AUTHORIZE gives scopes."
            )
        by, at = self._authorization.actor(context), times.stamp(now)
        taken = list(scopes.missing(restated.agent.scopes, sorted(agent.scopes)))
        stated = {"agent_id": agent.agent_id, **restated.fields(), "by": by}
        return Answer(
            result={**self._render_agent(agent.agent_id), "taken": [], "scopes_taken": taken},
            changes=(self._restate(context, agent, restated, by, at),),
            extra={"scopes_stated": {**stated, "taken": taken}},
        )

    @staticmethod
    def _require_own(text: str, own: Iterable[Grant], configured: Iterable[Grant]) -> None:
        if any(grant.allow == text for grant in own):
            return
        if any(grant.allow == text for grant in configured):
            raise parameters.invalid(
                "resource", f"{text} is granted by the host's configuration.", "Change [[grant]] in host.toml."
            )
        raise parameters.invalid("resource", f"The agent has no grant of {text}.", "QUERY /grants lists what it has.")

    # Reading

    async def _read(self, context: BuiltInContext) -> Answer:
        """
        Return the grants of agents; with ``rights`` all rights of one agent, with ``resource`` what it lacks for that.
        """
        agents = list(self._requested_agents(context))
        shown = [self._render_agent(agent_id) for agent_id in agents]
        if context.input.get("rights") is not True:
            return Answer(result={"agents": shown})
        if len(agents) != 1 or parameters.text(context.input, "agent") is None:
            raise parameters.invalid("agent", "The member rights needs one agent.", "Send agent.", missing=True)
        agent = self._agent(agents[0])
        named = _read_resources(context.input) if "resource" in context.input else []
        if named and not (self._authorization.looks(context) or self._is_issuer(context, agents[0])):
            raise self._authorization.refuse(
                context, OperatorAction.READ, "Only operators see what an agent lacks for a call."
            )
        asked = [text for text in named if not scopes.is_token(text)]
        for text in asked:
            # A server that has not listed its tools yet is asked first: they show which scopes are needed.
            await self._remark_on(text, agent)
        shown[0].update(self._shown.describe(agent))
        shown[0]["needed_scopes"] = self._shown.needed_scopes(asked)
        shown[0]["missing_scopes"] = self._shown.missing_scopes(agent, asked)
        shown[0]["unasked"] = self._shown.find_unasked(text for text in named if scopes.is_token(text))
        return Answer(result={"agents": shown})

    def _requested_agents(self, context: BuiltInContext) -> Iterator[str]:
        named = parameters.text(context.input, "agent")
        if self._authorization.looks(context) or (named and self._is_issuer(context, named)):
            yield from [self._agent(named).agent_id] if named else self._rights.list_narrowed()
            return
        # An agent may read its own grants; a caller that merely names the agent may not.
        caller = self._authorization.find_caller(context)
        if caller is None or (named is not None and named not in (caller.name, caller.agent_id)):
            raise self._authorization.refuse(
                context, OperatorAction.READ, "An agent sees only its own grants; operators see all grants."
            )
        yield caller.agent_id

    def _is_issuer(self, context: BuiltInContext, named: str) -> bool:
        """Return whether the caller issued the agent, or the agents, of that name; False for an unknown one."""
        found = [agent for agent in self._known() if named in (agent.agent_id, agent.name)]
        return bool(found) and all(self._authorization.grants(context, agent) for agent in found)

    def _render_agent(self, agent_id: str) -> dict[str, Any]:
        names = (agent.name for agent in self._known() if agent.agent_id == agent_id)
        return {
            "agent_id": agent_id,
            "label": next(names, ""),
            "narrowed": self._rights.is_narrowed(agent_id),
            "grants": [self._entry(grant) for grant in self._rights.grants(agent_id)],
        }

    def _entry(self, grant: Grant) -> dict[str, Any]:
        return entry_of(grant, self._now())


def _read_resources(given: Mapping[str, Any]) -> list[str]:
    """Read the distinct values of ``resource``."""
    value = given.get("resource")
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise parameters.invalid(
            "resource",
            "resource must be a text or a list of texts.",
            'Send the names of what the agent may call, such as "files.read_file".',
            missing=value is None,
        )
    if len(texts) > MOST_AT_ONCE:
        raise parameters.invalid("resource", f"resource has more than {MOST_AT_ONCE} texts.", "Send them in parts.")
    return list(dict.fromkeys(texts))
