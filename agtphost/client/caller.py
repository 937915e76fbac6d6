"""
The knowledge and decisions of a client, independent of its transport: shared by all clients.

Who it is, which Agent-IDs are gone for good, whether a failed call is made
again, and how a URI is resolved.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from agtphost.client.bootstrap import ASK_DOMAINS, BootstrapPolicy, Bootstraps
from agtphost.client.catalogs import Agreement
from agtphost.client.confirmation import Confirm, may_matter
from agtphost.client.errors import AgentGone, VerificationFailed
from agtphost.client.manifests import Manifests
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, Identity, PreparedCall, Scopes, parse_uri, prepare, with_field
from agtphost.client.retries import RetryPolicy
from agtphost.client.service_documents import ACCEPT, Definition
from agtphost.client.supported_methods import SupportedMethods
from agtphost.client.terminal import escape
from agtphost.client.tls import TLSSettings, settings_of
from agtphost.vocabulary.catalog_versions import HEADER as CATALOG_VERSION
from agtphost.vocabulary.lru import keep
from agtphost.vocabulary.status import Status
from agtphost.vocabulary.uris import AgtpUri, Form
from agtphost.wire.codec import Limits

if TYPE_CHECKING:
    from agtphost.client.carriers import CarrierMemory, Fallback

MAX_AGREED = 4096
"""Servers whose catalog version is remembered; beyond that the oldest is forgotten."""

MAX_GONE = 4096
"""Agent-IDs remembered as retired; beyond that the oldest is asked for once more."""

_LOOKS_AT_RETIRED = frozenset({"DISCOVER", "DESCRIBE", "INSPECT"})
"""Methods by which a retired agent's state can still be read (companion section 6.3)."""


MAX_DEFINED = 64
"""Servers whose endpoints are remembered, for a client that asks before calls."""

DEFINITIONS_SECONDS = 300.0
"""For how long."""


Resolvers = str | AgtpUri | Sequence[str | AgtpUri] | None
"""Hosts that know where Agent-IDs are: a registry, or the hosts that the caller knows."""


class CallOptions(TypedDict, total=False):
    """The keywords of a call besides URI, method, path and input; all may be left out."""

    body: bytes | None
    """Octets to send instead of the input."""

    content_type: str | None
    """The body's type; ``application/vnd.agtp+json`` if left out."""

    headers: tuple[tuple[str, str], ...] | list[tuple[str, str]]
    """Further fields; one that the client would write itself replaces that."""

    scopes: Scopes
    task_id: str | None
    session_id: str | None
    idempotency_key: str | None
    context: Mapping[str, Any] | None
    """The envelope's ``context``."""

    anonymous: bool
    """Leaves Agent-ID out."""

    idempotent: bool | None
    """Whether the endpoint is known to be idempotent (``semantic.is_idempotent``); None: as its method is."""

    confidence: float | None
    """
    From 0 to 1: how sure the caller is that this call is what was wanted. A client with ``confirm`` asks where that is
    less than the endpoint needs; it is not sent.
    """

    cancelled_by_message: bool
    """
    Whether the caller tells the server of a cancellation itself, by another call. Then a cancelled call of the Twisted
    client keeps its connection: the answer is read and dropped, within bounds of octets and time.
    """


class ClientOptions(TypedDict, total=False):
    """The keywords that make a client, of either kind; all may be left out."""

    trust: str | Path | None
    """A PEM file of CA certificates; None for the platform's."""

    cert: str | Path | None
    """A PEM file with the client certificate; its Agent-ID is the default of ``agent_id``."""

    key: str | Path | None
    """A PEM file with its private key."""

    agent_id: str | None
    """The agent to call as; None: the one that the certificate names, or none."""

    scopes: Scopes
    """What calls claim unless they say otherwise."""

    session_id: str | None
    """What calls carry unless they say otherwise."""

    resolver: Resolvers
    """
    The URI of a host that knows Agent-IDs, or several; needed for Form 1 URIs. A URI is resolved by asking them in
    this order; calls go to the first.
    """

    connect_timeout: float
    """Seconds for name, TCP and TLS together: 10."""

    timeout: float
    """Seconds for a whole call, connecting and waiting for a free connection included: 60."""

    connections: int
    """
    How many to one destination at most: 8. Over QUIC all calls share one, unless the client is the blocking one.
    """

    idle: float
    """Seconds that a connection is kept unused: 50."""

    stay_connected: bool
    """
    Whether the Twisted client opens a new connection in the background where a cancelled call has ended the last one
    to a host: False.
    """

    retries: int
    """How many times a repeatable call answered with 429 or 503 is made again: 0."""

    retry_seconds: float
    """
    Seconds from its first failure on in which a repeatable call is made again, where no host can be reached, a
    connection ends without an answer, or the answer is 429 or 503: 0. Some seconds more than ``[cluster]
    takeover_after`` outlast the takeover by another host.
    """

    limits: Limits
    """Sizes of an answer."""

    bootstrap: BootstrapPolicy | None
    """How domains are asked for their AGTP endpoint when a URI is resolved; None: no domain is asked."""

    plain_parameters: bool
    """Sends parameters at the top of the body, for servers that know no envelope."""

    quic: bool | Literal["auto"]
    """
    Whether calls go over QUIC instead of TLS, which needs ``agtphost[quic]`` and a host that listens for it: False.
    ``auto``: over QUIC where the host's manifest offers it and it answers, else over TLS
    (:mod:`~agtphost.client.carriers`).
    """

    tls_port: int
    """
    With ``quic=True``, for the client of one host: its port for TLS, where that is known and QUIC has another one.
    The error of a host that is silent by UDP then says whether it answers there.
    """

    on_fallback: Callable[[Fallback], object] | None
    """With ``quic="auto"``: takes each host that offers QUIC and had to be called over TLS, once in five minutes."""

    carrier_memory: CarrierMemory | None
    """With ``quic="auto"``: what remembers the carriers of hosts between clients; None: each client asks once."""

    confirm: Confirm | None
    """
    Asks whether a call is to be made that cannot be undone, or of which the caller is less sure than it has to be
    (:mod:`~agtphost.client.confirmation`). None: such calls are made unasked.
    """


class Caller:
    """
    The identity and memory of one client.

    :raises agtphost.client.errors.InvalidCall: for files and identifiers that cannot be used.
    :raises TypeError: for options that no client has.
    """

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        unknown = sorted(options.keys() - ClientOptions.__optional_keys__)
        if unknown:
            # Without a misspelt trust or cert a client would make other calls than its owner meant.
            known = ", ".join(sorted(ClientOptions.__optional_keys__))
            raise TypeError(f"a client has no option {', '.join(unknown)}; its options are {known}")
        self._plain = options.get("plain_parameters", False)
        self.confirm = options.get("confirm")
        self.definitions: OrderedDict[tuple[Destination, bool], tuple[float, tuple[Definition, ...]]] = OrderedDict()
        """
        The endpoints that servers list for this caller, or for anonymous ones, with the time until which each list
        counts.
        """

        self.settings: TLSSettings = settings_of(options.get("trust"), options.get("cert"), options.get("key"))
        agent_id = options.get("agent_id")
        if agent_id is None:
            certificate = self.settings.peer_certificate()
            agent_id = None if certificate is None else certificate.agent_id
        self.identity = Identity(agent_id=agent_id, scopes=options.get("scopes"), session_id=options.get("session_id"))
        self.policy = RetryPolicy(statuses=options.get("retries", 0), seconds=options.get("retry_seconds", 0.0))
        resolver = options.get("resolver")
        given = (resolver,) if isinstance(resolver, (str, AgtpUri)) else resolver or ()
        self.resolvers = tuple(parse_uri(each) for each in given)
        self._resolver = self.resolvers[0] if self.resolvers else None
        self._gone: dict[str, None] = {}
        self.manifests = Manifests()
        self.supported = SupportedMethods()
        self.bootstraps = Bootstraps(options.get("bootstrap", ASK_DOMAINS))
        self._catalogs: OrderedDict[Destination, str] = OrderedDict()

    def manifest_call(
        self, server: str | AgtpUri | Destination, part: str = "", *, anonymous: bool = True
    ) -> PreparedCall:
        """
        Return the call that reads a server's manifest (AGTP-API section 8.10).

        :param part: the token of a part behind the first one.
        :param anonymous: whether it leaves out who calls.
        """
        if isinstance(server, Destination):
            server = AgtpUri(form=Form.SERVER, host=server.host, port=server.port)
        asked = {"part": part} if part else None
        return self.prepare(server_of(server), "DISCOVER", "/", asked, anonymous=anonymous)

    def prepare(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str,
        input: Mapping[str, Any] | None,
        *,
        streaming: bool = False,
        **options: Unpack[CallOptions],
    ) -> PreparedCall:
        """
        Return a call ready to be sent.

        :raises agtphost.client.errors.InvalidCall: if it is malformed.
        :raises AgentGone: if it would go to, or come from, an agent that is known to be retired.
        """
        call = prepare(
            self.bootstraps.locate(parse_uri(uri)),
            method,
            path,
            input,
            identity=self.identity,
            resolver=self._resolver,
            streaming=streaming,
            plain=self._plain,
            **options,
        )
        self._refuse_gone(call)
        self.supported.warn(call)
        version = self._catalogs.get(call.destination) if self._catalogs else None
        return call if version is None else with_field(call, CATALOG_VERSION, version)

    def asks_about(self, call: PreparedCall) -> bool:
        """Return whether a person may have to agree to a call before it is made."""
        return self.confirm is not None and (call.confidence is not None or may_matter(call.request.method))

    def definitions_call(self, server: Destination, *, anonymous: bool) -> PreparedCall:
        """Return the call that reads what a server says of its endpoints to one caller (AGIS v01 section 12)."""
        uri = AgtpUri(form=Form.SERVER, host=server.host, port=server.port)
        return self.prepare(uri, "DISCOVER", "/", None, headers=(("Accept", ACCEPT),), anonymous=anonymous)

    def keep_definitions(
        self, server: Destination, found: tuple[Definition, ...], now: float, *, anonymous: bool
    ) -> tuple[Definition, ...]:
        """Remember them for a while."""
        keep(self.definitions, (server, anonymous), (now + DEFINITIONS_SECONDS, found), MAX_DEFINED)
        return found

    def remember_agreement(self, uri: str | AgtpUri, agreement: Agreement) -> str:
        """Remember the catalog version that calls to a server state from now on; return it."""
        server = parse_uri(uri)
        place = Destination(server.host, server.port)
        self._catalogs.pop(place, None)
        if agreement.stated:
            keep(self._catalogs, place, agreement.version, MAX_AGREED)
        return agreement.version

    def _refuse_gone(self, call: PreparedCall) -> None:
        """Agent-IDs answered with 410 are never called again (AGTP-076)."""
        who = ""
        if call.addressee in self._gone and call.request.method not in _LOOKS_AT_RETIRED:
            who = call.addressee
        elif call.caller_id is not None and call.caller_id in self._gone:
            who = call.caller_id
        if who:
            raise AgentGone(f"The agent {who} is retired for good.", "A successor has another Agent-ID.")

    def note(self, call: PreparedCall, reply: Reply) -> None:
        """Remember what a final reply says about the agents of its call, and about its server's manifest."""
        self.manifests.note(call, reply)
        self.supported.note(call, reply)
        if reply.status != Status.GONE:
            return
        named = reply.document.get("agent_id")
        known = {call.agent_id, call.caller_id} - {None}
        gone = {named} if isinstance(named, str) and named in known else set()
        if call.addressee and named != call.caller_id:
            gone.add(call.addressee)
        elif not gone and call.caller_id is not None and not isinstance(named, str):
            gone.add(call.caller_id)
        for agent in gone:
            self._gone[agent] = None
        while len(self._gone) > MAX_GONE:
            del self._gone[next(iter(self._gone))]


def server_of(uri: str | AgtpUri) -> AgtpUri:
    """Return the URI of the server that answers for ``uri``; an Agent-ID without a host stays as it is."""
    target = parse_uri(uri)
    return AgtpUri(form=Form.SERVER, host=target.host, port=target.port) if target.host else target


def no_manifest(reply: Reply) -> VerificationFailed:
    """Return the error for a server that does not show its manifest."""
    return VerificationFailed(
        f"The server did not show its manifest ({reply.status} {escape(reply.reason)}).",
        "Give its signing.pub as a file.",
    )
