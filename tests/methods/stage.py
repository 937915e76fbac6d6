"""A host in memory with its real built-in methods, gates and dispatcher, for tests of single methods."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from zope.interface import implementer

from agtphost.audit.lifecycle import LifecycleTable
from agtphost.contract.binding import Binding, Resolution
from agtphost.contract.policy import MethodPolicy
from agtphost.contract.table import EndpointTable
from agtphost.dispatch.dispatcher import Dispatcher
from agtphost.dispatch.gates.action import ActionGate
from agtphost.dispatch.order import Collaborators, gates
from agtphost.dispatch.sealing import Sealer
from agtphost.errors import Refusal
from agtphost.handlers.authorization import Authorization
from agtphost.host import bindings
from agtphost.iagtp import IHandler, ILedger, IPayloadAdapter, IRecordStore
from agtphost.identity.agents import Agent
from agtphost.identity.certificates import (
    create_authority,
    issue_agent_certificate,
    issue_client_certificate,
    parse_peer_certificate,
)
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.genesis import Genesis
from agtphost.identity.keys import SigningKey
from agtphost.identity.peer import Assurance, Peer, PeerCertificate
from agtphost.identity.trust import TrustPosture
from agtphost.methods.discovery.candidates import Candidates
from agtphost.methods.discovery.description import Description
from agtphost.methods.discovery.discover import Discovery, document
from agtphost.methods.discovery.namespace import Namespace
from agtphost.methods.discovery.visibility import Visibility
from agtphost.methods.discovery.zones import Zones
from agtphost.methods.domains import Domains
from agtphost.methods.execution import Carrier
from agtphost.methods.inspection.inspect import Inspection, ReadACL
from agtphost.methods.lifecycle import Lifecycle, LifecycleAuth
from agtphost.methods.overrides import Overrides
from agtphost.stores import MemoryStore, OffReactorRecords
from agtphost.stores.rows import StateRow
from agtphost.vocabulary import media_types
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.paths import PathGrammar
from agtphost.vocabulary.status import Status
from agtphost.wire.events import Response
from tests.fakes import FakeLedger
from tests.identity.samples import document as identity_document
from tests.identity.samples import genesis_octets, key_of
from tests.memory import body_of as body_of
from tests.memory import request_of

MCP = "application/vnd.mcp.tools+json"
SINCE = "2026-06-01T00:00:00.000Z"
SIGNING = key_of("signing")
REGISTRAR = key_of("registrar")
DEMO = key_of("demo")
STRANGER = key_of("stranger")

_NOW = datetime.now(UTC)
_AUTHORITY = create_authority(now=_NOW)
_CATALOG = Catalog.load(None)


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def of_key(key: SigningKey) -> PeerCertificate:
    """A client certificate that names no agent, parsed from its DER."""
    certificate = issue_client_certificate(
        _AUTHORITY, key.public, label="who", organization="acme", now=_NOW - timedelta(minutes=1)
    )
    return parse_peer_certificate(_der(certificate))


def of_agent(
    agent_id: str, key: SigningKey = DEMO, commitment: Iterable[str] = ("booking:*", "mcp:*")
) -> PeerCertificate:
    """An agent's client certificate, parsed from its DER."""
    certificate = issue_agent_certificate(
        _AUTHORITY,
        key.public,
        label="demo",
        organization="acme",
        agent_id=agent_id,
        principal_id="acme.tld",
        commitment=commitment,
        now=_NOW - timedelta(minutes=1),
    )
    return parse_peer_certificate(_der(certificate))


def of_other_kind(kind: str) -> PeerCertificate:
    """A client certificate over an RSA or ECDSA key, parsed from its DER."""
    key: Any = rsa.generate_private_key(65537, 2048) if kind == "rsa" else ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, kind)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(_AUTHORITY.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOW - timedelta(hours=1))
        .not_valid_after(_NOW + timedelta(hours=1))
        .sign(_AUTHORITY.key, hashes.SHA256())
    )
    return parse_peer_certificate(_der(certificate))


def agent(
    name: str,
    *,
    hosted: bool,
    genesis: bool = True,
    scopes: Iterable[str] = ("booking:*", "mcp:tools:execute"),
    status: str = "active",
    zone: str | None = "zone:acme",
) -> Agent:
    """An agent whose Genesis the registrar really issued, or one without a Genesis."""
    origin = Genesis.load(genesis_octets(REGISTRAR, members={"org_label": name}))
    served = identity_document(
        agent_id=origin.agent_id,
        name=name,
        status=status,
        trust_tier=2,
        verification_path="org-asserted",
        trust_warning="verification-incomplete",
        trust_explanation="Nobody checked the domain.",
    )
    return Agent(
        agent_id=origin.agent_id,
        name=name,
        description=f"the agent {name}",
        principal="Acme",
        owner_id="acme.tld",
        document=served,
        document_octets=json.dumps(served).encode(),
        genesis=origin if genesis else None,
        posture=TrustPosture(trust_tier=2, verification_path="org-asserted", trust_warning="verification-incomplete"),
        scopes=frozenset(scopes),
        hosted=hosted,
        document_status=status,
        governance_zone=zone,
    )


DESK = agent("desk", hosted=True)
BARE = agent("bare", hosted=True, genesis=False)
"""A hosted agent of which no Genesis is loaded."""

CALLER = agent("demo", hosted=False)


@implementer(IPayloadAdapter)
class Toolbox:
    """An adapter whose tools are given as bindings."""

    name = "mcp"
    payload_types = frozenset({MCP})

    def __init__(self, *tools: Binding) -> None:
        self.bound = tools
        self.resolved: list[tuple[str, Any, str | None]] = []
        self.state = "ready"

    def resolve(self, action: str, payload: Any, server: str | None) -> Resolution:
        self.resolved.append((action, payload, server))
        for tool in self.bound:
            if action == "mcp.tools.call" and isinstance(payload, dict) and payload.get("tool") == tool.name:
                return Resolution(binding=tool, input=payload.get("arguments") or {})
        raise Refusal(Status.UNPROCESSABLE, "tool-unknown", "No such tool.")

    def tools(self) -> Iterable[Binding]:
        return self.bound

    def upstreams(self) -> Sequence[Mapping[str, object]]:
        return []

    def definition(self, server: str, name: str) -> Any:
        return None

    def hosted(self) -> Sequence[Mapping[str, object]]:
        return [{"protocol": "mcp", "name": "files", "state": self.state, "tools": len(self.bound)}]


def reading(store: MemoryStore) -> IRecordStore:
    """The reading side of a store in memory, without a thread."""
    records: IRecordStore = OffReactorRecords(
        store.reader(), lambda function, *arguments: succeed(function(*arguments))
    )
    return records


class Stage:
    """
    A host whose collaborators can be exchanged.

    :param endpoints: the operator's bindings.
    :param manifest: what DISCOVER / publishes.
    """

    def __init__(
        self,
        *,
        auth: LifecycleAuth = LifecycleAuth.GENESIS_ISSUER,
        acl: ReadACL = ReadACL.PUBLIC,
        operators: frozenset[str] = frozenset(),
        anonymous: bool = True,
        floor: Assurance = Assurance.CERTIFICATE,
        disclosure: str = "public",
        agents: Sequence[Agent] = (DESK, BARE, CALLER),
        endpoints: Sequence[Binding] = (),
        adapter: IPayloadAdapter | None = None,
        ledger: ILedger | None = None,
        states: LifecycleTable | None = None,
        records: IRecordStore | None = None,
        manifest: Any = None,
        apis: Sequence[Mapping[str, Any]] = (),
        overrides: Mapping[str, IHandler] | None = None,
        zones: Mapping[str, Sequence[str]] | None = None,
        zone_filtering: bool = False,
        signer: Any = SIGNING,
        targets: Mapping[str, Any] | None = None,
        domains: Callable[[AgentDirectory], Domains] | None = None,
    ) -> None:
        self.directory = AgentDirectory(agents)
        self.states = LifecycleTable() if states is None else states
        self.sealed = FakeLedger()
        self.ledger: Any = self.sealed if ledger is None else ledger
        self.clock = Clock()
        adapters = () if adapter is None else (adapter,)
        carrier = Carrier()
        everything: list[Binding] = []
        authorization = Authorization(operators, self.directory)
        visibility = Visibility(
            self.states.state_of,
            Zones(zones, filtering=zone_filtering),
            disclosure=disclosure,
            authorization=authorization,
        )
        built_ins = bindings.built_ins(
            _CATALOG,
            discover=Discovery(
                self.directory,
                lambda: (*everything, *endpoints),
                adapters,
                manifest or (lambda disclosed, known: document({"disclosed": disclosed}, media_types.MANIFEST_JSON)),
                visibility,
                apis=apis,
                candidates=Candidates(
                    self.directory,
                    lambda: (*everything, *endpoints),
                    adapters,
                    lambda function, *arguments: succeed(function(*arguments)),
                    visibility,
                    categories=lambda method: _CATALOG.entries[method].categories,
                ),
                overrides=Overrides(overrides),
            ),
            describe=Description(
                self.directory,
                lambda: bindings.methods_of((*everything, *endpoints)),
                adapters,
                self.states.state_of,
                Namespace(
                    self.directory,
                    self.states.state_of,
                    signer,
                    org_domain="agtp.test",
                    certificate_fingerprint="0" * 64,
                    now=lambda: SINCE,
                ),
                visibility=visibility,
            ),
            inspect=Inspection(records or reading(MemoryStore()), acl, authorization, more=targets),
            change=Lifecycle(
                self.directory,
                self.states.state_of,
                auth,
                domains=None if domains is None else domains(self.directory),
            ),
            carrier=carrier,
        )
        everything.extend(built_ins)
        self.built_ins = built_ins
        policy = MethodPolicy()
        self.dispatcher = Dispatcher(
            gates(
                Collaborators(
                    directory=self.directory,
                    states=self.states.state_of,
                    by_server_name={},
                    catalog=_CATALOG,
                    custom_methods=(),
                    grammar=PathGrammar(_CATALOG.methods),
                    policy=policy,
                    table=EndpointTable((*built_ins, *endpoints)),
                    action=ActionGate(carrier, adapters),
                    ledger=self.ledger,
                    anonymous_discovery=anonymous,
                    floor=floor,
                    authorization=authorization,
                )
            ),
            self.ledger,
            Sealer("agtp.test", ("DISCOVER",)),
            self.clock,
            30.0,
        )

    def put(self, who: Agent, status: str) -> None:
        """Record a lifecycle state as a committed event would."""
        self.states.apply(
            who.agent_id, StateRow(status=status, since=SINCE, reason=None, successor=None, deadline=None)
        )

    def start(
        self,
        method: str,
        path: str = "/",
        body: Mapping[str, Any] | None = None,
        *,
        certificate: PeerCertificate | None = None,
        headers: Mapping[str, str] | None = None,
        query: str | None = None,
    ) -> Deferred[Response]:
        """Dispatch one request."""
        request = request_of(method, path, body, headers, query)
        peer = Peer(address="127.0.0.1", certificate=certificate)
        return Deferred.fromCoroutine(self.dispatcher.dispatch(request, peer))

    def ask(self, method: str, path: str = "/", body: Mapping[str, Any] | None = None, **options: Any) -> Response:
        """Dispatch one request, which must be answered without waiting."""
        answers: list[Response] = []
        self.start(method, path, body, **options).addCallback(answers.append)
        # A large answer is written in several turns where the machine is busy: they are due at once.
        while not answers and any(call.getTime() <= self.clock.seconds() for call in self.clock.getDelayedCalls()):
            self.clock.advance(0)
        assert answers, "the dispatcher is still waiting"
        return answers[0]
