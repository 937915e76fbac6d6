"""Every surface that speaks HTTP, what it takes of its listener's paths, and what is wrong between them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agtphost.config.faults import ConfigFault
from agtphost.config.gateway import GatewaySection
from agtphost.config.http import HttpSection, Listener, accepts_certificates, is_port, listener_of, options_of
from agtphost.config.mcp_front import MCPFront
from agtphost.config.registry import RegistrySection
from agtphost.config.secret import Secret
from agtphost.config.sections import Config
from agtphost.vocabulary.foreign_errors import LONGEST_SOCKET_PATH
from agtphost.vocabulary.mount_paths import MountPath
from agtphost.vocabulary.tomltext import Location

WELLKNOWN = "wellknown"
FRONT = "a2a"
ADMIN = "admin"
METRICS = "metrics"
GATEWAY = "gateway"
REGISTRY = "registry"
MCP_FRONT = "mcp"
FEATURE = "feature.{}"
"""The name of the surface of a feature of another package, with that of its table."""

CARD = MountPath("/.well-known/agent-card.json", below=False)
BOOTSTRAP = MountPath("/.well-known/agtp", below=False)
AGIS = MountPath("/.well-known/agis.json", below=False)
AGENTS = MountPath("/agents")
RESOURCE = MountPath("/.well-known/oauth-protected-resource", below=False)
WATCHED = tuple(MountPath(path, below=False) for path in ("/metrics", "/healthz", "/readyz"))
REST = MountPath("/", rest=True)
AT_HOME = (
    *(MountPath("/", below=False), CARD, MountPath("/tasks")),
    *(MountPath(f"/{name}", below=False) for name in ("message:send", "message:stream", "extendedAgentCard")),
)
"""Where an agent is that is the only one of its front: at the root too."""

KINDS = ("ssl", "tcp", "tcp6", "unix", "systemd")

_OF_TCP = frozenset({"port", "interface", "backlog"})
OPTIONS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("ssl", "tcp", "tcp6"), _OF_TCP),
    "unix": frozenset({"address", "mode", "backlog", "lockfile"}),
}
"""Options of endpoint strings, by kind. Those of sockets of systemd are its own."""

FILE_OPTIONS = frozenset({"privatekey", "certkey", "extracertchain", "certificate", "key"})
"""Options by which Twisted's ``ssl`` names the files that the section has keys for, in lower case."""


@dataclass(frozen=True, kw_only=True)
class Surface:
    """A section that serves HTTP."""

    name: str
    """In access lines and records."""

    location: Location
    """Of its section."""

    section: HttpSection
    """The section with its ``listen``."""

    paths: tuple[MountPath, ...]
    url: str | None = None
    """How clients reach it, if that is configured."""

    client_certificates: bool = False
    """Whether clients are asked for a certificate, which an authority of ``[tls]`` has issued."""

    browser_certificates: bool = False
    """Whether browsers are asked for a certificate, which counts if it is listed, from any issuer."""

    @property
    def listen(self) -> str:
        """The endpoint string."""
        return self.section.listen or ""

    @property
    def listener(self) -> Listener:
        """The listener at which it is served."""
        return listener_of(self.listen)


def surfaces(config: Config) -> Iterator[Surface]:
    """Yield the surfaces of a configuration, in the order in which they are served."""
    if config.wellknown.listen is not None:
        yield Surface(
            name=WELLKNOWN,
            location=("wellknown",),
            section=config.wellknown,
            paths=(BOOTSTRAP, AGIS),
            url=_of_domain(config),
        )
    front = config.a2a.front
    if front.listen is not None:
        yield Surface(
            name=FRONT,
            location=("a2a", "front"),
            section=front,
            paths=(AGENTS, *AT_HOME) if len(front.agent) == 1 else (AGENTS,),
            url=front.url,
            client_certificates=front.client_certificates,
        )
    registry = config.registry
    if registry is not None and registry.listen is not None:
        yield Surface(
            name=REGISTRY,
            location=("registry",),
            section=registry,
            paths=_of_registry(config),
            url=registry.url,
            client_certificates=asks_certificates(config, registry),
        )
    mcp = config.mcp.front
    if mcp.listen is not None:
        yield Surface(
            name=MCP_FRONT,
            location=("mcp", "front"),
            section=mcp,
            paths=(MountPath(mcp.path), RESOURCE, MountPath(f"{RESOURCE}{mcp.path}")),
            url=mcp.url,
            client_certificates=asks_certificates(config, config.mcp.front),
        )
    admin = config.admin
    if admin.listen is not None:
        yield Surface(
            name=ADMIN,
            location=("admin",),
            section=admin,
            paths=(MountPath("/"),),
            url=admin.url,
            browser_certificates=bool(admin.browsers),
        )
    if config.metrics is not None and config.metrics.listen is not None:
        yield Surface(name=METRICS, location=("metrics",), section=config.metrics, paths=WATCHED)
    for name, table in config.feature.items():
        if table.http is not None and table.http.listen is not None:
            yield Surface(
                name=FEATURE.format(name),
                location=("feature", name, "http"),
                section=table.http,
                paths=(MountPath(table.http.path),),
            )
    gateway = config.gateway
    if gateway.listen is not None:
        # The last one, because it has what the others leave; but agents have their addresses here, and nowhere else.
        yield Surface(
            name=GATEWAY,
            location=("gateway",),
            section=gateway,
            paths=(AGENTS, REST),
            url=gateway.url,
            client_certificates=asks_certificates(config, gateway),
        )


def _of_domain(config: Config) -> str | None:
    """Return where the bootstrap document of a domain is looked for; None without a domain."""
    domain = config.wellknown.domain or config.manifest.domain
    return None if domain is None else f"https://{domain}"


def asks_certificates(config: Config, given: GatewaySection | RegistrySection | MCPFront) -> bool:
    """Return whether clients of a section's surface can prove by certificate who they are."""
    return accepts_certificates(given.listen, given.client_certificates, config.tls.client_auth)


def _of_registry(config: Config) -> tuple[MountPath, ...]:
    """
    Return the paths of the registry: its own, and an agent's card, unless an A2A agent's is there on its listener.
    """
    registry, front = config.registry, config.a2a.front
    assert registry is not None, "there is one"
    if not registry.path:
        return (MountPath("/"),)
    shared = front.listen is not None and listener_of(front.listen) == listener_of(registry.listen or "")
    taken = shared and len(front.agent) == 1
    return (MountPath(registry.path),) if taken else (MountPath(registry.path), CARD)


def http_faults(config: Config) -> Iterator[ConfigFault]:
    """Yield the faults of listeners, of surfaces that share one, and of the clients of all of them."""
    yield from _clients(config)
    seen: list[Surface] = []
    for surface in surfaces(config):
        yield from _listener(config, surface)
        for other in seen:
            yield from _sharing_faults(other, surface)
        seen.append(surface)


def _listener(config: Config, surface: Surface) -> Iterator[ConfigFault]:
    place, listener = (*surface.location, "listen"), surface.listener
    if listener.kind not in KINDS:
        yield ConfigFault(
            location=place,
            message=f"has a kind that cannot serve HTTP: {listener.kind[:32]!r}",
            hint='write listen = "ssl:8443", "tcp:8080:interface=127.0.0.1" or "unix:/run/agtphost/http.sock"',
        )
        return
    # A socket of systemd is named instead, such as ssl:systemd:domain=INET:name=agtp.
    if listener.kind in ("ssl", "tcp", "tcp6") and "=" not in listener.port and not is_port(listener.port):
        yield ConfigFault(
            location=place,
            message=f"has the port {listener.port[:32]!r}, which is not a number from 1 to 65535",
            hint=f'such as listen = "{listener.kind}:8443:interface=127.0.0.1"',
        )
        return
    unknown = sorted(options_of(surface.listen).difference(OPTIONS.get(listener.kind, options_of(surface.listen))))
    if unknown:
        files = ", and name the files in certificate and key" if unknown[0].lower() in FILE_OPTIONS else ""
        yield ConfigFault(
            location=place,
            message=f"has the option {unknown[0][:32]!r}, which {listener.kind} does not take here",
            hint=f"leave it out{files}",
        )
        return
    if listener.kind == "unix" and len(os.fsencode(listener.port)) > LONGEST_SOCKET_PATH:
        yield ConfigFault(
            location=place,
            message=f"has a path of {len(os.fsencode(listener.port))} octets, which is too long for a socket",
            hint=f"choose one of at most {LONGEST_SOCKET_PATH} octets",
        )
        return
    if not (listener.secure or listener.local or surface.section.behind_proxy):
        yield ConfigFault(
            location=place,
            message="must be ssl, except on this machine's own loopback addresses",
            hint='such as listen = "ssl:8443", or "tcp:8080:interface=127.0.0.1"; behind_proxy = true where a proxy '
            "speaks TLS",
            concerns=((*surface.location, "behind_proxy"),),
        )
    elif not (listener.secure or listener.local or surface.section.hosts or surface.url):
        yield ConfigFault(
            location=(*surface.location, "hosts"),
            message="is missing: without a certificate, the host does not know the names of the proxy",
            hint='such as hosts = ["agents.example.com"]',
            concerns=(place,),
        )
    agtp = _agtp_port(config)
    if listener.kind != "unix" and agtp and listener.port == agtp:
        yield ConfigFault(
            location=place,
            message=f"is the port of AGTP itself, {agtp}, which can serve nothing else",
            hint="choose another port",
            concerns=(("listen", "port"), ("listen", "endpoint")),
            beside=("listen",),
        )


def _clients(config: Config) -> Iterator[ConfigFault]:
    fronts = dict.fromkeys(config.a2a.front.tokens, "a token of [a2a.front]")
    names: dict[str, int] = {}
    held: dict[Secret, str] = {}
    for index, client in enumerate(config.http.client):
        where: Location = ("http", "client", index)
        for key in ("name", "token", "agent"):
            if not getattr(client, key):
                yield ConfigFault(location=(*where, key), message="is missing")
        if client.name and client.name in names:
            yield ConfigFault(
                location=(*where, "name"),
                message="is listed twice",
                beside=("http", "client", names[client.name], "name"),
            )
        names.setdefault(client.name, index)
        if client.token is None:
            continue
        other = held.get(client.token) or fronts.get(client.token)
        if other is not None:
            yield ConfigFault(
                location=(*where, "token"),
                message=f"is the same as {other}; each client needs its own",
                hint="write another one: openssl rand -hex 32",
            )
        held.setdefault(client.token, f'that of "{client.name}"')


def _agtp_port(config: Config) -> str:
    """Return the port of AGTP as text; empty where the system chooses it, or hands it over."""
    given = config.listen
    if given.endpoint is None:
        return str(given.port) if given.port else ""
    listener = listener_of(given.endpoint)
    return listener.port if listener.kind in KINDS and listener.kind != "systemd" and listener.port != "0" else ""


def _sharing_faults(first: Surface, second: Surface) -> Iterator[ConfigFault]:
    def fault(message: str, hint: str) -> ConfigFault:
        place, concerns = (*second.location, "listen"), ((*first.location, "listen"),)
        return ConfigFault(location=place, message=message, hint=hint, concerns=concerns, beside=first.location)

    if (first.listener.port, first.listener.interface) != (second.listener.port, second.listener.interface):
        return
    if first.listener.kind != second.listener.kind:
        if first.listener.port != "0":
            message = f"is the address of {_section_name(first)}, which is {first.listener.kind} there"
            yield fault(message, "write the same, or choose another port")
        return
    for mine in second.paths:
        for theirs in first.paths:
            if mine.overlaps(theirs):
                message = f"is where {_section_name(first)} has {theirs}, which overlaps {mine} here"
                yield fault(message, "choose another port, or another path where there is a key for it")
                return
    mine_, theirs_ = second.section, first.section
    if second.listener.secure and (mine_.certificate, mine_.key) != (theirs_.certificate, theirs_.key):
        message = f"is shared with {_section_name(first)}, which has another certificate"
        yield fault(message, "name the same certificate and key in both, or choose another port")


def _section_name(surface: Surface) -> str:
    return f"[{'.'.join(map(str, surface.location))}]"
