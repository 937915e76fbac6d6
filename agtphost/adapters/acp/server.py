"""One hosted ACP server: list and check its agents' manifests, and call its nine operations."""

from __future__ import annotations

import difflib
import random
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from agtphost.config.web_upstreams import ACPServerSection
from agtphost.handlers.tracing import end_span_after, fields_of
from agtphost.identity.canonical import canonical
from agtphost.upstream.failures import NotApproved, UnreadableAnswer, UpstreamRefused
from agtphost.upstream.pins import Pins
from agtphost.upstream.queue import Caller
from agtphost.upstream.web_upstream import WebUpstream
from agtphost.vocabulary import jsontext

MOST_AGENTS = 1_000
PAGE = 100
"""Agents per page; servers without pages return all."""

VOLATILE = frozenset({"status"})
"""Members of a manifest that change often and are not pinned."""

Take = Callable[[Any], Awaitable[None]]
"""Takes one event."""


class ACPServer(WebUpstream):
    """
    The service of one ACP server.

    :param reactor: connects and schedules.
    :param pins: which manifests are approved; None: in memory, those of the settings or else the first.
    """

    def __init__(
        self,
        reactor: Any,
        settings: ACPServerSection,
        *,
        pins: Pins | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        pins = Pins("acp", settings.name, settings.pins) if pins is None else pins
        super().__init__(reactor, settings, "acp", pins, jitter)
        self.settings: ACPServerSection = settings
        self._base = settings.url.rstrip("/")
        self.manifests: Mapping[str, Mapping[str, Any]] = {}
        """Approved manifests by agent, as received."""

        self.pinned: Mapping[str, bytes] = {}
        """The pinned part of each listed manifest, as canonical JSON."""

        self.unmatched: tuple[str, ...] = ()
        """Names under ``agents`` and ``pins`` of the configuration that the server does not list."""

        self.changed: Mapping[str, str] = {}
        """Digests of the manifests that wait for approval, by agent; these agents are off."""

    @property
    def description(self) -> Mapping[str, Mapping[str, Any]]:
        """The approved manifests by agent."""
        return self.manifests

    def list_pending(self) -> Mapping[str, str]:
        """Return the digests of manifests that wait for approval."""
        return self.changed

    async def ask(
        self, method: str, path: tuple[str, ...], seconds: float, body: object = None, caller: Caller = None
    ) -> Any:
        """
        Call an operation.

        :param path: segments, each sent percent-encoded.
        :param caller: whose share of the turns it takes.
        :return: the answer's JSON.
        :raises agtphost.upstream.failures.UpstreamFailure: for every other outcome.
        """

        # Only the first segment is safe for traces; later ones may be the caller's text.
        span = self.request_span(f"{method} /{path[0]}")

        async def work(left: float) -> Any:
            reply = await self._http.exchange(
                method,
                self._url(path),
                headers=(("Accept", "application/json"), *fields_of(span)),
                body=body,
                seconds=left,
            )
            return _json(reply.body)

        return await end_span_after(span, self.call(seconds, work, caller))

    async def stream(
        self, path: tuple[str, ...], seconds: float, body: object, take: Take, caller: Caller = None
    ) -> None:
        """
        Call an operation that answers with events.

        :param take: gets each event, one after another.
        :raises agtphost.upstream.failures.UpstreamFailure: as :meth:`ask` does; events may have been taken by then.
        """

        async def event(octets: bytes) -> None:
            await take(_json(octets))

        span = self.request_span(f"POST /{path[0]}")

        async def work(left: float) -> None:
            reply = await self._http.exchange(
                "POST",
                self._url(path),
                headers=(("Accept", "text/event-stream"), *fields_of(span)),
                body=body,
                seconds=left,
                take=event,
            )
            if not reply.streamed:
                raise UnreadableAnswer("it did not answer with a stream")

        await end_span_after(span, self.call(seconds, work, caller))

    def _url(self, path: tuple[str, ...]) -> str:
        return f"{self._base}/{'/'.join(quote(segment, safe='') for segment in path)}"

    async def _establish(self) -> None:
        """List the agents, and approve the manifests that are new."""
        found: dict[str, Mapping[str, Any]] = {}
        offset = 0
        while True:
            page = await self._page(offset)
            fresh = [manifest for manifest in page if _name(manifest) not in found]
            found.update((_name(manifest), manifest) for manifest in fresh)
            if len(found) > MOST_AGENTS:
                raise NotApproved(f"it lists more than {MOST_AGENTS} agents")
            offset += len(page)
            if len(page) < PAGE or not fresh:
                break
        self._report_unmatched(found)
        wanted = set(self.settings.agents)
        admitted = {name: manifest for name, manifest in found.items() if not wanted or name in wanted}
        if not admitted:
            raise NotApproved("it lists none of the agents that may be reached")
        pinned = {name: pinned_of(manifest) for name, manifest in admitted.items()}
        off = await self.pins.check(pinned)
        self.pinned = pinned
        if off - self.changed.keys():
            self.say(f"changed manifests are off until approved by agtp upstreams approve: {', '.join(sorted(off))}")
        self.changed = {name: sha256(pinned[name]).hexdigest() for name in sorted(off)}
        kept = {name: manifest for name, manifest in sorted(admitted.items()) if name not in off}
        if kept != self.manifests:
            self.manifests = kept

    def _report_unmatched(self, found: Mapping[str, object]) -> None:
        """
        Log the configured names that the server does not list, since their agents may have other names now.

        :raises NotApproved: where the settings turn the whole server off until the names are fixed.
        """
        settings = self.settings
        unmatched = tuple(sorted({*settings.pins, *settings.agents} - found.keys()))
        news, self.unmatched = unmatched != self.unmatched, unmatched
        if not unmatched:
            return
        near = difflib.get_close_matches(unmatched[0], sorted(found), 1)
        meant = f" (did you mean {near[0]!r}?)" if near else ""
        sentence = f"the configuration names {', '.join(map(repr, unmatched))}, which it does not list{meant}"
        if settings.unmatched_rules == "off":
            raise NotApproved(f"{sentence}; its agents are off until that is fixed")
        if news:
            self.say(sentence)

    async def _page(self, offset: int) -> list[Mapping[str, Any]]:
        url = f"{self._base}/agents?limit={PAGE}&offset={offset}"
        try:
            reply = await self._http.exchange(
                "GET", url, headers=(("Accept", "application/json"),), seconds=self.settings.start_timeout
            )
        except UpstreamRefused as refused:
            raise NotApproved(f"its agents cannot be listed: HTTP {refused.status}") from None
        value = _json(reply.body)
        listed = value.get("agents") if isinstance(value, dict) else None
        if not isinstance(listed, list) or not all(isinstance(manifest, dict) for manifest in listed):
            raise NotApproved("its list of agents is malformed")
        return listed


def _name(manifest: Mapping[str, Any]) -> str:
    name = manifest.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= 128 or not name.isprintable():
        raise NotApproved("an agent of its list has no proper name")
    return name


def pinned_of(manifest: Mapping[str, Any]) -> bytes:
    """Return what an approval of a manifest covers, as canonical JSON."""
    return canonical({key: value for key, value in manifest.items() if key not in VOLATILE})


def _json(octets: bytes) -> Any:
    try:
        return jsontext.decode(octets)
    except jsontext.JSONTextError as error:
        raise UnreadableAnswer(f"its answer is not JSON as this host reads it: {error}") from None
