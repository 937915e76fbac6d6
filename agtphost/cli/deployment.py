"""What ``agtp init`` writes."""

from __future__ import annotations

import ipaddress
import json
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agtphost import extras
from agtphost.audit import acceptance
from agtphost.cli import scaffold, shipped
from agtphost.cli.mcp_servers import Server
from agtphost.client.local_identities import CALLER
from agtphost.config import Config, examine, load
from agtphost.config.search import EXTRAS
from agtphost.errors import ConfigurationError, Problem
from agtphost.identity import certificates, files
from agtphost.identity.keys import SigningKey
from agtphost.identity.provisioning import AgentDescription, issue_agent, registrar_url
from agtphost.stores import open_store
from agtphost.stores.state_lock import StateLock
from agtphost.vocabulary.addresses import is_loopback, is_unspecified
from agtphost.vocabulary.tomltext import string_text

AGENT = "assistant"
"""The agent that a new deployment answers for."""

DESCRIPTION = "Answers for this host."

USUAL_GATEWAY = 8080
"""The port of an HTTP gateway."""

TOKEN_FILE = "secrets/gateway.token"
"""Of the key for an HTTP gateway."""

GATEWAY = """
# Any HTTP client calls what agents call: `agtp docs gateway`. Its key is this agent.
[gateway]
listen = "tcp:{port}:interface=127.0.0.1"

[[http.client]]
name = "{agent}"
token = "file:{token}"
agent = "{agent}"
"""

SEARCH = """
# What there is, is found by meaning, offline, and not by its words alone: `agtp docs search`.
[search]
engine = "static"
"""

STATE_FILES = (
    *("signing.key", "signing.pub"),
    *("ca.pem", "ca.key", "server.pem", "server.key"),
    *("registrar.key", "registrar.pub", "registrar.pem"),
)
"""What production needs in the state directory, in the order made."""


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """What the command line asks for."""

    directory: Path
    """Absolute."""

    server_id: str
    address: str
    port: int
    servers: tuple[Server, ...]
    sample: bool = False
    """Whether it begins with the sample's endpoints, recipes and MCP server."""

    committed: bool = True
    """Whether it stays and is developed: with optional sections, an example with its test, and what git needs."""

    gateway: int = 0
    """The port of an HTTP gateway on loopback, whose key is the agent for trying; 0: there is none."""

    operator: str = ""
    """Who runs it, as the manifest says."""

    contact: str = ""
    """Where the operator is reached, as the manifest says."""

    @property
    def host_toml(self) -> Path:
        """The configuration."""
        return self.directory / "host.toml"

    @property
    def state(self) -> Path:
        """Everything the host writes."""
        return self.directory / "state"


def host_toml(deployment: Deployment, *, production: bool) -> str:
    """The text of ``host.toml``."""
    if deployment.sample:
        said: dict[str, str | int] = {
            "server_id": deployment.server_id,
            "operator": deployment.operator,
            "contact": deployment.contact,
        }
        said |= {"address": deployment.address, "port": deployment.port}
        text = shipped.sample_toml({key: value for key, value in said.items() if value})
        further = [*searching(deployment), *(server.toml() for server in deployment.servers)]
        if deployment.gateway:
            further.append(gateway_toml(deployment.gateway))
        return "\n".join((text.rstrip("\n"), *("\n" + each.strip("\n") for each in further), ""))
    profile = "production" if production else "development"
    lines = [
        "# What this host is and does. Relative paths are relative to this file.",
        "# `agtp check host.toml` finds every mistake.",
        "",
        "[host]",
        f"server_id = {string_text(deployment.server_id)}",
        f'profile = "{profile}"',
        'state_dir = "state"',
        "# Published in the manifest: who runs this host, and where to write to.",
        f"operator = {string_text(deployment.operator or deployment.server_id)}",
        f"contact = {string_text(deployment.contact or f'postmaster@{deployment.server_id}')}",
        "",
        "[listen]",
        f"address = {string_text(deployment.address)}",
        f"port = {deployment.port}",
        "",
        "[identity]",
        'agents = "agents"',
    ]
    if production:
        lines.append('trusted_issuers = ["file:state/registrar.pub"]')
    lines += [
        "",
        "[endpoints]",
        'directory = "endpoints"',
        "# Handlers are imported from here.",
        'python_path = ["."]',
    ]
    if production:
        lines += [
            "",
            "[audit]",
            "# Who may read records over the wire: callers with a certificate, about themselves.",
            'read_acl = "agent_only"',
            "# The registrar's key decides, until you list those of the people who do.",
            f'operators = ["{SigningKey.load(deployment.state / "registrar.key").public.fingerprint}"]',
            "",
            "[approvals]",
            "# A person approves each call of what cannot be undone: `agtp approvals ls` shows which wait,",
            "# and `agtp approvals approve ID` lets that very call pass, once.",
            "irreversible = true",
        ]
    lines += [section.rstrip("\n") for section in searching(deployment)]
    # Last, for what an operator adds at the end is mostly theirs.
    for server in deployment.servers:
        lines += ["", server.toml().rstrip("\n")]
    if deployment.gateway:
        lines.append(gateway_toml(deployment.gateway).rstrip("\n"))
    if deployment.committed:
        lines.append(scaffold.optional_sections().rstrip("\n"))
    return "\n".join(lines) + "\n"


def searching(deployment: Deployment) -> list[str]:
    """The section of searches by meaning, for a deployment that stays, where what they need is installed."""
    there = deployment.committed and all(map(extras.is_installed, EXTRAS["static"]))
    return [SEARCH] if there else []


def gateway_toml(port: int) -> str:
    """The sections of an HTTP gateway on loopback, and of a key for it."""
    return GATEWAY.format(port=port, token=TOKEN_FILE, agent=CALLER)


def write_token(directory: Path) -> list[Path]:
    """
    Write the key that :func:`gateway_toml` names, where there is none.

    :return: what was written.
    """
    place = directory / TOKEN_FILE
    if place.exists():
        return []
    files.make_directory(place.parent)
    return [_create(place, f"{secrets.token_hex(32)}\n".encode(), files.PRIVATE)]


def write_development(deployment: Deployment) -> list[Path]:
    """
    Write a deployment whose first start makes its keys.

    :return: what was written.
    :raises ConfigurationError: if the options do not make a sound configuration; nothing is left behind.
    :raises OSError: if something cannot be written.
    """
    if deployment.sample:
        copied = shipped.copy_sample(deployment.directory)
        try:
            written = _configure(deployment, production=False)
        except ConfigurationError:
            for path in copied:
                path.unlink()
            raise
        return [*written, *copied, *_beside(deployment, example=False)]
    described = {"name": AGENT, "description": DESCRIPTION, "archetype": "assistant"}
    text = json.dumps(described, indent=2) + "\n"
    return [
        *_configure(deployment, production=False),
        _create(deployment.directory / "agents" / f"{AGENT}.agent.json", text.encode()),
        *_beside(deployment, example=True),
    ]


def _beside(deployment: Deployment, *, example: bool) -> list[Path]:
    """What a deployment that stays has besides."""
    if not deployment.committed:
        return []
    written = scaffold.write_scaffold(deployment.directory, example=example)
    return [*written, *scaffold.keep_directories(deployment.directory)]


def write_production(deployment: Deployment) -> list[Path]:
    """
    Write a deployment with everything that production needs.

    :return: what was written.
    :raises ConfigurationError: if the options do not make a sound configuration.
    :raises OSError: if something cannot be written.
    """
    keys = make_keys(deployment)
    return [*_configure(deployment, production=True), *keys, *_beside(deployment, example=False)]


def set_up_again(deployment: Deployment) -> tuple[list[Path], list[Path]]:
    """
    Begin a production host's records anew: an empty store, and what was there put aside as evidence.

    Its configuration, keys and agents stay; of the keys, what is missing is made.

    :param deployment: with the ``server_id`` of the ``host.toml`` that is there.
    :return: what was put aside, and the keys and certificates there are now.
    :raises ConfigurationError: the configuration is not sound beyond what is made here.
    :raises StoreError: a host runs with this state, or the store cannot be made.
    :raises OSError: if something cannot be written.
    """
    config = examine(deployment.host_toml).config
    state, store = config.host.state_dir, config.store.path
    if config.host.development or config.store.plugin or state != deployment.state:
        where = f"state_dir is {state}" if not config.host.development else "its profile is development"
        where = "its store is a plugin's" if config.store.plugin else where
        problem = Problem(message=f"this is no host that `agtp init --production` wrote: {where}")
        raise ConfigurationError([problem])
    files.make_directory(state)
    lock = StateLock(state, store)
    lock.acquire()
    try:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        aside = []
        for path in (*(store.with_name(f"{store.name}{end}") for end in ("", "-wal", "-shm")), config.audit.witness):
            if path.exists():
                kept = path.with_name(f"{path.name}.{stamp}")
                path.rename(kept)
                aside.append(kept)
        keys = make_keys(deployment)
        _begin_anew(config, aside)
    finally:
        lock.release()
    load(deployment.host_toml)
    return aside, keys


def _begin_anew(config: Config, aside: list[Path]) -> None:
    """An empty store; its first record says who did it, and what was put aside, and its witness file knows of it."""
    key = SigningKey.load(config.audit.key) if config.audit.signing else None
    fields = {
        "actor": acceptance.operator(),
        "accepted": {"size": 0},
        "reason": "set up again with an empty store",
        "kept": [str(path) for path in aside],
    }
    store = open_store(config.store.url, create=True)
    try:
        _, issued = acceptance.record(
            store, key, fields, server_id=config.host.server_id, envelope=config.audit.envelope
        )
    finally:
        store.close()
    files.replace(config.audit.witness, issued.note.encode(), files.PUBLIC)


def _configure(deployment: Deployment, *, production: bool) -> list[Path]:
    for name in scaffold.DIRECTORIES:
        (deployment.directory / name).mkdir(parents=True, exist_ok=True)
    for server in deployment.servers:
        server.keep_secrets(deployment.directory)
    written = write_token(deployment.directory) if deployment.gateway else []
    mode = files.PRIVATE if any(server.private for server in deployment.servers) else files.PUBLIC
    path = _create(deployment.host_toml, host_toml(deployment, production=production).encode(), mode)
    try:
        load(path)
    except ConfigurationError:
        path.unlink()
        for name in (name for server in deployment.servers for name in server.secrets):
            (deployment.directory / name).unlink()
        for token in written:
            token.unlink()
        raise
    return [path, *written]


def _create(path: Path, octets: bytes, mode: int = files.PUBLIC) -> Path:
    if not path.exists():
        files.write_once(path, octets, mode)
    return path


def make_keys(deployment: Deployment) -> list[Path]:
    """
    The keys and certificates of a production host, and its first agent.

    What exists is kept, so that a run that was cut short can be repeated.

    :return: what there is now.
    """
    state = deployment.state
    now = datetime.now(UTC)
    deployment.directory.mkdir(parents=True, exist_ok=True)
    files.make_directory(state)
    signing = _signing_key(state / "signing.key")
    registrar = _signing_key(state / "registrar.key")
    authority = _authority(state, deployment.server_id, now)
    _server_certificate(state, authority, deployment, now)
    if not (state / "registrar.pem").exists():
        certificate = certificates.issue_client_certificate(
            authority, registrar.public, label="registrar", organization=deployment.server_id, now=now
        )
        _create(state / "registrar.pem", certificates.pem_of(certificate))
    for key, name in ((signing, "signing.pub"), (registrar, "registrar.pub")):
        _create(state / name, key.public.pem)
    described = AgentDescription(
        name=AGENT,
        description=DESCRIPTION,
        principal=deployment.server_id,
        owner_id=deployment.server_id,
        governance_zone="zone:production",
    )
    agents = deployment.directory / "agents"
    agents.mkdir(exist_ok=True)
    issue_agent(agents / AGENT, described, registrar, issuer=registrar_url(deployment.server_id), now=now)
    files.make_directory(state / "agents")
    return [*(state / name for name in STATE_FILES), agents / AGENT]


def _signing_key(path: Path) -> SigningKey:
    if not path.exists():
        SigningKey.generate().save(path)
    return SigningKey.load(path)


def _authority(state: Path, server_id: str, now: datetime) -> certificates.Authority:
    certificate, key = state / "ca.pem", state / "ca.key"
    if not certificate.exists():
        made = certificates.create_authority(now=now, organization=server_id, kind="CA")
        _create(key, made.key_pem, files.PRIVATE)
        _create(certificate, made.certificate_pem)
    return certificates.Authority.load(certificate, key)


def _addresses(listened: str) -> tuple[str, ...]:
    """Where the host's own commands reach it."""
    try:
        address = ipaddress.ip_address(listened)
    except ValueError:
        return certificates.LOOPBACK
    return certificates.LOOPBACK if is_unspecified(address) or is_loopback(address) else (str(address),)


def _server_certificate(state: Path, authority: certificates.Authority, deployment: Deployment, now: datetime) -> None:
    """It names the host as its clients reach it, and the address by which the host's own commands do."""
    server_id = deployment.server_id
    certificate, key = state / "server.pem", state / "server.key"
    if certificate.exists():
        return
    made = certificates.new_tls_key()
    issued = certificates.issue_server_certificate(
        authority,
        made.public_key(),
        server_id=server_id,
        now=now,
        organization=server_id,
        addresses=_addresses(deployment.address),
    )
    _create(key, certificates.key_pem_of(made), files.PRIVATE)
    _create(certificate, certificates.pem_of(issued))
