"""The files that ``agtp init`` writes."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from agtphost import extras
from agtphost.audit import acceptance
from agtphost.cli import scaffold, shipped
from agtphost.cli.mcp_servers import ServerEntry
from agtphost.client.local_identities import CALLER
from agtphost.config import Config, examine, load
from agtphost.config.search import EXTRAS
from agtphost.errors import ConfigurationError, Problem
from agtphost.identity import certificates, files
from agtphost.identity.alternative_names import reachable_addresses
from agtphost.identity.keys import SigningKey
from agtphost.identity.provisioning import PRODUCTION_ZONE, AgentDescription, issue_agent, registrar_url
from agtphost.stores.location import StoreLocation
from agtphost.stores.settings import locate_store
from agtphost.vocabulary.tomltext import string_text

AGENT = "assistant"
"""Name of the agent that a new deployment hosts."""

DESCRIPTION = "Answers for this host."

USUAL_GATEWAY = 8080
"""Default port of an HTTP gateway."""

TOKEN_FILE = "secrets/gateway.token"
"""File of the token for an HTTP gateway, relative to the deployment."""

GATEWAY = """
# Any HTTP client can make the calls that agents make: `agtp docs gateway`. Its token identifies this agent.
[gateway]
listen = "tcp:{port}:interface=127.0.0.1"

[[http.client]]
name = "{agent}"
token = "file:{token}"
agent = "{agent}"
"""

SEARCH = """
# DISCOVER finds endpoints and tools by meaning as well as by words, offline: `agtp docs search`.
[search]
engine = "static"
"""

STATE_FILES = (
    *("signing.key", "signing.pub"),
    *("ca.pem", "ca.key", "server.pem", "server.key"),
    *("registrar.key", "registrar.pub", "registrar.pem"),
)
"""Files that production needs in the state directory, in the order of creation."""


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """The values of a command line that writes a deployment."""

    directory: Path
    """The directory, as an absolute path."""

    server_id: str
    address: str
    port: int
    servers: tuple[ServerEntry, ...]
    sample: bool = False
    """Whether to start with the sample's endpoints, recipes and MCP server."""

    committed: bool = True
    """Whether the deployment is kept: it gets optional sections, an example with its test, and ``.gitignore``."""

    gateway: int = 0
    """Port of an HTTP gateway on loopback, whose token identifies the trial agent; 0: no gateway."""

    operator: str = ""
    """Name of the operator in the manifest."""

    contact: str = ""
    """Address of the operator in the manifest."""

    @property
    def host_toml(self) -> Path:
        """The path of the configuration."""
        return self.directory / "host.toml"

    @property
    def state(self) -> Path:
        """The directory of all that the host writes."""
        return self.directory / "state"


def host_toml(deployment: Deployment, *, production: bool) -> str:
    """Return the text of ``host.toml``."""
    if deployment.sample:
        said: dict[str, str | int] = {
            "server_id": deployment.server_id,
            "operator": deployment.operator,
            "contact": deployment.contact,
        }
        said |= {"address": deployment.address, "port": deployment.port}
        text = shipped.sample_toml({key: value for key, value in said.items() if value})
        further = [*search_sections(deployment), *(server.toml() for server in deployment.servers)]
        if deployment.gateway:
            further.append(gateway_toml(deployment.gateway))
        return "\n".join((text.rstrip("\n"), *("\n" + each.strip("\n") for each in further), ""))
    profile = "production" if production else "development"
    lines = [
        "# The configuration of this host. Relative paths are relative to this file.",
        "# Check it with `agtp check host.toml`.",
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
            "",
            "[approvals]",
            "# A person approves each irreversible call: `agtp approvals ls` lists those that wait,",
            "# and `agtp approvals approve ID` permits one call, once.",
            "irreversible = true",
        ]
    lines += [section.rstrip("\n") for section in search_sections(deployment)]
    lines += [
        "",
        "# Who runs this host, by name, key and role: viewer, approver or administrator. The first administrator has",
        "# the registrar's key; give each person a separate key: `agtp docs operators`.",
        "[[operator]]",
        'name = "admin"',
        f"key = {string_text(_registrar_key(deployment, production=production))}",
        'role = "administrator"',
    ]
    # The servers come last, because operators append most sections for them.
    for server in deployment.servers:
        lines += ["", server.toml().rstrip("\n")]
    if deployment.gateway:
        lines.append(gateway_toml(deployment.gateway).rstrip("\n"))
    if deployment.committed:
        lines.append(scaffold.optional_sections().rstrip("\n"))
    return "\n".join(lines) + "\n"


def _registrar_key(deployment: Deployment, *, production: bool) -> str:
    """Return the registrar's key for ``[[operator]]``; a development host makes its file at the first start."""
    if not production:
        return "state/registrar.pem"
    return SigningKey.load(deployment.state / "registrar.key").public.fingerprint


def search_sections(deployment: Deployment) -> list[str]:
    """Return the section for searches by meaning, if the deployment is kept and the packages are installed."""
    there = deployment.committed and all(map(extras.is_installed, EXTRAS["static"]))
    return [SEARCH] if there else []


def gateway_toml(port: int) -> str:
    """Return the sections of an HTTP gateway on loopback, and of a token for it."""
    return GATEWAY.format(port=port, token=TOKEN_FILE, agent=CALLER)


def write_token(directory: Path) -> list[Path]:
    """
    Write the token that :func:`gateway_toml` names, if it does not exist.

    :return: the written files.
    """
    place = directory / TOKEN_FILE
    if place.exists():
        return []
    files.make_directory(place.parent)
    return [_create(place, f"{secrets.token_hex(32)}\n".encode(), files.PRIVATE)]


def write_development(deployment: Deployment) -> list[Path]:
    """
    Write a deployment whose first start creates its keys.

    :return: the written files.
    :raises ConfigurationError: the options do not make a valid configuration; then no file is left behind.
    :raises OSError: a file cannot be written.
    """
    if deployment.sample:
        copied = shipped.copy_sample(deployment.directory)
        try:
            written = _configure(deployment, production=False)
        except ConfigurationError:
            for path in copied:
                path.unlink()
            raise
        return [*written, *copied, *_write_kept_files(deployment, example=False)]
    described = {"name": AGENT, "description": DESCRIPTION, "archetype": "assistant"}
    text = json.dumps(described, indent=2) + "\n"
    return [
        *_configure(deployment, production=False),
        _create(deployment.directory / "agents" / f"{AGENT}.agent.json", text.encode()),
        *_write_kept_files(deployment, example=True),
    ]


def _write_kept_files(deployment: Deployment, *, example: bool) -> list[Path]:
    """Write the further files of a deployment that is kept."""
    if not deployment.committed:
        return []
    written = scaffold.write_scaffold(deployment.directory, example=example)
    return [*written, *scaffold.keep_directories(deployment.directory)]


def write_production(deployment: Deployment) -> list[Path]:
    """
    Write a deployment with everything that production needs.

    :return: the written files.
    :raises ConfigurationError: the options do not make a valid configuration.
    :raises OSError: a file cannot be written.
    """
    keys = make_keys(deployment)
    return [*_configure(deployment, production=True), *keys, *_write_kept_files(deployment, example=False)]


def set_up_again(deployment: Deployment) -> tuple[list[Path], list[Path]]:
    """
    Start a production host's records over with an empty store; keep the old store under another name as evidence.

    Configuration, keys and agents stay; missing keys are created.

    :param deployment: has the ``server_id`` of the existing ``host.toml``.
    :return: the renamed files, and the present keys and certificates.
    :raises ConfigurationError: the configuration has other faults than those repaired here.
    :raises agtphost.stores.rows.StoreError: a host runs with this state, or the store cannot be created.
    :raises OSError: a file cannot be written.
    """
    config = examine(deployment.host_toml).config
    state, store = config.host.state_dir, locate_store(config.store)
    if config.host.development or store.file is None or state != deployment.state:
        where = f"state_dir is {state}" if not config.host.development else "its profile is development"
        where = f"its store is not a file: {store.name}" if store.file is None else where
        problem = Problem(message=f"`agtp init --production` did not write this host: {where}")
        raise ConfigurationError([problem])
    files.make_directory(state)
    lock = store.lock(state)
    lock.acquire()
    try:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        aside = []
        for path in (*store.files(), config.audit.witness):
            if path.exists():
                kept = path.with_name(f"{path.name}.{stamp}")
                path.rename(kept)
                aside.append(kept)
        keys = make_keys(deployment)
        _create_store(config, store, aside)
    finally:
        lock.release()
    load(deployment.host_toml)
    return aside, keys


def _create_store(config: Config, place: StoreLocation, aside: list[Path]) -> None:
    """Create a store whose first record names the operator and the renamed files; write its witness file."""
    key = SigningKey.load(config.audit.key) if config.audit.signing else None
    fields = {
        "actor": acceptance.operator(),
        "accepted": {"size": 0},
        "reason": "set up again with an empty store",
        "kept": [str(path) for path in aside],
    }
    store = place.open_store(create=True)
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
    Create the keys and certificates of a production host, and its first agent.

    Existing files are kept, so that an interrupted run can be repeated.

    :return: the files that exist now.
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
        governance_zone=PRODUCTION_ZONE,
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


def _server_certificate(state: Path, authority: certificates.Authority, deployment: Deployment, now: datetime) -> None:
    """Issue a certificate for the host's name and for the address that its own commands use."""
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
        addresses=reachable_addresses(deployment.address),
    )
    _create(key, certificates.key_pem_of(made), files.PRIVATE)
    _create(certificate, certificates.pem_of(issued))
