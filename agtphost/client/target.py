"""
Which host, as whom, trusting what: from a ``host.toml``, a profile or a URI.

The ``agtp`` command and :meth:`agtphost.client.sync.Client.of` find a host's address, its authority, its signing
keys and a caller's certificate here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from agtphost.client.errors import InvalidCall
from agtphost.client.local_host import LocalHost, recall, remember
from agtphost.client.local_identities import CALLER, identity_of, pair, present
from agtphost.errors import ConfigurationError
from agtphost.identity import key_history
from agtphost.identity.key_ring import KeyRing, known_keys
from agtphost.identity.keys import KeyFormatError, SigningKey, VerifyingKey
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.uris import DEFAULT_PORT, UriError, parse

if TYPE_CHECKING:
    from agtphost.client.caller import ClientOptions
    from agtphost.config import Profile
    from agtphost.config.lenient import LenientReading

FOUND_IN = ("host.toml", "etc/host.toml")
"""Where a configuration is looked for, below the working directory."""

_NEEDED = frozenset({"host", "listen", "tls", "identity", "audit"})
"""Tables of a host.toml that say where the host is, and where its authority, its keys and its agents lie."""

_SCHEME = "agtp://"
_TCP = re.compile(r"tcp6?:(?:port=)?(?P<port>[0-9]{1,5})(?::.*)?", re.ASCII)
_INTERFACE = re.compile(r"[:,]interface=(?P<address>(?:[^:\\]|\\.)+)")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_UNSPECIFIED = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
_PROFILE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Target:
    """Everything a connection needs."""

    uri: str
    cacert: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    agent_id: str | None = None
    keys: Mapping[str, VerifyingKey] = field(default_factory=dict)
    """Keys that the host signs with, by kid; empty where they are not at hand."""

    pinned: bool = False
    """Whether these keys alone count: the host's manifest is not asked for others."""

    shares_store: bool = False
    """Whether the host's configuration has a store that another host can take over."""

    timeout: float = 60.0
    plain_parameters: bool = False
    """Whether the host knows no envelope."""

    quic: bool | Literal["auto"] = False
    """Whether calls go over QUIC instead of TLS, as :class:`~agtphost.client.caller.ClientOptions` has it."""

    quic_port: int = 0
    """The UDP port that the host's file names for QUIC, where the file gave :attr:`uri` too; 0: that of the URI."""

    tls_port: int = 0
    """The port of TLS that the host's file names, where :attr:`uri` has QUIC's own; 0: not known, or not another."""

    def choose_carrier(self, quic: bool | Literal["auto"]) -> Self:
        """Return the target for calls over this carrier: QUIC alone needs its own port, which ``auto`` learns."""
        if quic is not True or not self.quic_port:
            return replace(self, quic=quic)
        tls_port = parse(self.uri).port or DEFAULT_PORT
        own = f"{self.uri.rpartition(':')[0]}:{self.quic_port}"
        return replace(self, quic=quic, uri=own, tls_port=0 if tls_port == self.quic_port else tls_port)

    def client_options(self, **more: Unpack[ClientOptions]) -> ClientOptions:
        """Return the options for a client of any kind."""
        return {
            "trust": self.cacert,
            "cert": self.cert,
            "key": self.key,
            "agent_id": self.agent_id,
            "timeout": self.timeout,
            "plain_parameters": self.plain_parameters,
            "quic": self.quic,
            "tls_port": self.tls_port,
            **more,
        }


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """The options that a caller gives; the others come from the host's files or from the profile."""

    cert: Path | None = None
    key: Path | None = None
    """None: next to the certificate, as ``.key``."""

    cacert: Path | None = None
    agent_id: str | None = None
    anonymous: bool = False
    """Shows no certificate, even if one is at hand."""

    @property
    def pair(self) -> tuple[Path | None, Path | None]:
        """The certificate that was named, and its key. :raises InvalidCall: if one is not there."""
        if self.cert is None and self.key is not None:
            raise InvalidCall("A key without a certificate proves nothing.", "Name the certificate as well.")
        return (None, None) if self.cert is None or self.anonymous else pair(self.cert, self.key)

    @property
    def authority(self) -> Path | None:
        """The authority that was named. :raises InvalidCall: if it is not there."""
        return None if self.cacert is None else present(self.cacert, "The authority of the host's certificate")


def find_for_client(
    where: str | os.PathLike[str] | None,
    as_: str | None,
    uri: str | None,
    anonymous: bool,
    signing_key: str | os.PathLike[str] | None,
    options: ClientOptions,
) -> tuple[Target, ClientOptions]:
    """
    Return what ``Client.of`` makes a client from: the host, and the client's options.

    :raises InvalidCall: as :func:`find` does.
    """
    credentials = Credentials(
        cacert=_path(options.get("trust")),
        cert=_path(options.get("cert")),
        key=_path(options.get("key")),
        agent_id=options.get("agent_id"),
        anonymous=anonymous,
    )
    target = find(where, as_, credentials, uri).choose_carrier(options.get("quic", False))
    if signing_key is not None:
        key = _load_pinned(Path(signing_key))
        target = replace(target, keys={key.kid: key}, pinned=True)
    kept: Any = {name: value for name, value in options.items() if name not in ("trust", "cert", "key", "agent_id")}
    return target, target.client_options(**kept)


def _load_pinned(path: Path) -> VerifyingKey:
    try:
        return VerifyingKey.load(present(path, "The host's signing key"))
    except (KeyFormatError, OSError) as error:
        raise InvalidCall(f"The host's signing key {path} cannot be read: {explain(error)}.") from error


def _path(name: str | Path | None) -> Path | None:
    return None if name is None else Path(name)


def find(
    where: str | os.PathLike[str] | None, as_: str | None, credentials: Credentials, address: str | None = None
) -> Target:
    """
    Find a host as the ``agtp`` command does.

    :param where: ``agtp://...``; a ``host.toml``, or the directory of one; the name of a profile; None: the host.toml
        that lies where the program runs.
    :param as_: the name of an agent among those that lie with the host; None: ``demo``, where there is one.
    :param address: the host's URI, where the configuration does not say.
    :raises InvalidCall: saying what is missing, and how it is made.
    """
    if isinstance(where, str) and where.lower().startswith(_SCHEME):
        return _of_uri(where, as_, credentials)
    path = found_config() if where is None else Path(where)
    if path is None:
        raise InvalidCall("No host is named.", f"Name a host.toml, a profile or {_SCHEME}HOST, or work where one is.")
    if path.is_dir():
        path = present(path / "host.toml", "The host's configuration", "agtp init makes one.")
    if isinstance(where, str) and not path.is_file() and _PROFILE.fullmatch(where):
        if as_ is not None:
            raise InvalidCall("A profile names its own certificate.", "Leave as_ out, or name a host.toml.")
        return of_profile(_profile(where), where, credentials, address)
    present(path, "The host's configuration", f"Name a host.toml (agtp init makes one), a profile or {_SCHEME}HOST.")
    return of_local(_load_host(path), credentials, identity=as_, uri=address)


def _of_uri(uri: str, as_: str | None, credentials: Credentials) -> Target:
    host = None if credentials.cacert is not None else host_for(uri)
    if host is not None:
        return of_local(host, credentials, identity=as_, uri=uri)
    if as_ is not None:
        raise InvalidCall(
            f"No certificate of an agent named {as_} lies here for {uri}.",
            "Name the host.toml of a host on this machine, or the files: cert=, key=, trust=.",
        )
    cert, key = credentials.pair
    return Target(uri=uri, cacert=credentials.authority, cert=cert, key=key, agent_id=credentials.agent_id)


def of_profile(profile: Profile, name: str, credentials: Credentials, uri: str | None = None) -> Target:
    """
    Return the host of a profile.

    :param name: the profile's.
    :raises InvalidCall: if what it names is not there.
    """
    if not (uri or profile.uri):
        raise InvalidCall(f"The profile {name} has no uri.", f'Add uri = "{_SCHEME}HOST" to it.')
    cert, key = credentials.pair
    if cert is None and not credentials.anonymous and profile.cert is not None:
        cert, key = pair(profile.cert, profile.key)
    cacert = credentials.authority
    if cacert is None and profile.cacert is not None:
        cacert = present(profile.cacert, "The cacert of the profile")
    return Target(
        uri=uri or profile.uri, cacert=cacert, cert=cert, key=key, agent_id=credentials.agent_id or profile.agent_id
    )


def of_local(
    host: LocalHost,
    credentials: Credentials,
    *,
    identity: str | None = None,
    default: str = CALLER,
    uri: str | None = None,
    local: bool = True,
    with_keys: bool = True,
) -> Target:
    """
    Return the target of a host on this machine.

    :param identity: who to be, by name.
    :param default: who to be where none is named, if that name exists.
    :param local: whether identities are looked for in the state directory.
    :param with_keys: whether the host's signing keys are read.
    :raises InvalidCall: for what is not there.
    """
    agent_id = credentials.agent_id
    cert, key = credentials.pair
    if cert is None and local:
        cert, key, known_id = identity_of(host, identity, default)
        agent_id = agent_id or known_id
        if credentials.anonymous:
            cert = key = None
    authority = credentials.authority or present(host.client_ca, "The host's authority", "Start the host once.")
    return Target(
        uri=uri or address_of(host),
        quic_port=0 if uri else host.quic_port,
        tls_port=_find_tls_port(host, uri) if uri and host.quic_port else 0,
        cacert=authority,
        cert=cert,
        key=key,
        agent_id=agent_id,
        keys=signing_keys(host) if with_keys else KeyRing(),
        shares_store=host.shares_store,
    )


def _find_tls_port(host: LocalHost, uri: str) -> int:
    """Return the host's port for TLS where a URI that the caller wrote has QUIC's own; 0 where it has another."""
    try:
        named, configured = parse(uri).port, parse(address_of(host)).port or DEFAULT_PORT
    except (InvalidCall, UriError):
        return 0
    return configured if named == host.quic_port != configured else 0


def of_reading(
    found: LenientReading,
    credentials: Credentials,
    *,
    identity: str | None = None,
    default: str = CALLER,
    uri: str | None = None,
) -> Target:
    """
    Return the host of a configuration on this machine, whose file may have faults.

    :raises InvalidCall: where something is needed that the file does not tell because of a fault; the remedy names the
        options that take its place.
    """
    state = found.is_known(("host", "state_dir"))
    lacking = []
    if uri is None and not all(found.is_known(("listen", key)) for key in ("address", "port", "endpoint")):
        lacking.append(("the host's address ([listen])", f"--uri {_SCHEME}HOST:PORT"))
    if credentials.cacert is None and not (found.is_known(("tls", "client_ca")) and (state or _is_given(found, "tls"))):
        lacking.append(("the authority of the host's certificate ([tls] client_ca, [host] state_dir)", "--cacert FILE"))
    if (
        credentials.cert is None
        and not credentials.anonymous
        and not (state and found.is_known(("identity", "known_agents")))
    ):
        lacking.append(("your certificate ([host] state_dir)", "--cert FILE --key FILE"))
    if lacking:
        problem = found.problems[0]
        raise InvalidCall(
            f"The configuration does not tell {' and '.join(what for what, _ in lacking)}: {problem}.",
            f"Add {' '.join(option for _, option in lacking)}, or correct the file.",
        )
    keys_known = found.is_known(("audit", "key")) and (state or _is_given(found, "audit"))
    host = LocalHost.of(found.config)
    return of_local(host, credentials, identity=identity, default=default, uri=uri, local=state, with_keys=keys_known)


def _is_given(found: LenientReading, section: str) -> bool:
    """Return whether the file itself says where a file lies that is otherwise in the state directory."""
    key = {"tls": "client_ca", "audit": "key"}[section]
    return key in getattr(found.config, section).model_fields_set


def is_of(uri: str, path: Path) -> bool:
    """
    Return whether a configuration is that of the host that ``uri`` names, which has an address of this machine.

    An address that the file does not tell because of a fault counts as the same: the host's certificate proves it.

    :param path: of the ``host.toml``.
    """
    try:
        named = parse(uri)
        host = recall(path)
        if host is None:
            found = _read(path)
            if not all(found.is_known(("listen", key)) for key in ("address", "port", "endpoint")):
                return named.host in _LOOPBACK
            host = LocalHost.of(found.config)
        configured = parse(address_of(host))
    except (InvalidCall, UriError):
        return False
    if (named.port or DEFAULT_PORT) not in (configured.port or DEFAULT_PORT, host.quic_port):
        return False
    return named.host in (configured.host, *_LOOPBACK) and configured.host in _LOOPBACK


def found_config() -> Path | None:
    """Return the ``host.toml`` that lies where the program runs."""
    return next((path for name in FOUND_IN if (path := Path(name)).is_file()), None)


def host_for(uri: str, path: Path | None = None) -> LocalHost | None:
    """
    Return the configured host at hand, where it is the one that ``uri`` names: its authority and keys then count.

    :param path: its file; None: the one that lies where the program runs.
    """
    path = path or found_config()
    if path is None or not is_of(uri, path):
        return None
    return recall(path) or LocalHost.of(_read(path).config)


def _read(path: Path) -> LenientReading:
    from agtphost.config.lenient import read_leniently

    found = read_leniently(path)
    if not found.problems:
        remember(path, LocalHost.of(found.config))
    return found


def _load_host(path: Path) -> LocalHost:
    """
    Load a configuration as far as a caller needs it: other parts of a host may need further packages and secrets.

    :raises InvalidCall: if that much of it cannot be used.
    """
    host = recall(path)
    if host is not None:
        return host
    from agtphost.config import examine

    try:
        found = examine(path)
        if found.sections & _NEEDED or (found.problems and not found.sections):
            raise ConfigurationError(found.problems)
    except ConfigurationError as error:
        raise _config_error(error, f"agtp check {path} says what is wrong.") from error
    host = LocalHost.of(found.config)
    if not found.problems:
        remember(path, host)
    return host


def _profile(name: str) -> Profile:
    from agtphost.config import load_profile
    from agtphost.config.profiles import profile_file

    file = profile_file()
    if not file.is_file():
        raise InvalidCall(
            f"The file {name} does not exist, and neither does {file}, for a profile of that name.",
            f'Name a host.toml or an {_SCHEME} URI, or write [profile.{name}] with uri = "{_SCHEME}HOST" there.',
        )
    try:
        return load_profile(name)
    except ConfigurationError as error:
        raise _config_error(error, "Or name a host.toml, or an agtp:// URI.") from error


def _config_error(error: ConfigurationError, remedy: str) -> InvalidCall:
    return InvalidCall(f"The configuration cannot be used: {'; '.join(map(str, error.problems))}.", remedy)


def address_of(host: LocalHost) -> str:
    """
    Return the URI of a host on this machine.

    :raises InvalidCall: if the configuration does not say.
    """
    address, port, endpoint = host.address, host.port, host.endpoint
    # With systemd, only its socket unit has the address; address and port inform commands.
    if endpoint is not None and not endpoint.startswith("systemd:"):
        match = _TCP.fullmatch(endpoint)
        if match is None:
            raise InvalidCall("[listen] endpoint does not have the address.", "Name the URI.")
        interface = _INTERFACE.search(endpoint)
        address = re.sub(r"\\(.)", r"\1", interface["address"]) if interface else ""
        port = int(match["port"])
    if not port:
        raise InvalidCall("The host listens on a port that the system chooses.", "Name the URI that it logged.")
    address = _UNSPECIFIED.get(address, address)
    return f"{_SCHEME}[{address}]:{port}" if ":" in address else f"{_SCHEME}{address}:{port}"


def signing_keys(host: LocalHost) -> KeyRing:
    """
    Return the keys that the host signs and signed with, by kid; empty if there is none yet, or none is readable here.

    :raises InvalidCall: for a file that is not a key.
    """
    public = host.signing_key.with_suffix(".pub")
    try:
        if public.is_file():
            key = VerifyingKey.load(public)
        elif host.signing_key.is_file():
            key = SigningKey.load(host.signing_key).public
        else:
            return KeyRing()
        return known_keys(key, key_history.read_history(host.state_dir / key_history.DIRECTORY, key))
    except PermissionError:
        return KeyRing()
    except (KeyFormatError, OSError) as error:
        raise InvalidCall(f"The host's signing key {public} cannot be read: {explain(error)}.") from error
