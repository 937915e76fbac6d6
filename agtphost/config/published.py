"""What is published besides the endpoints: ``[[api]]``, ``[[data_class]]``, ``[manifest]``, ``[wellknown]``."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from agtphost.config import secret
from agtphost.config.http import HttpSection
from agtphost.config.values import Items, Line, Section, form

_DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


def _url(value: Any) -> str:
    """Check that anyone may read a URL, and return it: it is published, so no credentials may be in it."""
    text = secret.text_of(value)
    wrong = "must be an http or https URL without user name, password and fragment"
    if not text.isascii() or not text.isprintable() or any(character in text for character in ' "<>\\^`{|}'):
        raise ValueError(wrong)
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError(wrong) from None
    credentials = parts.username is not None or parts.password is not None
    if parts.scheme not in ("http", "https") or not host or credentials or parts.fragment:
        raise ValueError(wrong)
    return text


def _domain(value: str) -> str:
    if len(value) > 253 or _DOMAIN.fullmatch(value) is None:
        raise ValueError("must be a host name in lower-case letters, without scheme and port")
    return value


PublicURL = Annotated[str, BeforeValidator(_url)]
Domain = Annotated[str, AfterValidator(_domain)]
Name = Annotated[
    str,
    form(
        "[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
        "must be 1 to 64 letters, digits, '.', '_' or '-', and begin with a letter or digit",
    ),
]
Listener = Annotated[
    Line,
    form(
        r"(?:ssl|tcp):(?:port=)?[0-9]{1,5}(?::interface=[0-9A-Za-z.:\\]+)?",
        'must be "ssl:PORT" or "ssl:PORT:interface=ADDRESS", or tcp behind a proxy; certificate and key name its files',
    ),
]


class API(Section):
    """An entry of ``[[api]]``: an HTTP API that this server fronts (AGTP-API section 8.6)."""

    name: Name = ""
    """Required, and unique."""

    description: Line = ""
    """One line, for people and agents."""

    base_url: PublicURL = ""
    """Required: where the API answers."""

    openapi_url: PublicURL | None = None
    """Its OpenAPI description."""

    documentation_url: PublicURL | None = None
    """Pages for people."""

    def document(self) -> dict[str, str]:
        """Return the entry of the manifest's ``apis``, and of ``DISCOVER /apis``; absent members are left out."""
        members = {
            "name": self.name,
            "description": self.description,
            "base_url": self.base_url,
            "openapi_url": self.openapi_url or "",
            "documentation_url": self.documentation_url or "",
        }
        return {name: value for name, value in members.items() if value}


class DataClass(Section):
    """
    An entry of ``[[data_class]]``: a kind of data this server works with (core v08 section 7.6, AGIS v01 section 8.3).
    """

    name: Name = ""
    """Required, and unique."""

    description: Line = ""
    """One line, for people and agents."""

    formats: Items[Name] = ()
    """Such as ``json``."""

    sensitivity: Literal["informational", "reversible", "irreversible", "low", "medium", "high"] = "informational"
    """
    How grave work with it is. A proposal about ``informational`` classes alone that do not require authorization is
    evaluated for anybody; every other one for callers whose identity is established.
    """

    requires_authorization: bool = False
    """Whether even an ``informational`` class is for callers whose identity is established."""

    @property
    def open(self) -> bool:
        """Whether it may be negotiated without credentials (core v08 section 7.5)."""
        return self.sensitivity == "informational" and not self.requires_authorization

    def public(self) -> dict[str, Any]:
        """
        Return the entry of ``data_manifest.available_data`` of the manifest, for all (AGIS v01 sections 12.2 and 14).
        """
        return {"class": self.name, "description": self.description, "formats": list(self.formats)}

    def document(self) -> dict[str, Any]:
        """Return the entry of ``available_data`` for readers that are known."""
        return {
            **self.public(),
            "sensitivity": self.sensitivity,
            "requires_authorization": self.requires_authorization,
        }


class ManifestSection(Section):
    """The section ``[manifest]``: how the server manifest is published (AGTP-API section 8)."""

    domain: Domain | None = None
    """Where the host is reached, if ``server_id`` does not say (AGTP-API section 8.3)."""

    max_age: Annotated[int, Field(ge=0, le=31_536_000)] = 300
    """Seconds that a reader may use a manifest without asking again: ``Cache-Control: max-age``."""


class WellKnown(HttpSection):
    """
    The section ``[wellknown]``: the bootstrap document of core v08 section 6.1, at ``/.well-known/agtp`` over HTTPS.
    """

    listen: Listener | None = None
    """
    A Twisted endpoint string: ``ssl:443``, ``ssl:443:interface=192.0.2.1``; None: none is served. ``tcp`` is for
    ``behind_proxy``, where the proxy speaks HTTPS, and for this machine's loopback addresses. It may be the gateway's.
    """

    domain: Domain | None = None
    """The domain the document is for; None: ``[manifest] domain``, else ``server_id``."""

    port: Annotated[int, Field(ge=1, le=65_535)] | None = None
    """The port that clients reach; None: that of ``[listen]``."""

    dns_anchor: Line = ""
    """Name of the DNS record that anchors the domain; empty: none."""

    log_anchor: PublicURL | None = None
    """The transparency log that anchors it."""

    issuer: PublicURL | None = None
    """URL of the issuer of the agents' documents."""

    max_age: Annotated[int, Field(ge=0, le=31_536_000)] = 86_400
    """Seconds that a client may keep the document."""
