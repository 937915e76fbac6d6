"""
Find names of the configuration that match nothing here, so that they protect or admit nothing.

What can never work is refused when it is read. These names could become valid later or elsewhere, so the operator is
warned and the host starts.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from cryptography.hazmat.primitives.serialization import Encoding
from twisted.logger import Logger

from agtphost.config import Config
from agtphost.config.approvals import OPERATORS
from agtphost.config.http import accepts_certificates
from agtphost.contract import reserved
from agtphost.contract.built_in_contracts import contract_of
from agtphost.contract.negotiable import is_negotiable
from agtphost.handlers.authorization import OPERATOR
from agtphost.host.client_reach import find_obstacles
from agtphost.host.host_loader import LoadedHost
from agtphost.identity.certificates import CertificateError, load_certificate, parse_peer_certificate
from agtphost.methods.standard.table import STANDARD
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.paths import template_warnings

log = Logger()


class RemarkLog:
    """
    A log of warnings about the configuration, each written once for as long as it holds.

    A reload finds those of the start again; written each time, they would hide the new ones.

    :param known: warnings that were written before.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = set(known)

    def find_new(self, remarks: Iterable[str]) -> tuple[str, ...]:
        """Return the warnings that were not written before."""
        return tuple(dict.fromkeys(each for each in remarks if each not in self._known))

    def write(self, remarks: Iterable[str]) -> None:
        """Log the new ones of further warnings."""
        new = self.find_new(remarks)
        self._known.update(new)
        for remark in new:
            log.warn("{remark}", remark=remark)

    def replace(self, remarks: Collection[str]) -> None:
        """Log the new ones of all warnings that hold now; a later one that is not among these counts as new again."""
        self.write(remarks)
        self._known = set(remarks)


def find_unmatched(loaded: LoadedHost) -> Iterator[str]:
    """Yield a warning for each name in ``host.toml`` that nothing which this host knows has."""
    config = loaded.config
    known = loaded.directory.list_known()
    zones = {agent.governance_zone for agent in known if agent.governance_zone}
    for zone, seen in config.policies.zones.items():
        if zone != "*" and zone not in zones:
            yield f"[policies.zones] {zone}: no agent known here has that zone"
        for other in seen:
            if other != "*" and other not in zones:
                yield f"[policies.zones] {zone} may see {other}, and no agent known here has that zone"
    yield from _collections(loaded)
    yield from _negotiable(loaded)
    served = {endpoint.method for endpoint in loaded.endpoints}
    # The policy warns of unknown names in allow, disallow, aliases and redirects as it is read.
    for name in config.policies.methods.custom:
        if not loaded.catalog.knows(name) and name not in served:
            yield f"[policies.methods] custom names {name}, which neither the catalog nor an endpoint has"
    yield from _foreign_paths(loaded)
    yield from _unbound_aliases(loaded, served)
    yield from _dimensions(loaded)
    yield from _people(loaded)
    yield from _unknown_zones(loaded, zones, served)
    yield from _operators(config)
    yield from _approvers(loaded)
    yield from _gateway(config)
    yield from map(str, find_obstacles(config, loaded.directory))


def _negotiable(loaded: LoadedHost) -> Iterator[str]:
    """Yield warnings of negotiation without negotiable endpoints, and of undeclared data classes of endpoints."""
    config = loaded.config
    if not config.policies.synthesis_enabled:
        return
    if not is_negotiable(config, loaded.endpoints):
        yield (
            "[policies] synthesis_enabled is true, and no endpoint has data_classes of [[data_class]]: every proposal "
            "is refused as out-of-scope; add data_classes to the endpoints that may be negotiated, or write "
            "[policies.synthesis] unclassified = true"
        )
    declared = sorted(entry.name for entry in config.data_class)
    for endpoint in loaded.endpoints:
        for name in endpoint.data_classes:
            if name not in declared:
                near = difflib.get_close_matches(name, declared, 1)
                meant = f" (did you mean {near[0]!r}?)" if near else ""
                yield (
                    f"{endpoint.name}: data_classes has {name!r}, which is not a [[data_class]]{meant}, so the "
                    "endpoint is not negotiated"
                )


def _foreign_paths(loaded: LoadedHost) -> Iterator[str]:
    """Yield endpoints whose paths have parameters in the form of another framework, which are literal text here."""
    for endpoint in loaded.endpoints:
        for why in template_warnings(endpoint.path):
            yield f"{endpoint.file}:{endpoint.lines.get('path', endpoint.line)}: {endpoint.name}: {why}"


def _unbound_aliases(loaded: LoadedHost, served: set[str]) -> Iterator[str]:
    """Yield aliases and redirects that lead to what nothing here is bound to."""
    methods, policy, own = loaded.config.policies.methods, loaded.policy, {*reserved.RESERVED, *reserved.OPEN}
    known = served | {method for method, _ in own}
    for name, target in policy.declared_aliases.items() if "aliases" in methods.model_fields_set else ():
        if target not in known:
            yield f"[policies.methods] aliases: {name} leads to {target}, which nothing here is bound to"
    bound = {*own, *((endpoint.method, endpoint.path) for endpoint in loaded.endpoints)}
    for entry in policy.redirects:
        path = entry.to_path or entry.from_path
        if not any(method == entry.to_method and (path is None or _fits(path, template)) for method, template in bound):
            where = f"{entry.to_method} {path or 'on any path'}"
            yield f"[[policies.methods.redirects]] {entry.from_method} leads to {where}, which nothing here is bound to"


def _fits(path: str, template: str) -> bool:
    segments, parts = path.split("/"), template.split("/")
    return len(segments) == len(parts) and all(
        part == segment or part.startswith("{") for segment, part in zip(segments, parts, strict=False)
    )


def _dimensions(loaded: LoadedHost) -> Iterator[str]:
    """Yield rules of ``scope_dimensions`` that apply to no call, for lack of an endpoint or of the parameter."""
    fields = list(_parameters(loaded))
    for rule in loaded.config.policies.scope_dimensions:
        if rule.method == "EXECUTE" and (rule.path is None or rule.path.startswith(FOREIGN_PATHS)):
            continue  # The servers define the parameters of tools.
        what = f"[policies.scope_dimensions] {rule.name}"
        there = [names for method, path, names in fields if method == rule.method and rule.path in (None, path)]
        if not there:
            where = "" if rule.path is None else f" {rule.path}"
            yield f"{what}: nothing here is bound to {rule.method}{where}, so the rule applies to no call"
        elif not any(rule.parameter in names for names in there):
            near = difflib.get_close_matches(rule.parameter, sorted(set().union(*there)), 1)
            meant = f" (did you mean {near[0]!r}?)" if near else ""
            yield (
                f"{what}: {rule.method} has no parameter {rule.parameter!r} here{meant}, so the rule applies to no call"
            )


MANY_ITEMS = 10_000
"""Items of a collection up to which no warning is needed."""

FOREIGN_PATHS = ("/mcp/", "/a2a/", "/acp/")
"""Paths of EXECUTE whose input belongs to another protocol."""


def _parameters(loaded: LoadedHost) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield method, path template and parameters of everything that may be bound here."""
    declared = {(endpoint.method, endpoint.path) for endpoint in loaded.endpoints}
    for endpoint in loaded.endpoints:
        yield endpoint.method, endpoint.path, frozenset(endpoint.input_schema.schema.get("properties", {}))
    for method, path in (*reserved.RESERVED, *reserved.OPEN):
        if (method, path) not in declared:
            yield method, path, contract_of(method, path).names(path)
    for method in loaded.config.methods.names:
        if (method, "/") not in declared:
            yield method, "/", frozenset(STANDARD[method].parameters)


def _collections(loaded: LoadedHost) -> Iterator[str]:
    """Yield collections that may take much memory."""
    for each in loaded.config.methods.collection:
        if each.max_items > MANY_ITEMS:
            yield (
                f"[methods.collection] {each.name} may have {each.max_items} items, all in memory: "
                "100,000 of 4 KiB are 0.5 to 1 GiB"
            )


def _people(loaded: LoadedHost) -> Iterator[str]:
    """Yield names of ``[notify]`` without a recipient, or that a hosted agent has as well."""
    notify = loaded.config.notify
    here = set(_fingerprints(loaded.config)) if notify.people else set()
    for name, key in notify.people.items():
        if key not in here:
            yield (
                f"[notify.people] {name} has {key}, which is the key of no certificate in {loaded.config.folder} and "
                "its folders; if the person's certificate is elsewhere, compare with what `agtp cert show FILE` prints "
                f"of it: only a certificate with that key reads what is addressed to {name}"
            )
    known = loaded.directory.list_known()
    hosted = {agent.name for agent in known if agent.hosted}
    for name in (*notify.people, *notify.groups):
        if name in hosted:
            yield (
                f"[notify] {name} is the name of a hosted agent too: what is addressed to {name} reaches the person or "
                "the group; the agent is reached only by its Agent-ID"
            )
    callers = {agent.name: agent.agent_id for agent in known if not agent.hosted}
    agents = {agent.agent_id for agent in known} | hosted
    for group, members in notify.groups.items():
        for member in members:
            if member in notify.people or member in agents or member == OPERATOR:
                continue
            if member in callers:
                yield (
                    f"[notify.groups] {group} names {member}, but names reach only hosted agents: "
                    f"this one only calls, so write its Agent-ID, {callers[member]}"
                )
            else:
                yield f"[notify.groups] {group} names {member}, which is neither a known agent nor in [notify.people]"


def _unknown_zones(loaded: LoadedHost, zones: set[str], served: set[str]) -> Iterator[str]:
    """Yield zones of registrars and client authorities, and methods that need a principal, which nothing here has."""
    config = loaded.config
    for zone in config.identity.registrars:
        if zone != "*" and zone not in zones:
            yield f"[identity.registrars] {zone}: no agent known here has that zone"
    for authority in config.tls.client_authority:
        for zone in authority.zones:
            if zone not in zones:
                yield f"[[tls.client_authority]] names {zone}, and no agent known here has that zone"
    for method in config.policies.oauth.required_on_methods:
        if not loaded.catalog.knows(method) and method not in served:
            yield (
                f"[policies.oauth] required_on_methods names {method}, which neither the catalog nor an "
                "endpoint has, so no call needs a principal because of it"
            )


def _operators(config: Config) -> Iterator[str]:
    """Yield fingerprints of operators that no certificate here has: they may be elsewhere, but may be typing errors."""
    listed = [each for each in config.operator if is_agent_id(str(each.key))]
    if not (config.audit.operators or listed):
        return
    here = set(_fingerprints(config))
    for each in listed:
        if each.key not in here:
            yield (
                f'[[operator]] "{each.name}" has the key {each.key}, which is that of no certificate in '
                f"{config.folder} and its folders; if the certificate is elsewhere, compare with what `agtp cert show "
                "FILE` prints of it"
            )
    for fingerprint in config.audit.operators:
        if fingerprint not in here:
            yield (
                f"[audit] operators has {fingerprint}, which is the key of no certificate in {config.folder} and its "
                "folders; if the certificate is elsewhere, compare with what `agtp cert show FILE` prints of it"
            )


def _approvers(loaded: LoadedHost) -> Iterator[str]:
    """Yield a warning if calls need a person's approval and no person may give it."""
    config = loaded.config
    needed = config.approvals.irreversible or any(endpoint.approval for endpoint in loaded.endpoints)
    declared = (
        any(each.approval for each in (*config.a2a.agent, *config.acp.agent))
        or any(server.approval for server in config.mcp.server)
        or any(tool.approval for server in config.mcp.server for tool in server.tools.values())
    )
    if config.host.development:
        return  # Until operators are listed, the registrar approves there.
    if (
        (needed or declared)
        and set(config.approvals.by) == {OPERATORS}
        and not (config.audit.operators or any(each.role != "viewer" for each in config.operator))
    ):
        yield (
            "[approvals] by: operators approve calls, but [[operator]] lists no approver and no administrator, so "
            "those calls are never approved; `agtp cert show FILE` prints the fingerprint of a certificate's key"
        )


def _fingerprints(config: Config) -> Iterator[str]:
    """
    Yield the fingerprints of the certificates in the state, in the agents' directories and in the deployment's folder.

    The deployment's folder may be any directory, such as a home, so only two levels of it are read.
    """
    given = (config.host.state_dir, config.identity.known_agents, config.identity.agents)
    own = {folder for folder in given if folder is not None and folder.is_dir()}
    found = {path for folder in own for path in folder.rglob("*.pem")}
    for pattern in ("*.pem", "*/*.pem"):
        with suppress(OSError):
            found.update(config.folder.glob(pattern))
    for path in sorted(found):
        try:
            yield parse_peer_certificate(load_certificate(path).public_bytes(Encoding.DER)).fingerprint
        except (OSError, CertificateError):
            continue  # The file is a key, or a certificate of another kind.


def _gateway(config: Config) -> Iterator[str]:
    """Yield that a gateway has no clients, if nothing can prove to it who calls."""
    gateway, tls = config.gateway, config.tls
    certified = accepts_certificates(gateway.listen, gateway.client_certificates, tls.client_auth)
    if gateway.listen is not None and not (config.http.client or gateway.agent or certified):
        yield (
            "[gateway] has no clients, so that each call is answered 401; add [[http.client]] with a token and an "
            "agent: docs/gateway.rst shows how"
        )
