"""Which host, as whom, trusting what: from options, host.toml or a profile."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agtphost.cli.failures import WrongInput, misconfigured
from agtphost.cli.options import Connection
from agtphost.errors import ConfigurationError
from agtphost.identity.keys import KeyFormatError, SigningKey, VerifyingKey
from agtphost.vocabulary.identifiers import is_agent_id, is_agent_name

if TYPE_CHECKING:
    from agtphost.config import Config

HERE = "-"
"""In place of a URI: the host of the configuration."""

CALLER = "demo"
"""The agent that the development profile creates."""

REGISTRAR = "registrar"
"""The Genesis issuer's name among identities: it has a certificate and is no agent."""

FOUND_IN = ("host.toml", "etc/host.toml")
"""Where a configuration is looked for, below the working directory."""

NO_HOST = "Name an agtp:// URI, --config FILE or --profile NAME, or work where a host.toml is."

_TCP = re.compile(r"tcp6?:(?:port=)?(?P<port>[0-9]{1,5})(?::.*)?", re.ASCII)
_INTERFACE = re.compile(r"[:,]interface=(?P<address>(?:[^:\\]|\\.)+)")
_UNSPECIFIED = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Everything a connection needs."""

    uri: str
    cacert: Path | None
    cert: Path | None
    key: Path | None
    agent_id: str | None
    keys: Mapping[str, VerifyingKey] = field(default_factory=dict)
    """Keys that the host signs with, by kid; empty where they are not at hand."""

    timeout: float = 60.0


def find_config(where: Connection) -> Path | None:
    """The configuration that was named, or lies where the command runs."""
    if where.config is not None:
        return where.config
    if where.profile is not None:
        return None
    return next((path for name in FOUND_IN if (path := Path(name)).is_file()), None)


def load_config(path: Path) -> Config:
    """
    Read a ``host.toml``.

    :raises CommandError: with every problem.
    """
    from agtphost.config import load

    try:
        return load(path)
    except ConfigurationError as error:
        raise misconfigured(error) from None


def require_config(where: Connection, purpose: str) -> Config:
    """The configuration, for commands that work on the host's own files."""
    path = find_config(where)
    if path is None:
        raise WrongInput(f"{purpose} needs the host's own configuration", "Name it by --config host.toml.")
    return load_config(path)


def resolve(where: Connection, uri: str | None = None, *, identity: str = CALLER) -> Reach:
    """
    Find out whom to connect to, and as whom.

    :param uri: as given; None or ``-`` for the configured host.
    :param identity: who to be where the command line does not say.
    :raises CommandError: if that cannot be told, naming what is missing.
    """
    if uri == HERE:
        uri = None
    if where.profile is not None:
        return _from_profile(where, where.profile, uri)
    path = where.config if uri is not None else find_config(where)
    if path is not None:
        return _from_config(where, load_config(path), uri, identity)
    if uri is None:
        raise WrongInput("no host is named", NO_HOST)
    if where.identity is not None:
        raise WrongInput("--as needs the host's state directory", "Add --config host.toml, or use --cert.")
    cert, key = _given_certificate(where)
    return Reach(
        uri=uri,
        cacert=_file(where.cacert, "--cacert"),
        cert=cert,
        key=key,
        agent_id=_agent_id(where.agent_id),
        timeout=where.timeout,
    )


def _from_profile(where: Connection, name: str, uri: str | None) -> Reach:
    from agtphost.config import load_profile

    if where.config is not None:
        raise WrongInput("--config and --profile exclude each other")
    if where.identity is not None:
        raise WrongInput("--as needs the host's state directory", "A profile has its own cert and key.")
    try:
        profile = load_profile(name)
    except ConfigurationError as error:
        raise misconfigured(error) from None
    if not (uri or profile.uri):
        raise WrongInput(f"the profile {name} has no uri", 'Add uri = "agtp://HOST" to it.')
    cert, key = _given_certificate(where)
    if cert is None and not where.no_cert and profile.cert is not None:
        cert, key = _pair(profile.cert, profile.key)
    return Reach(
        uri=uri or profile.uri,
        cacert=_file(where.cacert or profile.cacert, "cacert"),
        cert=cert,
        key=key,
        agent_id=_agent_id(where.agent_id or profile.agent_id),
        timeout=where.timeout,
    )


def _from_config(where: Connection, config: Config, uri: str | None, identity: str) -> Reach:
    agent_id = _agent_id(where.agent_id)
    cert, key = _given_certificate(where)
    if cert is None:
        cert, key, known_id = _identity(config, where.identity, identity)
        agent_id = agent_id or known_id
        if where.no_cert:
            cert = key = None
    return Reach(
        uri=uri or address_of(config),
        cacert=_file(where.cacert or config.tls.client_ca, "the host's authority", "Start the host once."),
        cert=cert,
        key=key,
        agent_id=agent_id,
        keys=signing_keys(config),
        timeout=where.timeout,
    )


def address_of(config: Config) -> str:
    """The URI of a configured host, seen from its own machine."""
    address, port = config.listen.address, config.listen.port
    if config.listen.endpoint is not None:
        match = _TCP.fullmatch(config.listen.endpoint)
        if match is None:
            raise WrongInput("the address cannot be told from [listen] endpoint", "Name the URI.")
        interface = _INTERFACE.search(config.listen.endpoint)
        address = re.sub(r"\\(.)", r"\1", interface["address"]) if interface else ""
        port = int(match["port"])
    if not port:
        raise WrongInput("the host listens on a port that the system chooses", "Name the URI that it logged.")
    address = _UNSPECIFIED.get(address, address)
    return f"agtp://[{address}]:{port}" if ":" in address else f"agtp://{address}:{port}"


def signing_keys(config: Config) -> dict[str, VerifyingKey]:
    """The key that the host signs with, by kid; empty if there is none yet, or it is not readable here."""
    public = config.audit.key.with_suffix(".pub")
    try:
        if public.is_file():
            key = VerifyingKey.load(public)
        elif config.audit.key.is_file():
            key = SigningKey.load(config.audit.key).public
        else:
            return {}
    except PermissionError:
        return {}
    except (KeyFormatError, OSError) as error:
        raise WrongInput(f"the host's signing key cannot be read: {error}") from None
    return {key.kid: key}


# Identities


def identities(config: Config) -> dict[str, Path]:
    """The certificates that lie in the state directory, by the name for ``--as``."""
    found = {}
    registrar = config.host.state_dir / "registrar.pem"
    if registrar.is_file():
        found[REGISTRAR] = registrar
    directory = config.identity.known_agents
    if directory.is_dir():
        for entry in sorted(directory.iterdir()):
            if (entry / "agent.pem").is_file():
                found[entry.name] = entry / "agent.pem"
    return found


def _identity(
    config: Config, wanted: str | None, default: str
) -> tuple[Path | None, Path | None, str | None]:
    """Certificate, key and Agent-ID of a named identity; nothing where only the default is absent."""
    known = identities(config)
    name = wanted or default
    certificate = known.get(name)
    if certificate is None:
        if wanted is not None:
            listed = f"Known here: {', '.join(known)}." if known else "Start the host once, or use --cert."
            raise WrongInput(f"there is no identity {wanted!r} in {config.host.state_dir}", listed)
        return None, None, None
    cert, key = _pair(certificate, None)
    return cert, key, certified_agent(certificate)


def certified_agent(certificate: Path) -> str | None:
    """The Agent-ID that a certificate file names; None where it names none."""
    from cryptography.hazmat.primitives.serialization import Encoding

    from agtphost.identity.certificates import CertificateError, load_certificate, parse_peer_certificate

    try:
        return parse_peer_certificate(load_certificate(certificate).public_bytes(Encoding.DER)).agent_id
    except (CertificateError, OSError) as error:
        raise WrongInput(f"the certificate cannot be read: {error}") from None


def _given_certificate(where: Connection) -> tuple[Path | None, Path | None]:
    if where.no_cert:
        if where.cert is not None or where.key is not None:
            raise WrongInput("--no-cert excludes --cert and --key")
        return None, None
    if where.cert is None:
        if where.key is not None:
            raise WrongInput("--key needs --cert")
        return None, None
    return _pair(where.cert, where.key)


def _pair(certificate: Path, key: Path | None) -> tuple[Path | None, Path | None]:
    return (
        _file(certificate, "the client certificate"),
        _file(
            key or certificate.with_suffix(".key"), "the key of the client certificate", "Name it by --key."
        ),
    )


def _file(path: Path | None, what: str, remedy: str = "") -> Path | None:
    if path is not None and not path.is_file():
        raise WrongInput(f"{what} is not there: {path}", remedy)
    return path


def _agent_id(text: str | None) -> str | None:
    if text is not None and not is_agent_id(text):
        raise WrongInput("--agent-id is not 64 lower-case hexadecimal digits")
    return text


# Agents


def agent_id_of(where: Connection, agent: str) -> str:
    """
    The Agent-ID of an agent that was named by its id, or by its label in the state directory.

    :raises CommandError: if no such label is known here.
    """
    if is_agent_id(agent):
        return agent
    path = find_config(where)
    if path is None:
        raise WrongInput(
            f"{agent!r} is not an Agent-ID, and there is no host.toml whose agents have names",
            "Give 64 hexadecimal digits, or --config host.toml.",
        )
    found = local_agents(load_config(path))
    if agent not in found:
        listed = f"Known here: {', '.join(found)}." if found else "Start the host once."
        raise WrongInput(f"no agent is named {agent!r} here", listed)
    return found[agent]


def local_agents(config: Config) -> dict[str, str]:
    """Label to Agent-ID of every agent whose files lie with this host."""
    found: dict[str, str] = {}
    for directory in agent_directories(config):
        if not directory.is_dir():
            continue
        for entry in sorted(directory.iterdir()):
            document = entry / "document.json"
            if is_agent_name(entry.name) and document.is_file():
                found.setdefault(entry.name, document_id(document))
    return found


def agent_directories(config: Config) -> tuple[Path, ...]:
    """Where agents lie: those admitted as callers, those hosted, and those the operator put there."""
    listed = [config.identity.known_agents, config.host.state_dir / "hosted"]
    if config.identity.agents is not None:
        listed.append(config.identity.agents)
    return tuple(listed)


def document_id(document: Path) -> str:
    """The ``agent_id`` of an Identity Document's file."""
    from agtphost.identity.documents import DocumentError, decode

    try:
        agent_id = decode(document.read_bytes()).get("agent_id")
    except (DocumentError, OSError) as error:
        raise WrongInput(f"{document} cannot be read: {error}") from None
    if not isinstance(agent_id, str) or not is_agent_id(agent_id):
        raise WrongInput(f"{document} names no Agent-ID")
    return agent_id
