"""What no key of ``[a2a]`` and ``[acp]`` tells alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agtphost.config.faults import ConfigFault, describe_absence
from agtphost.config.http import listener_of
from agtphost.config.sections import Config
from agtphost.config.web_upstreams import WebUpstreamSection
from agtphost.vocabulary.tomltext import Location


def web_upstream_faults(config: Config) -> Iterator[ConfigFault]:
    """Yield every fault of upstreams and of the A2A front whose single keys are sound."""
    yield from _upstreams(config.a2a.agent, "a2a")
    yield from _upstreams(config.acp.agent, "acp")
    yield from _front(config)


def _upstreams(upstreams: Sequence[WebUpstreamSection], protocol: str) -> Iterator[ConfigFault]:
    seen: dict[str, int] = {}
    for index, upstream in enumerate(upstreams):
        where: Location = (protocol, "agent", index)
        for key in ("name", "url"):
            if not getattr(upstream, key):
                yield ConfigFault(location=(*where, key), message="is missing")
        if upstream.name and upstream.name in seen:
            yield ConfigFault(location=(*where, "name"), message=f"is already used by entry {seen[upstream.name] + 1}")
        seen.setdefault(upstream.name, index)
        if upstream.ca is not None and not upstream.ca.is_file():
            yield ConfigFault(location=(*where, "ca"), message=describe_absence(upstream.ca))
        if upstream.bearer is not None and any(name.lower() == "authorization" for name in upstream.headers):
            yield ConfigFault(location=(*where, "headers"), message="has Authorization, which bearer is for")


def _front(config: Config) -> Iterator[ConfigFault]:
    front = config.a2a.front
    where: Location = ("a2a", "front")
    if front.listen is None:
        if front.agent:
            yield ConfigFault(location=(*where, "listen"), message="is missing", hint='such as listen = "ssl:8443"')
        return
    if front.agent_id is None and not front.client_certificates and not config.http.client:
        yield ConfigFault(
            location=(*where, "agent_id"),
            message="is missing: A2A clients call in the name of an agent that this host knows",
            hint="write the agent's name, or its Agent-ID; agtp agent ls prints both",
        )
    if front.client_certificates and not front.listen.startswith("ssl:"):
        yield ConfigFault(
            location=(*where, "client_certificates"), message="needs ssl", hint='write listen = "ssl:8443"'
        )
    if front.client_certificates and config.tls.client_auth == "none":
        yield ConfigFault(location=(*where, "client_certificates"), message="needs [tls] client_auth")
    if front.oauth and not config.policies.oauth.issuer:
        yield ConfigFault(
            location=(*where, "oauth"), message="needs an identity provider", hint="add [[policies.oauth.issuer]]"
        )
    if not front.agent:
        yield ConfigFault(location=(*where, "agent"), message="is missing", hint="add [[a2a.front.agent]]")
    # A listener without TLS on loopback only takes calls of this machine; elsewhere it is a fault of the listener.
    open_to_others = front.behind_proxy or listener_of(front.listen).secure
    if open_to_others and not (front.tokens or front.oauth or front.client_certificates or config.http.client):
        yield ConfigFault(
            location=(*where, "tokens"), message="are missing, so anyone could call", hint="add one for each client"
        )
    if (front.certificate is None) != (front.key is None):
        yield ConfigFault(
            location=where, message="needs both certificate and key, or neither", hint="leave certificate and key out"
        )
    seen: set[str] = set()
    for index, agent in enumerate(front.agent):
        here: Location = (*where, "agent", index)
        if not agent.name:
            yield ConfigFault(location=(*here, "name"), message="is missing")
        elif agent.name in seen:
            yield ConfigFault(location=(*here, "name"), message="is listed twice")
        seen.add(agent.name)
        if agent.upstream is not None:
            if all(agent.upstream != upstream.name for upstream in config.a2a.agent):
                yield ConfigFault(
                    location=(*here, "upstream"), message=f"is not an [[a2a.agent]]: {agent.upstream[:64]}"
                )
            given = agent.model_fields_set & {"method", "path", "input", "text", "answer"}
            if given:
                yield ConfigFault(
                    location=here,
                    message=f"has upstream, and {sorted(given)[0]}, which is for hosted agents",
                    hint="leave one of them out: everything is carried to an upstream as it is",
                )
            continue
        if "{" in agent.path:
            yield ConfigFault(
                location=(*here, "path"),
                message=f"is a template: {agent.path}; every message calls one and the same path",
                hint="name an endpoint whose path has no parameters, and have text fill its input",
            )
