"""Which host, as whom, trusting what: from options, host.toml or a profile."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from agtphost.cli.configured import NO_HOST, find_config, load_config
from agtphost.cli.failures import CommandError, WrongInput, misconfigured
from agtphost.cli.identities import CALLER, checked_agent_id, given_certificate, identity_of, pair, present
from agtphost.cli.options import HERE, Connection
from agtphost.errors import ConfigurationError
from agtphost.identity import key_history
from agtphost.identity.key_ring import KeyRing, known_keys
from agtphost.identity.keys import KeyFormatError, SigningKey, VerifyingKey
from agtphost.vocabulary.uris import DEFAULT_PORT, UriError, parse

if TYPE_CHECKING:
    from agtphost.client.caller import ClientOptions
    from agtphost.config import Config

_TCP = re.compile(r"tcp6?:(?:port=)?(?P<port>[0-9]{1,5})(?::.*)?", re.ASCII)
_INTERFACE = re.compile(r"[:,]interface=(?P<address>(?:[^:\\]|\\.)+)")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_UNSPECIFIED = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


@dataclass(frozen=True, kw_only=True)
class Target:
    """Everything a connection needs."""

    uri: str
    cacert: Path | None
    cert: Path | None
    key: Path | None
    agent_id: str | None
    keys: Mapping[str, VerifyingKey] = field(default_factory=dict)
    """Keys that the host signs with, by kid; empty where they are not at hand."""

    timeout: float = 60.0
    plain_parameters: bool = False
    """Whether the host knows no envelope."""

    def client_options(self, **more: Unpack[ClientOptions]) -> ClientOptions:
        """What makes a client of either kind."""
        return {
            "trust": self.cacert,
            "cert": self.cert,
            "key": self.key,
            "agent_id": self.agent_id,
            "timeout": self.timeout,
            "plain_parameters": self.plain_parameters,
            **more,
        }


def resolve(where: Connection, uri: str | None = None, *, identity: str = CALLER) -> Target:
    """
    Find out whom to connect to, and as whom.

    :param uri: as given; None for ``--uri``, where a command has that; ``-`` for the configured host.
    :param identity: who to be where the command line does not say.
    :raises CommandError: if that cannot be told, naming what is missing.
    """
    uri = uri or where.host_uri
    if uri == HERE:
        uri = None
    if where.profile is not None:
        return _from_profile(where, where.profile, uri)
    path = where.config if uri is not None else find_config(where)
    if path is None and uri is not None and where.cacert is None:
        path = _config_of(where, uri)
    if path is not None:
        return _from_config(where, load_config(path), uri, identity)
    if uri is None:
        raise WrongInput("no host is named", NO_HOST)
    if where.identity is not None:
        raise WrongInput("--as needs the host's state directory", "Add --config host.toml, or use --cert.")
    cert, key = given_certificate(where)
    return Target(
        uri=uri,
        cacert=present(where.cacert, "--cacert"),
        cert=cert,
        key=key,
        agent_id=checked_agent_id(where.agent_id),
        timeout=where.timeout,
        plain_parameters=where.plain_parameters,
    )


def _config_of(where: Connection, uri: str) -> Path | None:
    """The host.toml at hand, where it is the one of the host that ``uri`` names: its authority and keys then count."""
    path = find_config(where)
    if path is None:
        return None
    try:
        configured, named = parse(address_of(load_config(path))), parse(uri)
    except (CommandError, UriError):
        return None
    if (named.port or DEFAULT_PORT) != (configured.port or DEFAULT_PORT):
        return None
    return path if named.host in (configured.host, *_LOOPBACK) and configured.host in _LOOPBACK else None


def _from_profile(where: Connection, name: str, uri: str | None) -> Target:
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
    cert, key = given_certificate(where)
    if cert is None and not where.no_cert and profile.cert is not None:
        cert, key = pair(profile.cert, profile.key)
    return Target(
        uri=uri or profile.uri,
        cacert=present(where.cacert or profile.cacert, "cacert"),
        cert=cert,
        key=key,
        agent_id=checked_agent_id(where.agent_id or profile.agent_id),
        timeout=where.timeout,
        plain_parameters=where.plain_parameters,
    )


def _from_config(where: Connection, config: Config, uri: str | None, identity: str) -> Target:
    agent_id = checked_agent_id(where.agent_id)
    cert, key = given_certificate(where)
    if cert is None:
        cert, key, known_id = identity_of(config, where.identity, identity)
        agent_id = agent_id or known_id
        if where.no_cert:
            cert = key = None
    return Target(
        uri=uri or address_of(config),
        cacert=present(where.cacert or config.tls.client_ca, "the host's authority", "Start the host once."),
        cert=cert,
        key=key,
        agent_id=agent_id,
        keys=signing_keys(config),
        timeout=where.timeout,
        plain_parameters=where.plain_parameters,
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


def signing_keys(config: Config) -> KeyRing:
    """The keys that the host signs and signed with, by kid; empty if there is none yet, or none is readable here."""
    public = config.audit.key.with_suffix(".pub")
    try:
        if public.is_file():
            key = VerifyingKey.load(public)
        elif config.audit.key.is_file():
            key = SigningKey.load(config.audit.key).public
        else:
            return KeyRing()
        return known_keys(key, key_history.read_history(config.host.state_dir / key_history.DIRECTORY, key))
    except PermissionError:
        return KeyRing()
    except (KeyFormatError, OSError) as error:
        raise WrongInput(f"the host's signing key cannot be read: {error}") from None
