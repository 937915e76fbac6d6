"""``[[identity.anchor]]``: who may issue a Genesis, by key or by identity provider (AGTP-TRUST section 4.2)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from agtphost.config.upstreams import web_url
from agtphost.config.values import FilePath, Line, Seconds, Section
from agtphost.vocabulary import uris


def _domain(value: str) -> str:
    try:
        parsed = uris.parse(f"{uris.SCHEME}://{value}")
    except uris.UriError as error:
        raise ValueError(f"must be a DNS domain: {error.explanation}") from None
    if parsed.form is not uris.Form.DOMAIN:
        raise ValueError("must be a DNS domain such as agtp.example.com, without port")
    return parsed.host


AgentDomain = Annotated[str, AfterValidator(_domain)]
"""A DNS domain, lower case."""


class Anchor(Section):
    """An entry of ``[[identity.anchor]]``: a key, or an identity provider, whose Geneses are trusted."""

    type: Literal["key", "oidc"] = "key"
    """A key, or an OpenID Connect provider that publishes keys."""

    name: Line = ""
    """For people."""

    value: Line | None = None
    """Of a key: base64url, or ``file:PATH``."""

    discovery_url: Annotated[str | None, BeforeValidator(web_url)] = None
    """Of an identity provider: its OpenID Connect discovery document."""

    trusted_issuer: Line | None = None
    """The ``issuer`` that the discovery document must name."""

    ca: FilePath | None = None
    """Authority of its HTTPS certificate, where it is not a public one."""

    refresh_seconds: Seconds = 3_600.0
    """How often its keys are fetched."""
