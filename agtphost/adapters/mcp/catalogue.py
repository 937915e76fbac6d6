"""Keep the list of one server's tools, and schedule when to list them again."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorThreads, IReactorTime
from twisted.internet.threads import deferToThreadPool

from agtphost.adapters.mcp.resources import KINDS
from agtphost.adapters.mcp.session import ClientSession
from agtphost.adapters.mcp.tools import McpTool, defining_octets, invalid_schemas, read_tools
from agtphost.config.upstreams import MCPServerSection
from agtphost.contract.binding import Binding
from agtphost.upstream.failures import ErrorAnswer, RulesUnmatched, UpstreamFailure
from agtphost.upstream.log import UpstreamLog
from agtphost.upstream.offered_tools import CHANGED, DISABLED, INVALID, ON, UNMATCHED, OfferedTool
from agtphost.upstream.pins import Pins
from agtphost.vocabulary.uri_templates import fits

SHORTEST_INTERVAL = 1.0
"""Seconds between two listings, however often a server announces changes."""

LONGEST_REFRESH = 2.0
"""Seconds that a reader waits for a listing before it gets the one before."""

AFTER_FAILURE = 60.0
"""Seconds until the next listing or subscription after one failed."""

POLL_SECONDS = 300.0
"""Seconds between listings where a server declares changes but cannot announce them."""


LISTS: Mapping[str, tuple[str, ...]] = {"prompts": ("prompts",), "resources": ("resources", "templates")}
"""The lists that show which rules of a kind match: kinds of :data:`agtphost.adapters.mcp.resources.KINDS`."""

_ONE = {"tools": "tool", "prompts": "prompt", "resources": "resource"}
_EXPRESSION = re.compile(r"\{[^{}]*\}")

ListedKeys = Mapping[str, Collection[str]]
"""Names and URIs by kind; a kind that was not listed yet is left out and not checked."""


def list_needed_kinds(settings: MCPServerSection) -> tuple[str, ...]:
    """Return the kinds besides tools that a server must list before its rules can be matched."""
    wanted = (("prompts", settings.prompts), ("resources", settings.resources))
    return tuple(kind for name, rules in wanted if rules for kind in LISTS[name])


def find_unmatched(settings: MCPServerSection, listed: ListedKeys) -> Iterator[tuple[str, str]]:
    """Return kind (``tools``, ``prompts``, ``resources``) and name of every rule that matches nothing, in order."""
    for name in sorted({*settings.tools, *settings.pins} - set(listed.get("tools", ()))):
        yield "tools", name
    if "prompts" in listed:
        for name in sorted(settings.prompts.keys() - set(listed["prompts"])):
            yield "prompts", name
    if "resources" in listed and "templates" in listed:
        for rule in sorted(settings.resources):
            if not _covers(rule, listed["resources"], listed["templates"]):
                yield "resources", rule


def explain_unmatched(server: str, kind: str, name: str, listed: ListedKeys) -> str:
    """Return the message to the operator about a rule that matches nothing."""
    close = difflib.get_close_matches(name[:256], sorted(listed.get(kind, ())), 1)
    meant = f" (did you mean {close[0]!r}?)" if close else ""
    one = _ONE[kind]
    what = repr(name) if kind == "tools" else f"{one} {name!r}"
    return f"the configuration has rules for {what} of {server}, and no {one} there has that name{meant}"


def render_rule(kind: str, name: str) -> str:
    """Return a rule as lists show it: ``prompt NAME``."""
    return f"{_ONE[kind]} {name}"


def _covers(rule: str, resources: Collection[str], templates: Collection[str]) -> bool:
    if rule.endswith("*"):
        start = rule[:-1]
        # All URIs of a template begin with the text before its first expression.
        heads = [_EXPRESSION.split(template)[0] for template in templates]
        return any(uri.startswith(start) for uri in resources) or any(
            head.startswith(start) or start.startswith(head) for head in heads
        )
    return rule in resources or rule in templates or any(fits(template, rule) for template in templates)


class ToolCatalogue:
    """
    The tools of one server.

    The last listing stays when the server goes away: its tools are known then, and calls of them answer 503 and not
    422.

    :param clock: schedules listings.
    :param settings: the operator's rules.
    :param bind: makes the binding of a tool.
    :param pins: which definitions are approved.
    :param log: gets refused definitions.
    :param changed: called when the list has changed.
    """

    def __init__(
        self,
        clock: IReactorTime,
        settings: MCPServerSection,
        bind: Callable[[McpTool], Binding],
        pins: Pins,
        log: UpstreamLog,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._announce = changed
        self._clock = clock
        self._settings = settings
        self._bind = bind
        self.pins = pins
        """Which definitions are approved."""

        self._log = log
        self._session: ClientSession | None = None
        self._timer: IDelayedCall | None = None
        self._listing = False
        self._is_stale = False
        self.was_listed = False
        """Whether the server has ever listed its tools."""

        self.tools: Mapping[str, McpTool] = {}
        """Every tool whose definition passed, by the server's own name."""

        self.ttl: int | None = None
        """Milliseconds that the server allows its list of tools to be cached; None: it names no time."""

        self._listed_at = 0.0
        self._readers: list[Deferred[None]] = []

        self.bindings: Mapping[str, Binding] = {}
        """Tools that may be called: enabled, and their definition approved."""

        self.changed_tools: frozenset[str] = frozenset()
        """Tools that are off because their definition changed after it was approved."""

        self.others: Mapping[str, Collection[str]] = {}
        """Names and URIs that the server lists besides tools, for the kinds that the configuration has rules for."""

        self.unmatched_rules: tuple[tuple[str, str], ...] = ()
        """
        Kind and name of the configuration's rules that match nothing the server lists, so that they protect nothing.
        """

    async def load(self, session: ClientSession) -> None:
        """
        List the tools now.

        :raises UpstreamFailure: the server did not list them, or their pins cannot be stored; the last listing stays.
        """
        listed = await session.list_tools(self._settings.start_timeout)
        self.ttl, self._listed_at = listed.ttl, self._clock.seconds()
        tools = await self._check_schemas(read_tools(listed, self.tools, self._log))
        await self._list_others(session)
        await self.pins.remember({name: tool.digest for name, tool in self._select_enabled(tools).items()})
        self._adopt(tools)

    async def _check_schemas(self, tools: Mapping[str, McpTool]) -> dict[str, McpTool]:
        """Return the tools, with the schema errors of the new ones."""
        new = [tool for name, tool in tools.items() if self.tools.get(name) is not tool]
        if not new:
            return dict(tools)
        if IReactorThreads.providedBy(self._clock):
            found = await deferToThreadPool(self._clock, self._clock.getThreadPool(), invalid_schemas, new)
        else:
            found = invalid_schemas(new)
        return {name: replace(tool, invalid=found[name]) if name in found else tool for name, tool in tools.items()}

    async def _list_others(self, session: ClientSession) -> None:
        """
        List what rules are about before anything can be called, or a typo in a rule would leave something unprotected.
        """
        settings, found = self._settings, {}
        for name in list_needed_kinds(settings):
            kind = KINDS[name]
            entries = await session.list_entries(kind.capability, kind.method, kind.member, settings.start_timeout)
            found[name] = frozenset(
                key for entry in entries if isinstance(entry, dict) and isinstance(key := entry.get(kind.key), str)
            )
        self.others = found

    def note_others(self, name: str, keys: Collection[str]) -> None:
        """
        Take a new list of something besides tools.

        :param name: a key of :data:`agtphost.adapters.mcp.resources.KINDS`.
        """
        if name in self.others:
            self.others = {**self.others, name: frozenset(keys)}
            self.recheck()

    def attach(self, session: ClientSession, *, notified: bool) -> None:
        """
        Keep the list current while the server is up.

        :param notified: whether notifications outside of a request reach this host.
        """
        self._session = session
        if not session.terms.lists_change():
            return
        if session.terms.stateless:
            self._subscribe()
        elif not notified:
            self._schedule(POLL_SECONDS, self._list)

    def note_change(self) -> None:
        """Schedule a listing because the server announced a change."""
        if self._listing:
            self._is_stale = True
        elif self._session is not None:
            self._schedule(SHORTEST_INTERVAL, self._list)

    def refresh(self) -> Deferred[None] | None:
        """
        List again what a caller reads, if the server's time for it is over and no change would be announced.

        :return: fires when that ended, or after :data:`LONGEST_REFRESH`; None if the caller may read what is known.
        """
        session = self._session
        if session is None or self.ttl is None or session.terms.lists_change():
            return None
        if self._clock.seconds() - self._listed_at < max(self.ttl / 1000, SHORTEST_INTERVAL):
            return None
        reader = Deferred[None]()
        reader.addTimeout(LONGEST_REFRESH, self._clock).addErrback(lambda late: None)
        self._readers.append(reader)
        if not self._listing:
            self._list()
        return reader

    def require_tool(self, name: str) -> McpTool:
        """
        Return the tool of a call that is about to be sent.

        :raises UpstreamFailure: the tool is unknown or off, or all tools are off.
        """
        if self.unmatched_rules and self.is_off:
            raise RulesUnmatched
        tool = self.tools.get(name)
        if tool is None or name not in self.bindings:
            raise ErrorAnswer({"code": -32602, "message": f"Unknown tool: {name}"})
        return tool

    def recheck(self) -> None:
        """Check the known tools again, after approvals may have changed."""
        self._adopt(dict(self.tools))

    def detach(self) -> None:
        """Stop listing until :meth:`attach`, because the server is gone."""
        self._session = None
        self._is_stale = False
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None

    def _select_enabled(self, tools: Mapping[str, McpTool]) -> dict[str, McpTool]:
        """Return the tools that the configuration does not turn off."""
        overrides = self._settings.tools
        return {n: t for n, t in tools.items() if n not in overrides or overrides[n].enabled}

    def _adopt(self, tools: Mapping[str, McpTool]) -> None:
        offered = self._select_enabled(tools)
        digests = {name: tool.digest for name, tool in offered.items()}
        changed = self.pins.find_off(digests)
        for name in sorted(changed - self.changed_tools):
            self._log.event(f"the definition of tool {name[:64]!r} changed; it is off until approved again")
        self._match(tools)
        for name, tool in offered.items():
            if tool.invalid and self.tools.get(name) is not tool:
                self._log.event(f"tool {name[:64]!r} is off: {'; '.join(tool.invalid)}"[:1024])
        before = self._digests() if self.was_listed else None
        self.bindings = {
            n: self._bind(tool)
            for n, tool in offered.items()
            if n not in changed and not tool.invalid and not self.is_off
        }
        self.tools, self.changed_tools, self.was_listed = tools, changed, True
        approved = {name: digest for name, digest in digests.items() if name not in changed}
        self.pins.store_texts(approved, lambda name: defining_octets(offered[name].definition))
        if before is not None and before != self._digests():
            self._announce()

    @property
    def is_off(self) -> bool:
        """Whether the whole server is off because a rule for a part of it matches nothing."""
        return bool(self.unmatched_rules) and self._settings.unmatched_rules == "off"

    def _match(self, tools: Mapping[str, McpTool]) -> None:
        settings, listed = self._settings, {**self.others, "tools": tools}
        found = tuple(find_unmatched(settings, listed))
        if found and found != self.unmatched_rules:
            off = "; its tools are off until that is fixed" if settings.unmatched_rules == "off" else ""
            for kind, name in found:
                self._log.event(f"{explain_unmatched(settings.name, kind, name, listed)}{off}")
        self.unmatched_rules = found

    @property
    def invalid_tools(self) -> Mapping[str, tuple[str, ...]]:
        """Tools that are off because a schema is invalid, with the errors."""
        return {name: tool.invalid for name, tool in self._select_enabled(self.tools).items() if tool.invalid}

    def list_offered(self, server: str, state: str) -> Iterator[OfferedTool]:
        """
        Return every tool, for operators.

        :param state: the server's state.
        """
        offered = self._select_enabled(self.tools)
        for name, tool in self.tools.items():
            kept = DISABLED if name not in offered else CHANGED if name in self.changed_tools else ""
            kept = kept or (INVALID if tool.invalid else UNMATCHED if self.is_off else ON)
            described = tool.definition.get("description")
            yield OfferedTool(
                protocol="mcp",
                upstream=server,
                name=name,
                upstream_state=state,
                state=kept,
                description=described if isinstance(described, str) else "",
                why="; ".join(tool.invalid),
                sha256=tool.digest,
                approved_sha256=self.pins.approved_digest(name),
                is_fixed=self.pins.is_fixed(name),
                binding=self.bindings.get(name),
            )

    def withholds(self, tool: str) -> bool:
        """Return whether the server has the tool and it is off for a reason that its operator must resolve."""
        known = self.tools.get(tool)
        return tool in self.changed_tools or (known is not None and (self.is_off or bool(known.invalid)))

    @property
    def rendered_rules(self) -> tuple[str, ...]:
        """:attr:`find_unmatched` as lists show it."""
        return tuple(render_rule(*each) for each in self.unmatched_rules)

    def explain_faults(self) -> list[str]:
        """Return the messages to the operator about :attr:`find_unmatched` and :attr:`invalid_tools`."""
        listed, server = {**self.others, "tools": self.tools}, self._settings.name
        rules = [explain_unmatched(server, *each, listed) for each in self.unmatched_rules]
        return [
            *rules,
            *(f"tool {tool!r} of {server} is off: {'; '.join(said)}" for tool, said in self.invalid_tools.items()),
        ]

    def _digests(self) -> dict[str, str]:
        return {name: self.tools[name].digest for name in self.bindings if name in self.tools}

    def _schedule(self, seconds: float, step: Callable[[], None]) -> None:
        """Run a step once; a sooner step replaces a later one, and not the reverse."""
        due = self._clock.seconds() + seconds
        if self._timer is not None and self._timer.active():
            if self._timer.getTime() <= due:
                return
            self._timer.cancel()
        self._timer = self._clock.callLater(seconds, step)

    def _list(self) -> None:
        session = self._session
        if session is None:
            return
        self._listing = True
        listing = Deferred.fromCoroutine(self._relist(session))
        listing.addErrback(lambda failure: self._log.event(f"listing failed: {failure.getErrorMessage()}"))

    async def _relist(self, session: ClientSession) -> None:
        again: float | None = None
        try:
            await self.load(session)
            if not session.terms.stateless and session.peer.link.pid is None:
                again = POLL_SECONDS
        except UpstreamFailure as failure:
            self._log.event(f"listing tools failed: {failure}")
            again = AFTER_FAILURE
        finally:
            self._listing, self._listed_at = False, self._clock.seconds()
            readers, self._readers = self._readers, []
            for reader in readers:
                reader.callback(None)
        if self._session is not session:
            return
        if self._is_stale:
            self._is_stale = False
            again = SHORTEST_INTERVAL
        if again is not None:
            self._schedule(again, self._list)

    def _subscribe(self) -> None:
        session = self._session
        if session is not None:
            session.listen().addBoth(self._resubscribe_later, session)

    def _resubscribe_later(self, ended: object, session: ClientSession) -> None:
        """List again and subscribe again some time after the subscription ended."""
        if self._session is session:
            self._clock.callLater(AFTER_FAILURE, self._resubscribe, session)

    def _resubscribe(self, session: ClientSession) -> None:
        if self._session is session:
            self.note_change()
            self._subscribe()
