"""What no key tells alone: keys that exclude each other, files that must exist, what production demands."""

from __future__ import annotations

import difflib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from cryptography import x509

from agtphost import extras
from agtphost.config.admin import admin_faults
from agtphost.config.anchor_checks import anchor_faults
from agtphost.config.cluster import cluster_faults
from agtphost.config.delegation import delegation_faults
from agtphost.config.faults import ConfigFault, describe_absence
from agtphost.config.gateway import gateway_faults
from agtphost.config.launch_script import likely_servers
from agtphost.config.listen_checks import listen_faults
from agtphost.config.mcp_front import mcp_front_faults
from agtphost.config.merchant import merchant_faults
from agtphost.config.methods import methods_faults
from agtphost.config.oauth import oauth_faults
from agtphost.config.operators import fingerprints_of, operator_faults
from agtphost.config.published_checks import published_faults
from agtphost.config.registry import registry_faults
from agtphost.config.search import EXTRAS, search_faults
from agtphost.config.sections import Config
from agtphost.config.store_checks import store_faults
from agtphost.config.surfaces import http_faults
from agtphost.config.traces import EXPORTER, traces_faults
from agtphost.config.upstreams import MCPServerSection
from agtphost.config.values import LoadContext
from agtphost.config.web_upstreams_checks import web_upstream_faults
from agtphost.config.witness_checks import witnessing_faults
from agtphost.identity.authorities import REMEDY, ambiguity
from agtphost.identity.keys import KeyFormatError
from agtphost.identity.trust import issuer_keys
from agtphost.vocabulary import database_url, yamltext
from agtphost.vocabulary.catalog import FLOOR
from agtphost.vocabulary.foreign_errors import split
from agtphost.vocabulary.identifiers import is_agent_id, is_opaque_id
from agtphost.vocabulary.tomltext import Location

TAKEN_NAMES = ("operator", "infrastructure:broadcast")
"""Recipients that stand for the operator."""

INIT_PRODUCTION = "create it, or run: agtp init --production DIR"

HINTS: Mapping[Location, str] = {
    ("tls", "client_crl"): "fetch the list from the authority of [tls] client_ca, in PEM or DER; without the key "
    "client_crl, revocation is not checked",
}
"""What to do about files that `agtp init` does not make."""


def check(config: Config, context: LoadContext) -> Iterator[ConfigFault]:
    """Yield every fault of a configuration whose single keys are sound."""
    yield from _host(config)
    yield from listen_faults(config)
    yield from store_faults(config)
    cluster = config.cluster if "cluster" in config.model_fields_set else None
    yield from cluster_faults(cluster, config.store.url, plugin=config.store.plugin is not None)
    yield from _wire(config)
    yield from _lifecycle(config)
    yield from _audit(config)
    yield from _key_files(config)
    yield from _client_authorities(config)
    yield from _limits(config)
    yield from _directories(config)
    yield from _issuers(config)
    yield from anchor_faults(config)
    yield from _method_policy(config)
    yield from _mcp(config, context)
    yield from web_upstream_faults(config)
    yield from mcp_front_faults(
        config.mcp.front,
        holders=bool(config.http.client),
        issuers=bool(config.policies.oauth.issuer),
        client_auth=config.tls.client_auth,
    )
    yield from published_faults(config)
    yield from http_faults(config)
    yield from gateway_faults(config.gateway)
    development = config.host.development
    yield from operator_faults(config.operator, config.host.state_dir, makes=development)
    named = fingerprints_of(config.operator)
    operators = None if named is None else {*named, *config.audit.operators}
    yield from admin_faults(config.admin, operators, config.notify.people.values())
    yield from _notify(config)
    yield from oauth_faults(config.policies.oauth, development=config.host.development)
    yield from merchant_faults(config.merchant)
    yield from registry_faults(config.registry)
    yield from witnessing_faults(config)
    yield from delegation_faults(config.delegation, config.host.server_id)
    yield from traces_faults(config.traces)
    yield from methods_faults(config.methods, development=config.host.development)
    yield from search_faults(config.search, config.folder)
    yield from _extras(config)


def _notify(config: Config) -> Iterator[ConfigFault]:
    """Names of ``[notify]`` that no message could be addressed to, or that would be in doubt."""
    people, groups = config.notify.people, config.notify.groups
    for table, names in (("people", people), ("groups", groups)):
        for name in names:
            location: Location = ("notify", table, name)
            if name in TAKEN_NAMES:
                message = "is the name of the operator's own inbox, so messages to it would never arrive here"
                yield ConfigFault(location=location, message=message, hint="choose another name")
            elif not is_opaque_id(name):
                message = "cannot be named by a call as recipient: it has more than 128 characters"
                yield ConfigFault(location=location, message=message, hint="choose a shorter name")
            elif is_agent_id(name):
                message = "looks like an Agent-ID, so messages to that agent would arrive here"
                yield ConfigFault(location=location, message=message, hint="choose a name such as usr-cfo")
        for name in names if table == "groups" else ():
            if name in people:
                message = "is also a person of [notify.people], so a message to that name would be ambiguous"
                yield ConfigFault(location=("notify", table, name), message=message, hint="choose another name")
            elif not groups[name]:
                message = "has no members, so messages to it would reach no one"
                hint = f'such as {name} = ["operator"], or remove it'
                yield ConfigFault(location=("notify", table, name), message=message, hint=hint)


def _host(config: Config) -> Iterator[ConfigFault]:
    if not config.host.server_id:
        yield ConfigFault(
            location=("host", "server_id"),
            message="is missing",
            hint='give this host a stable name, such as server_id = "agents.example.com"',
        )
    state = config.host.state_dir
    if os.path.exists(state) and not os.path.isdir(state):
        yield ConfigFault(location=("host", "state_dir"), message=f"is not a directory: {state}")
    if state == state.parent:
        hint = 'name a separate directory, such as "state"'
        yield ConfigFault(location=("host", "state_dir"), message="is the root of the file system", hint=hint)


def _wire(config: Config) -> Iterator[ConfigFault]:
    if config.wire.yaml and not yamltext.available():
        yield ConfigFault(
            location=("wire", "yaml"),
            message="cannot be true here: this Python's PyYAML was built without libyaml",
            hint="install PyYAML from a wheel, or leave yaml out; every YAML body is also a JSON body",
        )


def _lifecycle(config: Config) -> Iterator[ConfigFault]:
    if config.lifecycle.auth != "open":
        return
    location: Location = ("lifecycle", "auth")
    if not config.host.development:
        yield ConfigFault(
            location=location,
            message='"open" needs profile = "development" in [host]: anyone could revoke any agent',
            hint='write auth = "genesis_issuer"',
            concerns=(("host", "profile"),),
        )
    if not config.listen.loopback:
        yield ConfigFault(
            location=location,
            message='"open" needs a loopback address in [listen]: anyone could revoke any agent',
            hint='write auth = "genesis_issuer"',
            concerns=(("listen", "address"), ("listen", "endpoint")),
        )


def _audit(config: Config) -> Iterator[ConfigFault]:
    audit = config.audit
    if not audit.signing and not config.host.development:
        yield ConfigFault(
            location=("audit", "signing"),
            message="cannot be false in the production profile: records would prove nothing",
            concerns=(("host", "profile"),),
        )
    if audit.read_acl == "operator_only" and not (audit.operators or config.operator):
        yield ConfigFault(
            location=("audit", "read_acl"),
            message='"operator_only" needs at least one operator: [[operator]]',
            hint='write [[operator]] with name, role = "administrator", and the key that `agtp cert show FILE` prints',
            concerns=(("audit", "operators"), ("operator",)),
        )


def _key_files(config: Config) -> Iterator[ConfigFault]:
    """
    Check that the key files exist: in production all, in development those that the operator named.

    In development the host creates the missing files of the state directory.
    """
    tls, audit = config.tls, config.audit
    needed: list[tuple[Location, Path, bool]] = [
        (("tls", "certificate"), tls.certificate, False),
        (("tls", "key"), tls.key, True),
    ]
    for server in tls.server:
        needed += [(("tls", "server"), server.certificate, False), (("tls", "server"), server.key, True)]
    if tls.client_auth != "none":
        named = [(("tls", "client_authority"), each.file, False) for each in tls.client_authority]
        needed += named or [(("tls", "client_ca"), tls.client_ca, False)]
        needed += [(("tls", "client_crl"), path, False) for path in tls.client_crl]
    if audit.signing:
        needed.append((("audit", "key"), audit.key, True))
    absent: list[str] = []
    for location, path, private in needed:
        if os.path.isfile(path):
            if private and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                yield ConfigFault(
                    location=location,
                    message=f"can be read by others than its owner: {path}",
                    hint=f"run: chmod 600 {path}",
                    concerns=(("host", "state_dir"),),
                )
        elif not (config.host.development and path.parent == config.host.state_dir):
            if "profile" not in config.host.model_fields_set:
                absent.append(f"{'.'.join(map(str, location))} ({path})")
                continue
            yield ConfigFault(
                location=location,
                message=describe_absence(path),
                hint=HINTS.get(location, INIT_PRODUCTION),
                concerns=(
                    ("host", "profile"),
                    ("host", "state_dir"),
                    ("tls", "client_auth"),
                    ("audit", "signing"),
                ),
            )
    if absent:
        yield ConfigFault(
            location=("host", "profile"),
            message=f"is missing, so the profile is production, and these files are missing: {', '.join(absent)}",
            hint='write profile = "development" in [host], or run: agtp init --production DIR',
            concerns=(("host", "state_dir"), ("tls", "client_auth"), ("audit", "signing")),
        )


def _client_authorities(config: Config) -> Iterator[ConfigFault]:
    for number, authority in enumerate(config.tls.client_authority):
        location: Location = ("tls", "client_authority", number)
        if not authority.zones and not authority.issuers:
            yield ConfigFault(
                location=location,
                message="has neither zones nor issuers, so it could vouch for no agent",
                hint='name its governance zones or its Genesis issuers; zones = ["*"] accepts every zone',
            )
        try:
            issuer_keys(authority.issuers, config.folder)
        except KeyFormatError as error:
            hint = "write the key in base64url, or file:PATH of a PEM file"
            yield ConfigFault(
                location=(*location, "issuers"), message=f"is not an Ed25519 public key: {error}", hint=hint
            )
        except OSError as error:
            yield ConfigFault(
                location=(*location, "issuers"), message=f"names a file that cannot be read: {split(error)[0]}"
            )
    if not config.tls.client_authority and config.tls.client_auth != "none" and config.tls.client_ca.is_file():
        try:
            wrong = ambiguity(x509.load_pem_x509_certificates(config.tls.client_ca.read_bytes()))
        except (OSError, ValueError):
            wrong = ""  # An unreadable file is reported at the start.
        if wrong:
            yield ConfigFault(location=("tls", "client_ca"), message=wrong, hint=REMEDY)
    files = [authority.file for authority in config.tls.client_authority]
    if files and "client_ca" in config.tls.model_fields_set and config.tls.client_ca not in files:
        yield ConfigFault(
            location=("tls", "client_ca"),
            message="is not among [[tls.client_authority]], so it would vouch for no agent",
            hint="add an entry for it, with its zones or issuers, or leave client_ca out",
            concerns=(("tls", "client_authority"),),
        )


def _limits(config: Config) -> Iterator[ConfigFault]:
    yield from _at_most(config, "header_line", "header_block")
    yield from _at_most(config, "connections_per_address", "connections")


def _at_most(config: Config, part: str, whole: str) -> Iterator[ConfigFault]:
    """``part`` cannot exceed ``whole``; the one that the file sets is to blame."""
    limits = config.limits
    if getattr(limits, part) <= getattr(limits, whole):
        return
    places: tuple[Location, Location] = (("limits", part), ("limits", whole))
    if part in limits.model_fields_set:
        yield ConfigFault(
            location=places[0],
            message=f"cannot be more than {whole} ({getattr(limits, whole)})",
            concerns=places,
        )
    else:
        yield ConfigFault(
            location=places[1],
            message=f"cannot be less than {part} ({getattr(limits, part)})",
            concerns=places,
        )


def _directories(config: Config) -> Iterator[ConfigFault]:
    identity, endpoints, catalog = config.identity, config.endpoints, config.catalog
    places: list[tuple[Location, Path | None]] = [
        (("identity", "agents"), identity.agents),
        (("endpoints", "directory"), endpoints.directory),
    ]
    if "known_agents" in identity.model_fields_set:
        places.append((("identity", "known_agents"), identity.known_agents))
    for index, path in enumerate(endpoints.python_path):
        places.append((("endpoints", "python_path", index), path))
    for location, directory in places:
        if directory is not None and not directory.is_dir():
            kind = "file, not a directory" if directory.exists() else "directory that does not exist"
            made = directory.exists() or location[1] == "python_path"
            hint = _place_hint(location, directory, config, "" if made else f"run: mkdir -p {directory}")
            yield ConfigFault(location=location, message=f"names a {kind}: {directory}", hint=hint)
    if endpoints.directory is not None and endpoints.directory == config.folder:
        at = ("endpoints", "directory")
        message = "is the directory of host.toml, which has files of other kinds than endpoints"
        hint = _place_hint(at, endpoints.directory, config, 'write directory = "endpoints"')
        yield ConfigFault(location=at, message=message, hint=hint)
    named: list[tuple[Location, Path | None]] = [(("catalog", "path"), catalog.path)]
    named += [(("catalog", "versions", index), path) for index, path in enumerate(catalog.versions)]
    named += [(("catalog", "profiles", index), path) for index, path in enumerate(catalog.profiles)]
    for location, file in named:
        if file is not None and not file.is_file():
            yield ConfigFault(location=location, message=describe_absence(file))
    recipes = config.recipes.file
    if recipes is not None and not recipes.is_file():
        at = ("recipes", "file")
        yield ConfigFault(location=at, message=describe_absence(recipes), hint=_place_hint(at, recipes, config))


def _issuers(config: Config) -> Iterator[ConfigFault]:
    for index, entry in enumerate(config.identity.trusted_issuers):
        location: Location = ("identity", "trusted_issuers", index)
        try:
            issuer_keys([entry], config.folder)
        except KeyFormatError as error:
            yield ConfigFault(
                location=location,
                message=f"is not an Ed25519 public key: {error}",
                hint="write the key in base64url, or file:PATH of a PEM file",
            )
        except OSError as error:
            yield ConfigFault(location=location, message=f"names a file that cannot be read: {split(error)[0]}")


def _method_policy(config: Config) -> Iterator[ConfigFault]:
    policy = config.policies.methods
    place: Location = ("policies", "methods", "aliases")
    for name in policy.chained_aliases():
        yield ConfigFault(
            location=(*place, name),
            message=f"leads to {policy.aliases[name]}, which is itself an alias; an alias must name a method",
            hint="name the final method",
        )
    for name in policy.aliases:
        if name in FLOOR:
            yield ConfigFault(location=(*place, name), message="is a method that every host answers")
    for index, redirect in enumerate(policy.redirects):
        where: Location = ("policies", "methods", "redirects", index)
        for key in ("from_method", "to_method"):
            if not getattr(redirect, key):
                yield ConfigFault(location=(*where, key), message="is missing")
        if redirect.from_method in FLOOR:
            yield ConfigFault(location=(*where, "from_method"), message="is a method that every host answers")
        source = (redirect.from_method, redirect.from_path)
        if redirect.from_method and source == (redirect.to_method, redirect.to_path):
            yield ConfigFault(location=where, message="leads to itself")


def _mcp(config: Config, context: LoadContext) -> Iterator[ConfigFault]:
    seen: dict[str, int] = {}
    for index, server in enumerate(config.mcp.server):
        where: Location = ("mcp", "server", index)
        if not server.name:
            yield ConfigFault(location=(*where, "name"), message="is missing")
        elif server.name in seen:
            yield ConfigFault(location=(*where, "name"), message=f"is already used by entry {seen[server.name] + 1}")
        seen.setdefault(server.name, index)
        yield from _transport(server, where)
        yield from _program(server, where, context)


def _transport(server: MCPServerSection, where: Location) -> Iterator[ConfigFault]:
    pair: tuple[Location, ...] = ((*where, "command"), (*where, "url"))
    if server.command is None and server.url is None:
        yield ConfigFault(
            location=where,
            message="needs a command or a url",
            hint='such as command = ["npx", "-y", "SERVER"]',
            concerns=pair,
        )
    elif server.command is not None and server.url is not None:
        yield ConfigFault(
            location=(*where, "url"), message="cannot be combined with command", hint="remove this line, or command"
        )
    only = {"cwd": "command", "env": "command"} | dict.fromkeys(("bearer", "headers", "ca", "oauth"), "url")
    for key, companion in only.items():
        if key in server.model_fields_set and getattr(server, companion) is None and _has_transport(server):
            yield ConfigFault(
                location=(*where, key), message=f"can only be used with {companion}", hint="remove it", concerns=pair
            )


def _has_transport(server: MCPServerSection) -> bool:
    return server.command is not None or server.url is not None


def _place_hint(location: Location, absent: Path, config: Config, otherwise: str = "") -> str:
    """Return a hint with the file or directory that was probably meant, by its own name or the section's."""
    beside = absent.parent if absent.parent.is_dir() and absent != config.folder else config.folder
    there = beside.iterdir() if beside.is_dir() else ()  # A program's configuration may have no folder.
    names = sorted(each.name for each in there if each not in (config.file, absent))
    usual = [name for name in names if name.partition(".")[0] == location[0] and location[1] != "python_path"]
    close = difflib.get_close_matches(absent.name, names, 1)
    if not close and not usual:
        return otherwise
    meant = beside / (close or usual)[0]
    return f'did you mean "{meant.relative_to(config.folder) if meant.is_relative_to(config.folder) else meant}"?'


def _program(server: MCPServerSection, where: Location, context: LoadContext) -> Iterator[ConfigFault]:
    if server.ca is not None and not server.ca.is_file():
        yield ConfigFault(location=(*where, "ca"), message=describe_absence(server.ca))
    if server.command is None:
        return
    if not server.cwd.is_dir():
        yield ConfigFault(location=(*where, "cwd"), message=f"names a directory that does not exist: {server.cwd}")
    path = server.env["PATH"].reveal() if "PATH" in server.env else context.environ.get("PATH")
    if shutil.which(server.command[0], path=path) is None:
        yield ConfigFault(
            location=(*where, "command"),
            message=f"names a program that cannot be run: {server.command[0]}",
            hint=f'install it, or write command = ["{{python}}", "{next(likely_servers(server.cwd))}"]; '
            "{python} means the interpreter that runs the host",
            concerns=((*where, "env"),),
        )


def _extras(config: Config) -> Iterator[ConfigFault]:
    """Yield a fault for every section whose package is missing, naming the extra that brings it."""
    for location, package in _needed_packages(config):
        if not extras.is_installed(package):
            yield ConfigFault(
                location=location,
                message=f"needs the package {package}, which is not installed",
                hint=extras.remedy(package),
            )


def _needed_packages(config: Config) -> Iterator[tuple[Location, str]]:
    if config.store.plugin is None and database_url.is_postgresql(config.store.url):
        yield ("store", "url"), "psycopg"
    if config.policies.oauth.issuer:
        yield ("policies", "oauth"), "joserfc"
    if config.merchant.platform:
        yield ("merchant", "platform"), "joserfc"
    if config.metrics is not None:
        yield ("metrics",), "prometheus_client"
    if config.quic.enabled:
        yield ("quic", "enabled"), "aioquic"
    for number, agent in enumerate(config.a2a.agent):
        if agent.card_keys:
            yield ("a2a", "agent", number, "card_keys"), "joserfc"
    if config.audit.envelope == "cose":
        yield ("audit", "envelope"), "cbor2"
    if config.recipes.file is not None:
        yield ("recipes", "file"), "jmespath"
    if config.traces is not None:
        yield ("traces",), EXPORTER
    if config.policies.synthesis_enabled:
        yield ("policies", "synthesis_enabled"), "jmespath"
    for package in EXTRAS[config.search.engine]:
        yield ("search", "engine"), package
