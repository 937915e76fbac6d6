"""
The ``agtp://`` URI forms: core v08 section 6.1, grammar of companion section 15.

::

    AGTP-URI  = "agtp://" locator [ "?" query ]
    locator   = agent-id                                        ; Form 1
              / agent-id "@" host [ ":" port ]                  ; Form 1a
              / host [ ":" port ]                               ; Form 2
              / domain                                          ; Form 2a
              / domain [ ":" port ] "/agents/" agent-name [ "/status" ]
                                                                ; Form 3; Form 4 for a domain "agtp." domain
              / domain [ ":" port ] "/agents"                   ; the domain's Agent Namespace Document

The port of Form 3 is beyond the drafts' examples: without it, an agent of a
host on another port would have no address by its name. Else, where the drafts
leave room, this reads them narrowly: a host is an IPv4
address, a bracketed IPv6 address, or letters, digits, ``-``, ``_`` and dots;
what a resolver might take for an address in another spelling (``127.1``,
``0x7f000001``) is refused, and so are user information, fragments, zones and
trailing dots. A label may start with a digit, as DNS allows, but not the last.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import NoReturn

from agtphost.vocabulary.identifiers import is_agent_id, is_agent_name
from agtphost.vocabulary.reasons import Reason

SCHEME = "agtp"

DEFAULT_PORT = 4480
"""IANA's port of the service ``agtp``: dialled where a URI names none."""

MAX_LENGTH = 2048
"""Characters of one URI."""

PACKAGE_SUFFIXES = ("agent", "nomo", "agtp")
"""File formats of agent packages: never in a name, and never the end of a host (core v08 section 6.1)."""


_ID_ATTEMPT = 56
"""A host of one label with so many characters is a mistyped Agent-ID: no DNS label has 64."""

# label = ( ALPHA / DIGIT ) *( ALPHA / DIGIT / "-" ), at most 63 octets (RFC 1034 section 3.1)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}", re.ASCII)
_REG_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?", re.ASCII)
_NUMERIC = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*", re.ASCII)
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
# query = *( pchar / "/" / "?" )
_QUERY = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*", re.ASCII)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://", re.ASCII)


class Form(Enum):
    """The forms of AGTP URIs, by the draft's own numbering."""

    AGENT = "1"
    """A canonical Agent-ID; where to reach it is for a resolver to say."""

    AGENT_AT_HOST = "1a"
    """A canonical Agent-ID and the host to ask; the host is a hint and proves nothing."""

    SERVER = "2"
    """One server, by any host and port."""

    DOMAIN = "2a"
    """An organization's server, by DNS domain."""

    NAMED_AGENT = "3"
    """An agent by its name under a domain."""

    NAMED_AGENT_AT_SUBDOMAIN = "4"
    """The same under the domain's ``agtp.`` subdomain."""

    NAMESPACE = "namespace"
    """The agents of a domain: its Agent Namespace Document."""


class UriError(ValueError):
    """
    Text that is not an AGTP URI.

    :param reason: the drafts' error code: ``invalid-canonical-id`` or ``invalid-uri-form``.
    :param hint: what to write instead; may be empty.
    """

    def __init__(self, reason: Reason, explanation: str, hint: str = "") -> None:
        super().__init__(f"{explanation} ({hint})" if hint else explanation)
        self.reason = reason
        self.explanation = explanation
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class AgtpUri:
    """A parsed URI, in one spelling: equal values address the same thing."""

    form: Form

    host: str = ""
    """Lower case, an IPv6 address without its brackets; empty for Form 1 alone."""

    port: int = DEFAULT_PORT
    agent_id: str | None = None
    """The canonical Agent-ID of Forms 1 and 1a."""

    agent_name: str | None = None
    """The label of Forms 3 and 4."""

    status: bool = False
    """Whether the agent's status document is addressed."""

    query: str | None = None
    """What stood after ``?``, still percent-encoded; None where there was none."""

    @property
    def authority(self) -> str:
        """Host and, unless it is the default, port: as in the URI."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORT else f"{host}:{self.port}"

    @property
    def agent_path(self) -> str:
        """The reserved path that addresses the agent on its host; empty for a server or domain."""
        label = self.agent_id or self.agent_name
        return f"/agents/{label}" if label else ""

    def __str__(self) -> str:
        if self.form is Form.AGENT:
            locator = self.agent_id or ""
        elif self.form is Form.AGENT_AT_HOST:
            locator = f"{self.agent_id}@{self.authority}"
        elif self.form is Form.NAMESPACE:
            locator = f"{self.authority}/agents"
        else:
            locator = self.authority + self.agent_path + ("/status" if self.status else "")
        return f"{SCHEME}://{locator}" + ("" if self.query is None else f"?{self.query}")


def _refuse(explanation: str, hint: str = "") -> NoReturn:
    raise UriError(Reason.INVALID_URI_FORM, explanation, hint)


def parse(text: str) -> AgtpUri:
    """
    Read one AGTP URI.

    :raises UriError: for everything that the grammar above does not give.
    """
    rest = _after_scheme(text)
    rest, question, query = rest.partition("?")
    if _QUERY.fullmatch(query) is None:
        _refuse("The query holds a character that has to be percent-encoded.")
    authority, slash, path = rest.partition("/")
    parsed = _parse_with_path(authority, path) if slash else _parse_authority(authority)
    return replace(parsed, query=query) if question else parsed


def _after_scheme(text: str) -> str:
    if len(text) > MAX_LENGTH:
        _refuse(f"The URI has more than {MAX_LENGTH} characters.")
    if not (text.isascii() and text.isprintable()) or " " in text:
        _refuse("A URI holds visible ASCII characters only.", "write a host name in its xn-- form")
    scheme = _SCHEME.match(text)
    if scheme is None:
        _refuse("The URI has no scheme.", f"write {SCHEME}://{text}" if text else f"write {SCHEME}://HOST")
    if scheme[1].lower() != SCHEME:
        _refuse(f"The scheme is {scheme[1]!r}.", f"AGTP URIs start with {SCHEME}://")
    rest = text[scheme.end() :]
    if "#" in rest:
        _refuse("An AGTP URI has no fragment ('#').")
    return rest


def _parse_authority(authority: str) -> AgtpUri:
    """Parse the forms 1, 1a, 2 and 2a: nothing follows the authority."""
    left, at, right = authority.rpartition("@")
    if at:
        host, port, _ = _host_and_port(right)
        return AgtpUri(form=Form.AGENT_AT_HOST, agent_id=_agent_id(left), host=host, port=port)
    if is_agent_id(authority):
        return AgtpUri(form=Form.AGENT, agent_id=authority)
    if len(authority) >= _ID_ATTEMPT and authority.isalnum():
        _agent_id(authority)
    host, port, is_domain = _host_and_port(authority)
    bare = is_domain and ":" not in authority
    return AgtpUri(form=Form.DOMAIN if bare else Form.SERVER, host=host, port=port)


def _agent_id(text: str) -> str:
    if is_agent_id(text):
        return text
    hint = ""
    if is_agent_id(text.lower()):
        hint = "write it in lower case"
    elif ":" in text:
        hint = "only an Agent-ID may come before '@'"
    raise UriError(Reason.INVALID_CANONICAL_ID, "The canonical Agent-ID is not 64 lower-case hexadecimal digits.", hint)


def _parse_with_path(authority: str, path: str) -> AgtpUri:
    """Parse the forms 3 and 4 and the namespace: a domain and a path under the reserved prefix."""
    if "@" in authority or is_agent_id(authority):
        _refuse("An Agent-ID in a URI has no path.", "give the endpoint's path as the path of the call")
    host, port, is_domain = _host_and_port(authority)
    if path != "agents" and not path.startswith("agents/"):
        _refuse(
            "The only path in an AGTP URI is /agents and what is under it.",
            f"write {SCHEME}://{authority}" + (f" and give /{path} as the path of the call" if path else ""),
        )
    if not is_domain:
        _refuse(
            "A URI with /agents has a DNS domain.",
            f"write {SCHEME}://AGENT-ID@{authority}, or give /{path} as the path of a call to {SCHEME}://{authority}",
        )
    if path == "agents":
        return AgtpUri(form=Form.NAMESPACE, host=host, port=port)
    name, slash, tail = path.removeprefix("agents/").partition("/")
    if slash and tail != "status":
        _refuse("After an agent's name only /status may follow.")
    label = _agent_name(name, authority)
    form = Form.NAMED_AGENT_AT_SUBDOMAIN if host.startswith("agtp.") else Form.NAMED_AGENT
    return AgtpUri(form=form, host=host, port=port, agent_name=label, status=bool(slash))


def _agent_name(name: str, authority: str) -> str:
    if is_agent_name(name):
        return name
    stem, dot, suffix = name.partition(".")
    if dot and is_agent_name(stem):
        _refuse(
            f"URIs are addresses, not file names: {'.' + suffix!r} is not part of one.",
            f"write {SCHEME}://{authority}/agents/{stem}",
        )
    return _refuse("The name of the agent is not 1 to 64 letters, digits, '-' and '_'.")


def _host_and_port(authority: str) -> tuple[str, int, bool]:
    """
    Read ``host [ ":" port ]``.

    :return: the host in its one spelling, the port, and whether the host is a DNS domain.
    """
    if authority.startswith("["):
        inside, bracket, after = authority[1:].partition("]")
        if not bracket or (after and not after.startswith(":")):
            _refuse("An IPv6 address is written in brackets, and only ':' and a port may follow.")
        return _ipv6(inside), _port(after[1:] if after else None), False
    host, colon, port = authority.partition(":")
    if ":" in port:
        _refuse("There is more than one port.", f"write an IPv6 address as [{authority}]")
    number = _port(port if colon else None)
    if not host:
        _refuse("The URI names no host.")
    labels = host.lower().split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        return _ipv4(host), number, False
    if labels[-1] in PACKAGE_SUFFIXES and len(labels) > 1:
        _refuse(f"{'.' + labels[-1]!r} names a package format, never a host.")
    if len(host) > 253 or _REG_NAME.fullmatch(host) is None or ".." in host or max(map(len, labels)) > 63:
        _refuse("The host is neither a DNS name nor an IP address.")
    return host.lower(), number, _DOMAIN.fullmatch(host) is not None


def _ipv4(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        _refuse("The host looks like an IPv4 address and is not one.", "write four decimal numbers")


def _ipv6(text: str) -> str:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        _refuse("The text in brackets is not an IPv6 address.")
    if address.scope_id is not None:
        _refuse("An address with a zone has no meaning outside one machine.")
    return str(address)


def _port(text: str | None) -> int:
    if text is None:
        return DEFAULT_PORT
    if _PORT.fullmatch(text) is None or not 1 <= int(text) <= 65535:
        _refuse("A port is a number from 1 to 65535.")
    return int(text)
