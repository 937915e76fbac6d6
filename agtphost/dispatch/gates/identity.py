"""The gates that establish who is calling, and whom: design decisions 4 and 5."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from zope.interface import implementer

from agtphost.audit.lifecycle import LifecycleState, LifecycleStatus
from agtphost.contract.binding import Binding
from agtphost.contract.rights import GrantSet
from agtphost.dispatch import agent_paths, cures
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.interfaces import Condition, ICacheableGate, IGate
from agtphost.dispatch.rights import Narrowings
from agtphost.dispatch.trial_calls import MayTry, require_trial
from agtphost.errors import Refusal
from agtphost.identity.agents import Agent
from agtphost.identity.authorities import ClientAuthorities
from agtphost.identity.directory import IAgentDirectory
from agtphost.identity.peer import Assurance, Peer, PeerCertificate
from agtphost.identity.revocation import Revocations
from agtphost.vocabulary.identifiers import is_agent_id, is_opaque_id
from agtphost.vocabulary.reasons import Reason

SINGLE = frozenset(
    {
        "agent-id",
        "task-id",
        "session-id",
        "request-id",
        "idempotency-key",
        "content-type",
        "authorization",
        "owner-id",
        "delegation-token",
    }
)
"""Fields that mean one thing or nothing; sent twice, they mean an attack or a bug."""

REACHABLE_WHEN_STOPPED = frozenset(
    {"DISCOVER", "DESCRIBE", "INSPECT", "ACTIVATE", "DEACTIVATE", "REINSTATE", "REVOKE", "DEPRECATE"}
)
"""Methods that reach a suspended or retired agent: its state can be seen and changed (companion section 6.3)."""

_RENEWAL = "The owner has to renew the org_domain, and to tell this host's operator."

FETCH = "FETCH"
"""Of the host's own it gives documents about agents, as DESCRIBE does."""

Documents = Callable[[str, str | None], bool]
"""
Whether a wire verb asks for a document about agents: at what follows an agent's name in a path, or, with None, at
``/agents`` itself.
"""

Discloses = Callable[[Exchange, Agent], bool]
"""Whether the caller of an exchange may read documents about an agent by its name."""

States = Callable[[Agent], LifecycleState]
"""The present lifecycle state of an agent."""


def _refuse_unauthenticated(cause: str, explanation: str, remedy: str, command: str = "") -> Refusal:
    """
    Return a refusal with the same reason on the wire for every cause (core v08 section 5.6); the record names the
    cause.

    :param command: by which an operator lifts it; empty if there is none.
    """
    refusal = Refusal(Reason.AGENT_UNAUTHENTICATED, explanation, remedy=remedy, cause=cause)
    return cures.add(refusal, remedy.removesuffix("."), command) if command else refusal


class StoppedAgent(Refusal):
    """The caller or the addressee is suspended or retired."""


def reaches_stopped(binding: Binding) -> bool:
    """Return whether a binding may be called at a stopped agent: only the protocol's own methods may."""
    return binding.tier == "A" and (binding.method in REACHABLE_WHEN_STOPPED or binding.method == FETCH)


def refuse_stopped(state: LifecycleState, who: str, agent_id: str) -> None:
    """
    Refuse an agent that is suspended (503) or retired (410): core v08 section 5.6.

    One that was deprecated because its ``org_domain`` was not renewed stays refused (503, core v08 section 11.8).

    :param who: ``caller`` or ``agent``, for the explanation.
    :raises StoppedAgent: it is one of these.
    """
    if state.status is LifecycleStatus.ACTIVE:
        return
    if state.status is LifecycleStatus.SUSPENDED:
        expired = state.org_domain is not None
        suspended = StoppedAgent(
            Reason.AGENT_SUSPENDED,
            f"The {'calling' if who == 'caller' else 'addressed'} agent is suspended.",
            remedy=_RENEWAL if expired else "Its Genesis issuer can reinstate it.",
            details={
                "lifecycle_state": "suspended",
                "agent_id": agent_id,
                "since": state.since,
                **({"cause": Reason.ORG_DOMAIN_EXPIRED.value} if expired else {}),
            },
        )
        if expired:
            raise suspended
        raise cures.add(suspended, "Its Genesis issuer or an administrator can reinstate it", cures.reinstate(agent_id))
    if state.is_lapsed:
        raise StoppedAgent(
            Reason.ORG_DOMAIN_EXPIRED,
            f"The domain of the {'calling' if who == 'caller' else 'addressed'} agent expired and was not renewed.",
            remedy=_RENEWAL,
            details={"lifecycle_state": "deprecated", "agent_id": agent_id, "since": state.since},
        )
    if state.status is LifecycleStatus.RETIRED:
        raise StoppedAgent(
            Reason.AGENT_RETIRED,
            f"The {'calling' if who == 'caller' else 'addressed'} agent was revoked. This is final.",
            remedy="A successor needs a new Genesis, and with it a new Agent-ID.",
            details={"lifecycle_state": "retired", "agent_id": agent_id, "revoked_at": state.since},
        )


@implementer(IGate)
class FramingGate:
    """Identifier fields have their grammar, once: a bad one is never echoed (security invariant 16)."""

    name = "framing"

    def check(self, exchange: Exchange) -> None:
        headers = exchange.request.headers
        if headers.repeated_names:
            self._refuse_repeated(headers.repeated_names & SINGLE)
        fields = headers.by_name
        if "agent-id" in fields:
            agent_id = self._opaque(fields["agent-id"], "Agent-ID")
            if not is_agent_id(agent_id):
                raise Refusal(Reason.INVALID_AGENT_ID, cause="agent-id-malformed")
            exchange.agent_id = exchange.call.agent_id = agent_id
        if "task-id" in fields:
            exchange.task_id = exchange.call.task_id = self._opaque(fields["task-id"], "Task-ID")
        if "request-id" in fields:
            exchange.request_id = self._opaque(fields["request-id"], "Request-ID")
        if "session-id" in fields:
            exchange.session_id = self._opaque(fields["session-id"], "Session-ID")
        if "idempotency-key" in fields:
            exchange.idempotency_key = self._opaque(fields["idempotency-key"], "Idempotency-Key")

    @staticmethod
    def _refuse_repeated(twice: frozenset[str]) -> None:
        if twice:
            raise Refusal(Reason.REPEATED_HEADER, f"The field {min(twice)} stands twice.", remedy="Send it once.")

    @staticmethod
    def _opaque(value: str, name: str) -> str:
        if not is_opaque_id(value):
            raise Refusal(
                Reason.INVALID_IDENTIFIER,
                f"{name} is not 1 to 128 visible ASCII characters.",
                cause="agent-id-malformed" if name == "Agent-ID" else "",
            )
        return value


@implementer(ICacheableGate)
class ConnectionGate:
    """
    The certificate of this connection still holds, and names the caller the header names.

    Checked on every request, never once per connection: an expiry or another
    Agent-ID in the middle of a connection ends its authority (T-LC-70, T-ID-1).
    """

    name = "connection identity"

    def __init__(self, revocations: Revocations | None = None) -> None:
        self._objection = None if revocations is None else revocations.objection

    def check(self, exchange: Exchange) -> None:
        certificate = exchange.peer.certificate
        if certificate is None:
            return
        if certificate.malformed:
            raise _refuse_unauthenticated(
                "certificate-malformed",
                f"The client certificate has an AGTP extension that cannot be read: {certificate.malformed}.",
                "Have the certificate issued again.",
            )
        if not certificate.valid_from <= exchange.now <= certificate.valid_to:
            raise _refuse_unauthenticated(
                "certificate-not-valid-now",
                "The client certificate is outside its validity period.",
                "Connect with a renewed certificate.",
            )
        if self._objection is not None and (why := self._objection(certificate, exchange.now)):
            self._refuse_revoked(why)
        if certificate.agent_id is None:
            return
        if exchange.agent_id is not None and exchange.agent_id != certificate.agent_id:
            raise _refuse_unauthenticated(
                "agent-id-certificate-mismatch",
                "Agent-ID and the client certificate name different agents.",
                "Send the Agent-ID of the certificate, or leave the header out.",
            )
        owner = exchange.request.headers.get("owner-id")
        if owner is not None and certificate.principal_id is not None and owner != certificate.principal_id:
            raise _refuse_unauthenticated(
                "owner-id-certificate-mismatch",
                "Owner-ID and the client certificate name different owners.",
                "Leave Owner-ID out.",
            )

    def conditions(self, exchange: Exchange) -> Sequence[Condition]:
        """Keep the verdict while the certificate counts, which each request checks."""
        certificate, objection = exchange.peer.certificate, self._objection
        if certificate is None:
            return ()
        since, until = certificate.valid_from, certificate.valid_to

        def counts(later: Exchange) -> bool:
            now = later.now
            return since <= now <= until and (objection is None or not objection(certificate, now))

        return (counts,)

    @staticmethod
    def _refuse_revoked(why: str) -> None:
        """Refuse a revoked certificate; the connection stays open for further refusals (companion section 9.3)."""
        if why == "unknown":
            raise _refuse_unauthenticated(
                "revocation-unknown",
                "The revocation list is out of date, so the host cannot tell whether the certificate was revoked.",
                "Try again once the operator has renewed the list: agtp cert crl.",
            )
        raise Refusal(Reason.CERTIFICATE_REVOKED)


@implementer(ICacheableGate)
class CallerGate:
    """
    The calling agent is one this host knows, and is not stopped: core v08 section 6.5, design decision 4.

    Unknown identifiers end here, before any state is kept for them (T-ID-40). A stranger who names an unknown or
    stopped agent is refused later if headers are not trusted: by the gates of authority, which refuse every such caller
    if a name is not enough (``Exchange.doubted``). So the answer discloses whether an agent is known only if a name is
    enough to call, or no name is needed: AGTP-159 requires 401 there.

    :param floor: how surely a caller of what changes state must be known. Headers are believed where it is ``header``.
    :param may_try: whether an operator may call with the rights of an agent (:mod:`agtphost.dispatch.trial_calls`).
    """

    name = "caller and lifecycle"

    def __init__(
        self,
        directory: IAgentDirectory,
        states: States,
        authorities: ClientAuthorities | None = None,
        narrowings: Narrowings = lambda agent_id: None,
        floor: Assurance = Assurance.HEADER,
        may_try: MayTry = lambda peer: False,
    ) -> None:
        self._may_try = may_try
        self._doubts = floor > Assurance.HEADER
        self._narrowings = narrowings
        self._by_id = directory.by_id
        self._states = states
        self._vouches = None if authorities is None else authorities.vouches

    def check(self, exchange: Exchange) -> Awaitable[None] | None:
        certificate = exchange.peer.certificate
        proven = certificate.agent_id if certificate is not None else None
        tried = exchange.peer.rights_of
        if tried:
            require_trial(exchange, self._may_try)
        agent_id = tried or exchange.agent_id or proven
        if agent_id is None:
            return None
        exchange.call.agent_id = "" if tried else agent_id
        caller = self._by_id(agent_id)
        if caller is None:
            unknown = _refuse_unauthenticated(
                "agent-unknown",
                "This host knows no agent with that Agent-ID.",
                "Have the operator add the agent's Genesis and Identity Document to the known agents, then reload.",
                cures.RELOAD,
            )
            if certificate is not None or not self._doubts:
                raise unknown
            exchange.assurance, exchange.doubted = Assurance.HEADER, unknown
            return None
        if proven is not None and certificate is not None:
            self._require_own(certificate, caller)
        exchange.caller = caller
        exchange.narrowings = self._find_narrowings(exchange, agent_id)
        exchange.call.caller, exchange.call.trial = ("", caller.name) if tried else (caller.name, "")
        if tried or (proven is not None and caller.genesis is not None):
            exchange.assurance = Assurance.CERTIFICATE
        elif exchange.peer.vouched:
            exchange.assurance = Assurance.GATEWAY
        else:
            exchange.assurance = Assurance.HEADER
        exchange.call.proven = exchange.assurance > Assurance.HEADER and not tried
        # Last: the record of the refusal then says who was stopped, and how surely it was that agent.
        try:
            refuse_stopped(self._states(caller), "caller", agent_id)
        except StoppedAgent as stopped:
            if exchange.assurance is not Assurance.HEADER or not self._doubts:
                raise
            exchange.doubted = stopped
        return None

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """
        Keep the verdict while the caller is the same agent in the same state, not narrowed, with a trusted certificate.
        """
        caller, certificate = exchange.caller, exchange.peer.certificate
        peer = exchange.peer
        if caller is None or exchange.narrowings or peer.delegation is not None or peer.rights_of:
            return None
        agent_id, state = caller.agent_id, self._states(caller)
        by_id, states, narrowings, vouches = self._by_id, self._states, self._narrowings, self._vouches
        proven = certificate is not None and certificate.agent_id is not None

        def is_unchanged(later: Exchange) -> bool:
            return (
                by_id(agent_id) is caller
                and states(caller) is state
                and narrowings(agent_id) is None
                and (vouches is None or not proven or vouches(certificate, caller))  # type: ignore[arg-type]
            )

        return (is_unchanged,)

    def _find_narrowings(self, exchange: Exchange, agent_id: str) -> tuple[GrantSet, ...]:
        lineage = exchange.peer.delegation
        if lineage is None:
            own = self._narrowings(agent_id)
            return () if own is None else (own,)
        found = map(self._narrowings, dict.fromkeys((agent_id, *lineage.chain)))
        return tuple(each for each in found if each is not None)

    def _require_own(self, certificate: PeerCertificate, caller: Agent) -> None:
        """Require that the certificate has the agent's owner and key, and an authority that may vouch for it."""
        owner = certificate.principal_id
        if owner is not None and caller.owner_id is not None and owner != caller.owner_id:
            raise _refuse_unauthenticated(
                "certificate-owner-mismatch",
                "The client certificate and the agent's documents name different owners.",
                "Have the certificate issued again.",
            )
        genesis = caller.genesis
        named = None if genesis is None else genesis.agent_key
        if named is not None and certificate.fingerprint != named.fingerprint:
            raise Refusal(Reason.AGENT_KEY_MISMATCH)
        if self._vouches is not None and not self._vouches(certificate, caller):
            raise Refusal(Reason.CERTIFICATE_AUTHORITY_MISMATCH)


@implementer(ICacheableGate)
class AddresseeGate:
    """
    Finds the hosted agent that is addressed: design decision 5.

    The path ``/agents/NAME`` (a label or an Agent-ID), else the name asked for
    by SNI, else the only hosted agent, else the hosted agent whose Agent-ID
    the header has, as deployed clients expect.

    :param own_refusal: wire verbs whose calls of stopped agents are refused later, with another status.
    :param own: where this host is reached, for addresses in its answers.
    :param documents: which requests besides those of DESCRIBE ask for a document about an agent.
    :param discloses: whether a caller may read documents about an agent; to all others there is none of that name.
    """

    name = "addressee and lifecycle"

    def __init__(
        self,
        directory: IAgentDirectory,
        states: States,
        by_server_name: Mapping[str, str],
        moved_to: str = "",
        own_refusal: Collection[str] = (),
        own: agent_paths.Authority = agent_paths.NOWHERE,
        documents: Documents = lambda verb, rest: False,
        discloses: Discloses = lambda exchange, agent: True,
    ) -> None:
        self._discloses = discloses
        self._own = own
        self._documents = documents
        self._reaching = REACHABLE_WHEN_STOPPED.union(own_refusal)
        self._moved_to = moved_to
        self._directory = directory
        self._states = states
        self._by_server_name = by_server_name

    def check(self, exchange: Exchange) -> None:
        method = exchange.request.method
        path = exchange.path = exchange.request.path
        if self._moved_to and (path.startswith("/agents/") or path == "/agents"):
            self._refuse_moved(exchange, path)
        reaching = method in self._reaching
        if path.startswith("/agents/"):
            agent: Agent | None = self._find_by_path(exchange, path)
            rest = path[len("/agents/") :].partition("/")[2]
            if method != "DESCRIBE":
                if self._documents(method, rest):
                    reaching = True
                else:
                    exchange.path = f"/{rest}"
        elif path == "/agents" and (method == "QUERY" or self._documents(method, None)):
            # The namespace belongs to the host, and stays even if its only agent is stopped.
            agent = None
        else:
            agent = self._fallback(exchange.peer, exchange.caller)
        exchange.agent = agent
        if agent is None:
            return
        state = self._states(agent)
        if state.status is LifecycleStatus.DEPRECATED:
            exchange.deprecated = state
        if not reaching:
            refuse_stopped(state, "agent", agent.agent_id)
        else:
            exchange.agent_state = state

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Keep the verdict while the same agent is addressed, in the same state."""
        agent, path = exchange.agent, exchange.request.path
        peer, caller, fallback, states = exchange.peer, exchange.caller, self._fallback, self._states
        if path.startswith("/agents"):
            named, label = self._directory.by_name, path[len("/agents/") :].partition("/")[0]
            if agent is None or named(label) is not agent:
                return None
            state = states(agent)
            return (lambda later: named(label) is agent and states(agent) is state,)
        if agent is None:
            return (lambda later: fallback(peer, caller) is None,)
        state = states(agent)
        return (lambda later: fallback(peer, caller) is agent and states(agent) is state,)

    def _refuse_moved(self, exchange: Exchange, path: str) -> None:
        """Agents are under a subdomain here; lists that DISCOVER gives stay, and so do calls made inside."""
        peer = exchange.peer
        listing = path == "/agents" and exchange.request.method == "DISCOVER"
        if peer.server_name != self._moved_to and peer.transport == "agtp" and not listing:
            raise agent_paths.redirect(self._moved_to, path)

    def _find_by_path(self, exchange: Exchange, path: str) -> Agent:
        label, _, rest = path[len("/agents/") :].partition("/")
        agent = self._directory.by_name(label)
        if agent is None and is_agent_id(label):
            found = self._directory.by_id(label)
            agent = found if found is not None and found.hosted else None
        method = exchange.request.method
        about = method == "DESCRIBE" or self._documents(method, rest)
        if agent is None or (about and not self._discloses(exchange, agent)):
            agent_paths.refuse_label(label, rest, exchange.peer.server_name, self._own)
        caller = exchange.caller
        if (
            caller is not None
            and caller.hosted
            and caller is not agent
            and label == agent.name
            and exchange.assurance is Assurance.HEADER
            and exchange.peer.transport == "agtp"
        ):
            # Deployed clients name the agent they mean by Agent-ID: an alias then has to mean the same one.
            raise agent_paths.alias_conflict(label, caller.agent_id)
        return agent

    def _fallback(self, peer: Peer, caller: Agent | None) -> Agent | None:
        if peer.server_name is not None:
            label = self._by_server_name.get(peer.server_name)
            if label is not None:
                return self._directory.by_name(label)
        if (only := self._directory.only) is not None:
            return only
        return caller if caller is not None and caller.hosted else None


def name_certified(exchange: Exchange, gates: Iterable[IGate]) -> None:
    """
    Name the caller of what was refused before the gates of identity, where the certificate proves it.

    A header that names another agent, or several, leaves the caller unknown.
    """
    certificate, headers = exchange.peer.certificate, exchange.request.headers
    if certificate is None or certificate.agent_id is None or "agent-id" in headers.repeated_names:
        return
    if headers.get("agent-id") not in (None, certificate.agent_id):
        return
    with suppress(Refusal):
        for gate in gates:
            if isinstance(gate, (ConnectionGate, CallerGate)):
                gate.check(exchange)
