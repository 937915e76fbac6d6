"""``[[identity.anchor]]``: who may issue a Genesis, by key or by identity provider (AGTP-TRUST section 4.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from agtphost.config.faults import Fault
from agtphost.config.lines import Location
from agtphost.config.upstreams import web_url
from agtphost.config.values import FilePath, Line, Seconds, Section
from agtphost.identity.keys import KeyFormatError
from agtphost.identity.trust import issuer_keys
from agtphost.vocabulary import uris

if TYPE_CHECKING:
    from agtphost.config.sections import Config


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
    """One trust anchor."""

    type: Literal["key", "oidc"] = "key"
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


def anchor_faults(config: Config) -> Iterator[Fault]:
    """What is wrong with anchors and registrars whose single keys are sound."""
    for zone, keys in config.identity.registrars.items():
        for number, entry in enumerate(keys):
            yield from _key(("identity", "registrars", zone, number), entry, config)
    for number, anchor in enumerate(config.identity.anchor):
        location: Location = ("identity", "anchor", number)
        needed = ("value",) if anchor.type == "key" else ("discovery_url", "trusted_issuer")
        for name in ("value", "discovery_url", "trusted_issuer", "ca"):
            given = getattr(anchor, name) is not None
            if name in needed and not given:
                yield Fault(location=(*location, name), message="is missing")
            elif given and name not in needed and not (name == "ca" and anchor.type == "oidc"):
                yield Fault(location=(*location, name), message=f"does not belong to an anchor of type {anchor.type}")
        if anchor.type == "key" and anchor.value is not None:
            yield from _key((*location, "value"), anchor.value, config)
        if anchor.ca is not None and not anchor.ca.is_file():
            yield Fault(location=(*location, "ca"), message=f"names a file that is not there: {anchor.ca}")


def _key(location: Location, entry: str, config: Config) -> Iterator[Fault]:
    try:
        issuer_keys([entry], config.folder)
    except KeyFormatError as error:
        hint = "write the key in base64url, or file:PATH of a PEM file"
        yield Fault(location=location, message=f"is not an Ed25519 public key: {error}", hint=hint)
    except OSError as error:
        yield Fault(location=location, message=f"names a file that cannot be read: {error.strerror}")
