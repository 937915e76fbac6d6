"""The server under test: connections to it, and what it declares about itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from agtphost.conformance.access import Access, Carrier, Role
from agtphost.conformance.dialing import dialer
from agtphost.conformance.link import Credentials, Link, RawAnswer, Unreachable
from agtphost.conformance.manifest_parts import join_parts
from agtphost.conformance.request_bytes import Envelope, Field, request
from agtphost.conformance.signatures import public_key
from agtphost.conformance.surface import LEGACY, DeclaredEndpoint, TargetTool
from agtphost.conformance.verdict import Failure, Inapplicable, Need
from agtphost.contract.manifest_validation import ManifestFinding, examine
from agtphost.vocabulary.catalog import Catalog

T = TypeVar("T")

PROBES = 12
"""Endpoints that are tried until one succeeds."""

RATE_LIMITED = 429
LONGEST_PAUSE = 5.0
MAX_JOURNAL = 400
"""Most answers that the journal keeps."""

AGENT_REQUIRED = (400, 401, 403, 262)
"""Statuses of anonymous requests that may be others with an Agent-ID."""

STOPPED = (401, 410, 503)
"""Statuses for agents that were revoked or suspended, or that are not known."""

_ANONYMOUS = Credentials()


class Target:
    """
    A server, seen from outside.

    There is one kept connection for each role. The target's declarations are fetched only once.
    """

    def __init__(self, access: Access) -> None:
        self.access = access
        self.journal: list[RawAnswer] = []
        self.last: RawAnswer | None = None
        """The newest answer."""

        self.asks_agent = False
        """Whether every caller has to name an agent; then requests without a chosen role are sent as the agent."""

        self._dialers: dict[Role, Callable[[], Link]] = {}
        self._links: dict[Role, Link] = {}

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *failure: object) -> None:
        for link in self._links.values():
            link.close()
        self._links.clear()

    # Roles

    def credentials(self, who: Role) -> Credentials:
        """Return the credentials of a role."""
        return self._second if who is Role.SECOND else self.access.credentials.get(who, _ANONYMOUS)

    @cached_property
    def _second(self) -> Credentials:
        """The first further agent that the target serves; empty credentials if all were revoked or suspended."""
        given = self.access.credentials.get(Role.SECOND)
        return next(filter(self._serves, ([given] if given is not None else []) + [*self.access.others]), _ANONYMOUS)

    def _serves(self, shown: Credentials) -> bool:
        fields = [] if shown.agent_id is None else [("Agent-ID", shown.agent_id)]
        octets = request("DISCOVER", "/agents", fields=fields)
        try:
            with dialer(self.access, shown)() as link:
                link.send_whole(octets)
                answer = link.answer(octets)
        except (Failure, Unreachable):
            return False
        return answer is not None and answer.status not in STOPPED

    @property
    def agent_id(self) -> str:
        """
        The Agent-ID of the agent.

        :raises Inapplicable: no credentials of an agent were supplied.
        """
        found = self.credentials(Role.AGENT).agent_id
        if found is None:
            raise Inapplicable("an agent")
        return found

    @property
    def best(self) -> Role:
        """The agent if there are credentials of one, or else the anonymous role."""
        return Role.AGENT if self.has(Need.AGENT) else Role.ANONYMOUS

    # Connections

    def link(self, who: Role = Role.ANONYMOUS) -> Link:
        """Open a new connection, which the caller closes."""
        if who not in self._dialers:
            self._dialers[who] = dialer(self.access, self.credentials(who))
        return self._dialers[who]()

    def ask(
        self,
        method: str,
        path: str = "/",
        body: object = None,
        *,
        who: Role | None = None,
        fields: Iterable[Field] = (),
        **options: Any,
    ) -> RawAnswer:
        """
        Send one request on a kept connection, and return its answer.

        An agent also sends its Agent-ID, unless ``fields`` has one.

        :param who: None: anonymous, or the agent if the target requires every caller to name one.
        """
        named = list(fields)
        introduced = any(name.lower() == "agent-id" for name, _ in named)
        if who is None:
            who = Role.AGENT if self.asks_agent and not introduced else Role.ANONYMOUS
        agent_id = self.credentials(who).agent_id
        if agent_id is not None and not introduced:
            named.insert(0, ("Agent-ID", agent_id))
        if self.access.plain and isinstance(body, Envelope):
            body = body["parameters"]
        return self.send(request(method, path, body, named, **options), who=who)

    def as_agent(
        self, method: str, path: str = "/", body: object = None, fields: Iterable[Field] = (), **options: Any
    ) -> RawAnswer:
        """Send one request as the agent, and return its answer."""
        return self.ask(method, path, body, who=Role.AGENT, fields=fields, **options)

    def send(self, octets: bytes, *, who: Role = Role.ANONYMOUS) -> RawAnswer:
        """Send the bytes of one request, and return its answer."""
        answer = self._exchange(octets, who)
        if answer.status == RATE_LIMITED:
            named = answer.header("Retry-After") or "1"
            pause = float(named) if named.isdigit() else 1.0
            if pause <= LONGEST_PAUSE:
                time.sleep(pause)
                answer = self._exchange(octets, who)
            if answer.status == RATE_LIMITED:
                raise Inapplicable(f"a rate limit that admits it; Retry-After is {named} s")
        return self.note(answer)

    def note(self, answer: RawAnswer) -> RawAnswer:
        """Keep an answer for the cases that examine all answers."""
        self.last = answer
        if len(self.journal) < MAX_JOURNAL:
            self.journal.append(answer)
        return answer

    def _exchange(self, octets: bytes, who: Role) -> RawAnswer:
        kept = self._links.pop(who, None)
        answer = self._once(kept, octets, who) if kept is not None and not kept.has_ended and not kept.buffer else None
        if answer is None:
            # A kept connection may have timed out; a new one must work.
            answer = self._once(self.link(who), octets, who)
        if answer is None:
            line = octets.partition(b"\r")[0].decode("latin-1")
            raise Failure(f"the connection was closed instead of answering {line!r}")
        return answer

    def _once(self, link: Link, octets: bytes, who: Role) -> RawAnswer | None:
        try:
            link.send_whole(octets)
            answer = link.answer(octets)
        except Failure:
            link.close()
            raise
        if answer is not None and not link.has_ended:
            self._links[who] = link
        else:
            link.close()
        return answer

    def introduce(self, octets: bytes) -> bytes:
        """Return a handwritten request, with an Agent-ID if the target requires every caller to name one."""
        line, ending, rest = octets.partition(b"\r\n")
        if not self.asks_agent or not octets.startswith(b"AGTP/1.0 ") or b"agent-id:" in octets.lower():
            return octets
        return octets if not ending else line + ending + f"Agent-ID: {self.agent_id}\r\n".encode() + rest

    # Declarations

    @cached_property
    def root(self) -> RawAnswer:
        """The answer to ``DISCOVER /`` without an Agent-ID; with one if the target requires it."""
        answer = self.ask("DISCOVER", "/")
        if answer.status in AGENT_REQUIRED and self.credentials(Role.AGENT).agent_id is not None:
            named = self.ask("DISCOVER", "/", who=Role.AGENT)
            if named.status == 200:
                self.asks_agent = True
                return named
        return answer

    @cached_property
    def manifest(self) -> Mapping[str, Any] | None:
        """The manifest, or its first part; None if the target has none."""
        try:
            value = self.root.value
        except Failure:
            return None
        return value if self.root.status == 200 and is_manifest(value) else None

    @cached_property
    def findings(self) -> list[ManifestFinding]:
        """The findings of `agtp manifest validate` for the manifest."""
        return examine(self.manifest, Catalog.load())

    @cached_property
    def keys(self) -> Mapping[str, Ed25519PublicKey]:
        """The target's signing keys by kid: as given, or else as published in its manifest."""
        if self.access.keys:
            return self.access.keys
        server = self.member("server")
        listed = server.get("signing_keys", ()) if isinstance(server, Mapping) else ()
        found = {}
        for entry in listed if isinstance(listed, list) else ():
            with suppress(Failure, KeyError, TypeError):
                found[str(entry["kid"])] = public_key(entry["key"])
        return found

    def member(self, name: str) -> Any:
        """Return a member of the manifest."""
        return (self.manifest or {}).get(name)

    @cached_property
    def policies(self) -> Mapping[str, Any]:
        found = self.member("policies")
        return found if isinstance(found, Mapping) else {}

    @cached_property
    def method_policy(self) -> Mapping[str, Any]:
        found = self.policies.get("methods")
        return found if isinstance(found, Mapping) else {}

    @cached_property
    def declared_endpoints(self) -> tuple[DeclaredEndpoint, ...]:
        """Every endpoint of the manifest, from all its parts."""

        def fetch(token: str) -> tuple[object, int]:
            answer = self.ask("DISCOVER", "/", {"part": token})
            return answer.value, len(answer.body)

        listed = join_parts(self.manifest or {}, fetch).get("endpoints")
        entries = listed if isinstance(listed, list) else []
        return tuple(DeclaredEndpoint(definition=entry) for entry in entries if isinstance(entry, Mapping))

    @cached_property
    def operators(self) -> tuple[DeclaredEndpoint, ...]:
        """The endpoints of the operator."""
        return tuple(item for item in self.declared_endpoints if not item.is_built_in and item.method not in LEGACY)

    @cached_property
    def listed_pairs(self) -> frozenset[tuple[str, str]]:
        """Method and path of each entry that ``DISCOVER /methods`` shows the agent."""
        entries = self._list("/methods")
        return frozenset((str(entry.get("method")), str(entry.get("path"))) for entry in entries)

    def _list(self, path: str) -> list[Mapping[str, Any]]:
        if not self.has(Need.AGENT):
            return []
        answer = self.as_agent("DISCOVER", path)
        found = answer.result if answer.status == 200 else []
        return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []

    @cached_property
    def admitted_endpoints(self) -> tuple[DeclaredEndpoint, ...]:
        """Harmless endpoints of the operator that the agent may call, with an input each."""
        return tuple(
            item
            for item in self.operators
            if item.is_harmless and item.pair in self.listed_pairs and item.input is not None
        )

    @cached_property
    def held_scopes(self) -> frozenset[str]:
        """Scopes that the agent has, as far as its lists of endpoints and tools show."""
        known = {scope for item in self.operators if item.pair in self.listed_pairs for scope in item.required_scopes}
        for tool in self._list("/tools"):
            known.update(scope for scope in tool.get("required_scopes") or () if isinstance(scope, str))
        return frozenset(known)

    @cached_property
    def hosted_agents(self) -> tuple[Mapping[str, Any], ...]:
        """The hosted agents, as ``DISCOVER /agents`` shows them."""
        answer = self.ask("DISCOVER", "/agents", who=self.best)
        found = answer.result if answer.status == 200 else []
        return tuple(entry for entry in found if isinstance(entry, Mapping)) if isinstance(found, list) else ()

    # Choices

    def call(
        self,
        endpoint: DeclaredEndpoint,
        value: Mapping[str, Any] | None = None,
        *,
        who: Role = Role.AGENT,
        fields: Iterable[Field] = (),
    ) -> RawAnswer:
        """Call an endpoint, by default with an input that its schema admits."""
        path, body = endpoint.address(endpoint.input or {} if value is None else value)
        return self.ask(endpoint.method, path, body, who=who, fields=fields)

    # A case that names the need has the property; elsewhere it raises Inapplicable if nothing fits.

    @property
    def endpoint(self) -> DeclaredEndpoint:
        """An endpoint that succeeds."""
        return _require(self._succeeding, Need.ENDPOINT)

    @cached_property
    def _succeeding(self) -> DeclaredEndpoint | None:
        good = (
            item for item in self.select_spread(self.admitted_endpoints) if self.call(item).status in (200, 202, 204)
        )
        return next(good, None)

    @cached_property
    def with_schema(self) -> DeclaredEndpoint:
        """The admitted endpoint whose input has the most members to check."""
        rich = [item for item in self.admitted_endpoints if item.samples is not None and item.samples.properties]
        return _require(max(rich, key=_count_properties, default=None), Need.SCHEMA)

    @cached_property
    def with_parameter(self) -> DeclaredEndpoint:
        """An admitted endpoint with a parameter in its path."""
        return _require(next((item for item in self.admitted_endpoints if item.parameters), None), Need.TEMPLATE)

    @cached_property
    def scoped_endpoint(self) -> tuple[DeclaredEndpoint, str]:
        """An admitted endpoint that requires scopes, and a scope of the agent that is not enough for it."""
        pairs = ((item, min(self.held_scopes - item.required_scopes, default="")) for item in self.admitted_endpoints)
        return _require(next((pair for pair in pairs if pair[0].required_scopes and pair[1]), None), Need.SCOPED)

    @cached_property
    def forbidden(self) -> DeclaredEndpoint:
        """An endpoint for which the agent lacks a scope."""
        closed = (
            item
            for item in self.operators
            if item.required_scopes - self.held_scopes and item.pair not in self.listed_pairs
        )
        return _require(next((item for item in closed if item.input is not None), None), Need.FORBIDDEN)

    @cached_property
    def guarded_endpoint(self) -> DeclaredEndpoint:
        """An endpoint that requires a certificate, according to its declaration."""
        found = (item for item in self.operators if item.pair in self.listed_pairs and _is_guarded(item))
        return _require(next(found, None), Need.GUARDED)

    @cached_property
    def fallible(self) -> tuple[DeclaredEndpoint, ...]:
        """Admitted endpoints that declare errors."""
        return tuple(item for item in self.admitted_endpoints if item.errors)

    @cached_property
    def tool(self) -> TargetTool:
        """A harmless tool."""
        tools = (TargetTool(entry=entry) for entry in self._list("/tools"))
        return _require(
            next((tool for tool in tools if tool.is_harmless and tool.arguments is not None), None), Need.TOOL
        )

    @cached_property
    def expendable(self) -> str:
        """The Agent-ID of an agent that may be revoked."""
        return _require(self.access.expendable, Need.EXPENDABLE)

    @staticmethod
    def select_spread(items: tuple[DeclaredEndpoint, ...]) -> tuple[DeclaredEndpoint, ...]:
        """Return about :data:`PROBES` of the items, evenly distributed."""
        return items[:: max(1, len(items) // PROBES)]

    # Needs

    def has(self, need: Need) -> bool:
        """Return whether a need is met."""
        side = {Need.AGENT: Role.AGENT, Need.SECOND: Role.SECOND, Need.REGISTRAR: Role.REGISTRAR}.get(need)
        if side is not None:
            shown = self.credentials(side)
            return shown.cert is not None or shown.agent_id is not None
        fact = self._FACTS.get(need)
        try:
            return bool(getattr(self, fact) if fact is not None else self._meets(need))
        except Inapplicable:
            return False

    _FACTS = {
        Need.EXPENDABLE: "expendable",
        Need.SIGNING_KEY: "keys",
        Need.MANIFEST: "manifest",
        Need.ENDPOINT: "endpoint",
        Need.SCHEMA: "with_schema",
        Need.SCOPED: "scoped_endpoint",
        Need.FORBIDDEN: "forbidden",
        Need.GUARDED: "guarded_endpoint",
        Need.TEMPLATE: "with_parameter",
        Need.NAMED_ERROR: "fallible",
        Need.HOSTED: "hosted_agents",
        Need.TOOL: "tool",
    }
    """The attribute that meets a need."""

    def _meets(self, need: Need) -> object:
        if need.is_of_carrier:
            return (self.access.carrier is Carrier.QUIC) == (need is Need.QUIC)
        if need is Need.CERTIFICATE:
            return self.credentials(Role.AGENT).cert
        if need is Need.SIGNATURES:
            return not (self.root.header("Attribution-Record") or "").endswith(".")
        if need is Need.GENESIS:
            return self.hosted_agents and self.ask("DISCOVER", self.agent_path("genesis")).status == 200
        return self.method_policy.get("aliases" if need is Need.ALIAS else "redirects")

    def agent_path(self, rest: str = "") -> str:
        """Return a path below the first hosted agent."""
        return f"/agents/{self.hosted_agents[0].get('name')}" + (f"/{rest}" if rest else "")


def _require(found: T | None, need: Need) -> T:
    """
    Return ``found`` if it is not None.

    :raises Inapplicable: it is None.
    """
    if found is None:
        raise Inapplicable(need.what)
    return found


def _count_properties(item: DeclaredEndpoint) -> int:
    return len(item.samples.properties) if item.samples is not None else 0


def is_manifest(value: Any) -> bool:
    """Return whether a body is meant to be a manifest, valid or not."""
    return isinstance(value, dict) and ("agtp_version" in value or "agtp_api_version" in value)


def _is_guarded(item: DeclaredEndpoint) -> bool:
    closed = item.samples is not None and item.definition.get("input_schema", {}).get("additionalProperties") is False
    return closed and item.definition.get("min_assurance") == "certificate"


def connect(access: Access) -> Target:
    """
    Connect to a target, and wait for its first answer.

    :raises Unreachable: the connection failed, or the server does not speak AGTP.
    """
    target = Target(access)
    try:
        target.root  # noqa: B018
    except Failure as error:
        target.__exit__()
        raise Unreachable(f"what listens there does not answer AGTP requests: {error}") from None
    return target
