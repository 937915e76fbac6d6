"""The sections of ``host.toml`` that describe the host itself: interface section 3."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, ValidationInfo

from agtphost.config import secret
from agtphost.config.admin import Admin
from agtphost.config.agis import AgisSection
from agtphost.config.anchors import AgentDomain, Anchor
from agtphost.config.approvals import ApprovalsSection
from agtphost.config.attestation import AttestationSection
from agtphost.config.cluster import ClusterSection
from agtphost.config.delegation import DelegationSection
from agtphost.config.gateway import GatewaySection, absent_gateway
from agtphost.config.grants import GrantSection
from agtphost.config.http import Http
from agtphost.config.key_lines import Places
from agtphost.config.limits import Limits
from agtphost.config.mcp_front import MCP
from agtphost.config.merchant import MerchantSection
from agtphost.config.methods import MethodsSection
from agtphost.config.metrics import MetricsSection
from agtphost.config.operators import OperatorSection
from agtphost.config.plugins import FeatureSection, GateSection, PluginSection
from agtphost.config.policies import Policies
from agtphost.config.published import API, DataClass, ManifestSection, WellKnown
from agtphost.config.quic import QuicSection
from agtphost.config.registry import RegistrySection
from agtphost.config.search import SearchSection
from agtphost.config.tls import TLS, ServerName
from agtphost.config.traces import TracesSection
from agtphost.config.values import (
    CanonicalAgentID,
    FilePath,
    Fingerprint,
    Items,
    Line,
    Password,
    Seconds,
    Section,
    ServerId,
    StateDirectory,
    Table,
    Token,
    absent,
    in_state,
    load_context,
)
from agtphost.config.web_upstreams import A2A, ACP
from agtphost.config.witness_settings import HostURI, WitnessHost, WitnessSection
from agtphost.vocabulary import database_url
from agtphost.vocabulary.addresses import is_loopback
from agtphost.vocabulary.foreign_errors import split
from agtphost.vocabulary.regular_files import Stamp

_LOOPBACK_ENDPOINT = re.compile(
    r"tcp6?:.*\binterface=(?:127(?:\.[0-9]{1,3}){3}|\\:\\:1|localhost)(?::.*)?|unix:.*", re.ASCII
)


class Host(Section):
    """The section ``[host]``: the identity of this host."""

    server_id: ServerId = ""
    """The ``Server-ID`` of every response. Required."""

    operator: Line = ""
    """Who runs it, for people."""

    contact: Line = ""
    """Where to reach them."""

    profile: Literal["development", "production"] = "production"
    """``development`` creates its own keys and relaxes assurance on loopback (design decision 4)."""

    state_dir: StateDirectory = in_state("")
    """Everything the host writes; ``AGTPHOST_STATE_DIR`` overrides it."""

    @property
    def development(self) -> bool:
        """Whether the profile is ``development``."""
        return self.profile == "development"


def _address(value: Any) -> str:
    text = secret.text_of(value)
    if text == "localhost":
        raise ValueError("must be an IP address; write 127.0.0.1 for localhost")
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(f"must be an IP address such as 127.0.0.1, not {text[:60]!r}") from None


class Listen(Section):
    """The section ``[listen]``: where connections are accepted."""

    address: Annotated[str, BeforeValidator(_address)] = "127.0.0.1"
    """The IP address that is listened on; ``::`` is every one of this machine."""

    port: Annotated[int, Field(ge=0, le=65_535)] = 4480
    """0 lets the system choose."""

    endpoint: Line | None = None
    """
    A Twisted endpoint string instead of address and port. For a socket that systemd hands over,
    ``systemd:domain=INET:name=NAME``; then address and port only tell commands where the host is reached.
    """

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect; an endpoint without an interface counts as open."""
        if self.endpoint is not None:
            return _LOOPBACK_ENDPOINT.fullmatch(self.endpoint) is not None
        return is_loopback(ipaddress.ip_address(self.address))


class Wire(Section):
    """The section ``[wire]``: the one liberty of framing, and the one notation that bodies may have besides JSON."""

    strict_request_line: bool = False
    """Answer 400 to a request line of two tokens (design decision 2)."""

    yaml: bool = False
    """Read request bodies in YAML, of 64 KiB at the most (design decision 13)."""


def _store_url(value: Any, info: ValidationInfo) -> str:
    text = secret.text_of(value)
    scheme, separator, path = text.partition(":")
    if database_url.is_postgresql(text):
        return _database_url(text)
    if scheme != "sqlite" or not separator or path.startswith("//") or "\0" in path:
        raise ValueError("must be sqlite:, sqlite:PATH or postgresql://USER@HOST/DATABASE")
    context = load_context(info)
    database = context.folder / path if path else context.state_dir / "agtphost.sqlite3"
    return f"sqlite:{database}"


def _database_url(text: str) -> str:
    """Return the URL of a database; the password is refused, because URLs are printed."""
    try:
        has_password = database_url.has_password(text)
    except ValueError as error:
        raise ValueError(f"is not a URL: {split(error)[0]}") from error
    if has_password:
        raise ValueError(
            'has a password in it; remove it, and write password = "file:PATH", "credential:NAME" or "${VAR}" below it'
        )
    if not text.isprintable() or len(text) > 1024:
        raise ValueError("must be one line of at most 1024 printable characters")
    return text


class Store(Section):
    """The section ``[store]``: where records are kept."""

    url: Annotated[str, BeforeValidator(_store_url), Field(validate_default=True)] = "sqlite:"
    """
    ``sqlite:`` with an absolute path, once read; or ``postgresql://USER@HOST:PORT/DATABASE?OPTION=VALUE``, with the
    options of libpq. `agtp store init` makes the store in a database.
    """

    password: Password | None = None
    """Of the database's role, where it needs one."""

    require_synchronous_standby: bool = False
    """
    Refuse a database without a synchronous replica; without one, a failover can lose acknowledged records. Its absence
    is reported at each start and by `agtp status` in any case.
    """

    plugin: Line | None = None
    """Instead of ``url``: the name of an entry point of the group ``agtphost.plugins`` (``docs/extending/store``)."""

    settings: Table[str, Any] = Field(default_factory=dict)
    """What its factory is called with; the plugin says what it knows."""

    free_space_floor: Annotated[int, Field(ge=0)] = 268_435_456
    """Octets that must stay free on the store's disk; below it, requests are answered 503."""

    free_space_reserve: Annotated[int, Field(ge=0, le=1_073_741_824)] | None = None
    """
    Octets reserved in a file next to the database, for lifecycle methods and CONFIRM when the disk is full: 16 MiB in
    production, none in development.
    """


class Audit(Section):
    """The section ``[audit]``: how records are signed, and who may read them."""

    signing: bool = True
    """Whether records are signed; false only in development."""

    key: FilePath = in_state("signing.key")
    """PEM: the Ed25519 key that signs records, which only its owner may read."""

    envelope: Literal["jws", "cose"] = "jws"
    """How lifecycle events are signed; records on responses are always JWS (companion section 6.2)."""

    witness: FilePath = in_state("checkpoint.txt")
    """File that keeps the last checkpoint; on another disk it also notices a restored state directory."""

    witnesses: Items[HostURI] = ()
    """Hosts that are sent each checkpoint, and asked at start what they saw last."""

    witness_host: Items[WitnessHost] = ()
    """How they are reached, where the platform's authorities and no client certificate will not do."""

    witness_required: bool = False
    """Refuse to start while one of ``witnesses`` cannot be asked."""

    witness_plugin: Items[PluginSection] = ()
    """``[[audit.witness_plugin]]``: witnesses that the operator's own packages provide."""

    witness_seconds: Seconds = 10.0
    """The least time between two checkpoints sent to one of them."""

    read_acl: Literal["public", "agent_only", "operator_only"] = "public"
    """Core v08 section 7.2.4."""

    refusal_records_per_address: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """
    Refusals a minute from one address (one /64 of IPv6), without a certificate, that have a record each; those beyond
    it are summed up. 30; in development on loopback as good as all.
    """

    refusal_records_of_strangers: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """The same of all addresses together: 300."""

    refusal_records_per_agent: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """The same of one agent with its certificate: 600."""

    read_records_per_address: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """
    Answers a minute to callers without a certificate at one address, by what changes nothing, that have a record each;
    those beyond it are summed up. 60; in development on loopback as good as all.
    """

    read_records_of_strangers: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """The same of all addresses together: 300."""

    refusal_summary_seconds: Seconds = 60.0
    """How often summaries of refusals, of such reads and of lists are signed."""

    list_summaries: bool = True
    """
    Whether repeated reads of an unchanged list by one caller are summed up: within a minute the first has a record, and
    the others are counted. A list is what DISCOVER and the lists of agents, cards and MCP servers answer with.
    """

    operators: Items[Fingerprint] = ()
    """
    SHA-256 of public keys. Each is that of an administrator without a name: ``[[operator]]`` gives names
    and roles.
    """


def _subscriber(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("https", "agtp") or not parts.hostname or parts.username is not None or parts.fragment:
        raise ValueError("must be an https URL or an agtp URI, without user name and fragment")
    return value


class Lifecycle(Section):
    """The section ``[lifecycle]``: who may change an agent's state (design decision 10)."""

    auth: Literal["genesis_issuer", "open"] = "genesis_issuer"
    """
    Who revokes and reinstates: the issuer of the agent's Genesis, or anybody (``open``, only in development on
    loopback).
    """

    notify: Items[Annotated[str, AfterValidator(_subscriber)]] = ()
    """The subscribers of lifecycle events: https URLs (POST) and agtp URIs of hosts (NOTIFY to their operator)."""

    hosts: Items[CanonicalAgentID] = ()
    """
    Agent-IDs by which other hosts notify this one's operator of lifecycles and certificates: of their ``notify_cert``.
    Their messages have separate places in the operator's inbox.
    """

    notify_cert: FilePath | None = None
    """The client certificate shown to agtp subscribers: of an agent that they know."""

    notify_key: FilePath | None = None
    """The certificate's private key."""

    notify_ca: FilePath | None = None
    """Authority of the subscribers' certificates, where it is not a public one."""


class Identity(Section):
    """The section ``[identity]``: the agents of this host, and those it admits."""

    agents: FilePath | None = None
    """Directory of the hosted agents; None hosts none."""

    known_agents: FilePath = in_state("agents")
    """Directory of the agents admitted as callers."""

    trusted_issuers: Items[Line] = ()
    """Public keys of Genesis issuers: base64url, or the path of a PEM file written ``file:PATH``."""

    registrars: Table[Line, Items[Line]] = Field(default_factory=dict)
    """Registrars by governance zone; those of ``"*"`` count for zones that are not listed."""

    anchor: Items[Anchor] = ()
    """Further trust anchors: keys, and identity providers that publish issuers' keys."""

    server_names: Table[ServerName, Token] = Field(default_factory=dict)
    """Names asked for by SNI, each with the label of its hosted agent (design decision 5)."""

    redirect_to: AgentDomain | None = None
    """The subdomain that addresses of agents are redirected to (core v08 section 6.1); None: they are here."""


class CatalogSection(Section):
    """The section ``[catalog]``: the method catalog."""

    path: FilePath | None = None
    """None: the catalog that ships with the host."""

    versions: Items[FilePath] = ()
    """Further catalogs that requests can ask to be validated against (AGTP-API section 4.8)."""

    profiles: Items[FilePath] = ()
    """Files of the profiles that ``[policies.methods] profiles`` declares (core v08 section 7.4.3)."""


class Endpoints(Section):
    """The section ``[endpoints]``: the operator's own endpoints."""

    directory: FilePath | None = None
    """TOML files, one or more endpoints each; None serves none."""

    on_error: Literal["refuse", "skip"] = "refuse"
    """Whether a faulty endpoint keeps the host from starting (AGTP-API section 13.2)."""

    python_path: Items[FilePath] = ()
    """Directories that handler modules are imported from, searched before all others."""

    reload: bool | None = None
    """
    Whether a reload imports the modules of these directories again where one of them has changed; left out: in
    development only. Their code at module level runs again then, and what they hold in memory begins empty.
    """

    threads: Annotated[int, Field(ge=1, le=1_024)] = 16
    """Functions declared ``blocking`` that run at the same time."""


class Recipes(Section):
    """The section ``[recipes]``: the recipes of composition endpoints."""

    file: FilePath | None = None
    """A TOML file of recipes; None: the host has none."""


class Notify(Section):
    """
    The section ``[notify]``: whom NOTIFY and ESCALATE reach besides agents and the operator (core v08 sections 7.2.10,
    7.2.13).
    """

    people: Table[Token, Fingerprint] = Field(default_factory=dict)
    """
    Names of people, each with the SHA-256 fingerprint of the key of a client certificate, as ``agtp cert show FILE``
    prints it. A client with that key reads, answers and decides what is addressed to the name; nothing else identifies
    the person. A successor gets the name with another key, and sees what still waits.
    """

    groups: Table[Token, Items[Token]] = Field(default_factory=dict)
    """
    Names of groups, with their members: people, names of hosted agents, Agent-IDs, ``operator``; no groups. Each
    member gets a separate notification, and any one of them decides an escalation.
    """


class Query(Section):
    """The section ``[query]``: what QUERY and SUMMARIZE answer from, besides what can be called."""

    documents: FilePath | None = None
    """Directory of text, Markdown and JSON files that every caller may read; None exposes none."""


class Log(Section):
    """The section ``[log]``: the form of the log, and what is logged besides what concerns the operator."""

    format: Literal["text", "json"] = "text"
    """``json``: each line of the log is one JSON object, with time, level, logger, message and the parts of a call."""

    access: bool = False
    """
    One line a request, a JSON object: over HTTP with surface, address, method, path, status, milliseconds and
    ``audit_id`` where there is a record; of every call over AGTP with caller, method, path, tool, status, reason,
    milliseconds and ``audit_id``. Neither queries nor bodies are in it.
    """


class Config(Section):
    """All of ``host.toml``."""

    host: Host = absent()
    listen: Listen = Field(default_factory=Listen)
    tls: TLS = absent()
    quic: QuicSection = Field(default_factory=QuicSection)
    log: Log = Field(default_factory=Log)
    http: Http = Field(default_factory=Http)
    wire: Wire = Field(default_factory=Wire)
    limits: Limits = Field(default_factory=Limits)
    store: Store = absent()
    cluster: ClusterSection = absent()
    audit: Audit = absent()
    lifecycle: Lifecycle = Field(default_factory=Lifecycle)
    identity: Identity = absent()
    catalog: CatalogSection = Field(default_factory=CatalogSection)
    endpoints: Endpoints = Field(default_factory=Endpoints)
    recipes: Recipes = Field(default_factory=Recipes)
    notify: Notify = Field(default_factory=Notify)
    query: Query = Field(default_factory=Query)
    search: SearchSection = Field(default_factory=SearchSection)
    methods: MethodsSection = Field(default_factory=MethodsSection)
    policies: Policies = Field(default_factory=Policies)
    approvals: ApprovalsSection = Field(default_factory=ApprovalsSection)
    delegation: DelegationSection = Field(default_factory=DelegationSection)
    merchant: MerchantSection = Field(default_factory=MerchantSection)
    mcp: MCP = Field(default_factory=MCP)
    a2a: A2A = Field(default_factory=A2A)
    acp: ACP = Field(default_factory=ACP)
    api: Items[API] = ()
    data_class: Items[DataClass] = ()
    operator: Items[OperatorSection] = ()
    grant: Items[GrantSection] = ()
    gate: Items[GateSection] = ()
    adapter: Items[PluginSection] = ()
    observer: Items[PluginSection] = ()
    feature: Table[Token, FeatureSection] = Field(default_factory=dict)
    manifest: ManifestSection = Field(default_factory=ManifestSection)
    admin: Admin = Field(default_factory=Admin)
    gateway: GatewaySection = Field(default_factory=absent_gateway)
    wellknown: WellKnown = Field(default_factory=WellKnown)
    metrics: MetricsSection | None = None
    registry: RegistrySection | None = None
    agis: AgisSection = Field(default_factory=AgisSection)
    witness: WitnessSection = Field(default_factory=WitnessSection)
    attestation: AttestationSection = Field(default_factory=AttestationSection)
    traces: TracesSection | None = None

    file: Path = Field(default=Path(), exclude=True)
    """The file this was read from, absolute."""

    _places: Places = PrivateAttr(default_factory=Places)

    def read_from(self, file: Path, places: Places) -> Config:
        """
        Return the same configuration with its file.

        :param places: as they were when it was read, because they describe the configuration in use.
        """
        read = self.model_copy(update={"file": file})
        read._places = places
        return read

    @property
    def files(self) -> Mapping[Path, Stamp]:
        """The file, and those that its values were read from, such as secrets: each as it was before that."""
        return self._places.files

    def place(self, *location: str | int) -> tuple[int, bool]:
        """
        Return the line of a key, and whether the key itself is there; otherwise that of the nearest table around it, or
        0.

        :param location: such as ``"mcp", "server", 0, "scopes"``.
        """
        return self._places.find_line(location)

    @property
    def folder(self) -> Path:
        """The directory that relative paths are relative to."""
        return self.file.parent

    @property
    def reloads_modules(self) -> bool:
        """Whether a reload imports changed modules of the operator again."""
        return self.host.development if self.endpoints.reload is None else self.endpoints.reload
