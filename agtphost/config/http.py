"""What the sections have in common that serve HTTP: where they listen, and who may speak to them by which name."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ValidationInfo

from agtphost.config import secret
from agtphost.config.secret import Secret
from agtphost.config.values import (
    FilePath,
    Items,
    Line,
    Scope,
    Section,
    Text,
    form,
    load_context,
    read_secret,
)
from agtphost.vocabulary.origins import origin_of

LEAST_TOKEN = 32
"""Characters: 128 bits, in hexadecimal."""

_HOST = r"(?:[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?"
_LOOPBACK = re.compile(r"127(?:\.[0-9]{1,3}){3}", re.ASCII)
_PART = re.compile(r"(?<!\\):")

HostName = Annotated[
    str,
    Text,
    AfterValidator(str.lower),
    form(_HOST, 'must be a name or an address as browsers send it, such as "ops.example.com" or "[::1]:8443"'),
]
_ORIGIN = 'must be an origin, such as "https://ops.example.com", without a path'


def _spell_origin(text: str) -> str:
    """Return an origin as browsers send it: without the port of its scheme."""
    spelled = origin_of(text)
    if not spelled:
        raise ValueError(_ORIGIN)
    return spelled


Origin = Annotated[
    str,
    Text,
    AfterValidator(str.lower),
    form(rf"https?://{_HOST}", _ORIGIN),
    AfterValidator(_spell_origin),
]


class HttpSection(Section):
    """The keys of an HTTP listener, which several sections have. Sections with the same ``listen`` share a listener."""

    listen: Line | None = None
    """
    A Twisted endpoint string, such as ``ssl:8443``, ``tcp:8080:interface=127.0.0.1`` or ``unix:/run/x.sock``; a socket
    that systemd hands over is ``ssl:systemd:domain=INET:name=NAME``. None serves none.
    """

    certificate: FilePath | None = None
    """PEM file for ``ssl``, with its chain; None: that of ``[tls]``."""

    key: FilePath | None = None
    """PEM file of the certificate's private key; None: that of ``[tls]``."""

    hosts: Items[HostName] = ()
    """
    The ``Host`` fields that are answered, others are 421; one without a port covers every port. Empty: the names
    of the certificate, and on loopback ``localhost``, ``127.0.0.1`` and ``[::1]`` with the port.
    """

    origins: Items[Origin] = ()
    """
    Origins of pages elsewhere whose requests are taken, such as ``https://app.example.com``; those of all others are
    answered 403. At ``[gateway]`` and ``[mcp.front]`` these pages may read the answers, too (CORS).
    """

    behind_proxy: bool = False
    """Allow plain ``tcp`` on every interface, because a proxy in front of it speaks TLS; then ``hosts`` is needed."""


def _client_token(value: Any, info: ValidationInfo) -> Secret:
    """Read a client's token: it must be unguessable, and its file private."""
    if isinstance(value, Secret):
        return value
    text = secret.text_of(value)
    resolved = read_secret(text, info)
    if text.startswith("file:"):
        path = load_context(info).folder / text[5:]
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ValueError(f"can be read by others than its owner: {path}; run: chmod 600 {path}")
    if re.fullmatch(r"[\x21-\x7e]+", resolved.reveal(), re.ASCII) is None:
        raise ValueError("has characters that a bearer token cannot have; write one with: openssl rand -hex 32")
    if len(resolved.reveal()) < LEAST_TOKEN:
        raise ValueError(f"has fewer than {LEAST_TOKEN} characters; write one with: openssl rand -hex 32")
    return resolved


class HttpClient(Section):
    """
    An entry of ``[[http.client]]``: a client of every surface that authenticates callers, known by a bearer token.

    The token is an agent's: calls with it are that agent's calls, and when the agent is stopped, the token is refused
    from the next request on. Its assurance is ``gateway``.
    """

    name: Annotated[str, form(r"[a-z0-9][a-z0-9._-]{0,63}", "must be 1 to 64 of a-z, 0-9, '.', '_' and '-'")] = ""
    """What records call it. Required."""

    token: Annotated[Secret, BeforeValidator(_client_token)] | None = None
    """Of 32 characters at least. Required."""

    agent: Line = ""
    """The name or the Agent-ID of an agent that this host knows. Required."""

    scopes: Items[Scope] = ()
    """What is claimed for its calls; they only narrow what the agent's document grants. Empty: all of that."""


class Http(Section):
    """The section ``[http]``: what all surfaces over HTTP share."""

    client: Items[HttpClient] = ()


@dataclass(frozen=True)
class Listener:
    """The parts of an endpoint string by which listeners are compared."""

    kind: str
    """``ssl``, ``tcp``, ``unix`` or what else is written."""

    port: str
    """The path for ``unix``."""

    interface: str

    @property
    def secure(self) -> bool:
        """Whether TLS is spoken."""
        return self.kind == "ssl"

    @property
    def local(self) -> bool:
        """Whether only this machine can connect."""
        address = self.interface.replace("\\", "")
        return (
            self.kind == "unix"
            or address in ("localhost", "::1")
            or re.fullmatch(r"127(\.\d{1,3}){3}", address) is not None
        )

    def __str__(self) -> str:
        return ":".join(part for part in (self.kind, self.port, self.interface) if part)


def is_port(text: str) -> bool:
    """Return whether a text is the number of a port; 0 lets the system choose one."""
    return re.fullmatch("[0-9]{1,5}", text) is not None and int(text) <= 65_535


def find_base_url(listen: str | None, url: str | None) -> str | None:
    """
    Return the address at which clients find a surface, if the configuration has it: its URL, or its listener on
    loopback.

    :param url: the URL that the operator set.
    """
    if url is not None or listen is None:
        return url
    listener = listener_of(listen)
    if listener.kind not in ("ssl", "tcp") or not (listener.local and listener.interface):
        return None
    address = listener.interface.replace("\\", "")
    scheme = "https" if listener.secure else "http"
    return f"{scheme}://{f'[{address}]' if ':' in address else address}:{listener.port}"


def listener_of(listen: str) -> Listener:
    """Return the listener of an endpoint string; whether there can be one is not looked at."""
    kind, *rest = _PART.split(listen)
    if kind == "systemd" or rest[:1] == ["systemd"]:
        # The whole description names the socket; only the service manager knows where it listens.
        return Listener(kind, ":".join(rest).removeprefix("systemd:"), "")
    named = dict(part.split("=", 1) for part in rest if "=" in part)
    plain = [part for part in rest if "=" not in part]
    port = named.get("address" if kind == "unix" else "port", plain[0] if plain else "")
    return Listener(kind, port.lstrip("0") or "0" if port.isdecimal() else port, named.get("interface", ""))


def options_of(listen: str) -> frozenset[str]:
    """Return the names of the options of an endpoint string; none for a socket of systemd."""
    kind, *rest = _PART.split(listen)
    if kind == "systemd" or rest[:1] == ["systemd"]:
        return frozenset()
    return frozenset(part.partition("=")[0] for part in rest if "=" in part)


def accepts_certificates(listen: str | None, wanted: bool, client_auth: str) -> bool:
    """
    Return whether clients of a listener can prove by certificate who they are.

    :param wanted: whether its section asks for that.
    :param client_auth: of ``[tls]``.
    """
    return listen is not None and listener_of(listen).secure and wanted and client_auth != "none"
