"""What ``[policies.oauth]`` needs besides sound keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agtphost.config.faults import Fault
from agtphost.config.sections import Config
from agtphost.identity.bearer import read_keys
from agtphost.vocabulary.tomltext import Location

_SOURCES = "jwks (a file), jwks_uri or discovery_url"


def oauth_faults(config: Config) -> Iterator[Fault]:
    """Every fault of the section."""
    settings = config.policies.oauth
    base: Location = ("policies", "oauth")
    if settings.required_on_methods and not settings.issuer:
        yield Fault(
            location=(*base, "required_on_methods"),
            message="requires credentials that nobody may issue",
            hint="add [[policies.oauth.issuer]]",
        )
    names = [issuer.expected_issuer for issuer in settings.issuer]
    for number, issuer in enumerate(settings.issuer):
        location: Location = (*base, "issuer", number)
        if not issuer.expected_issuer:
            yield Fault(location=(*location, "expected_issuer"), message="is missing", hint="the iss of its tokens")
        elif names.count(issuer.expected_issuer) > 1:
            yield Fault(location=(*location, "expected_issuer"), message="stands twice: its rules would be in doubt")
        if issuer.sources != 1:
            sources = tuple((*location, name) for name in ("jwks", "jwks_uri", "discovery_url"))
            yield Fault(location=location, message=f"needs exactly one of {_SOURCES}", concerns=sources)
        if not issuer.allowed_algs:
            yield Fault(location=(*location, "allowed_algs"), message="allows nothing", hint='write ["EdDSA"]')
        if not issuer.expected_audience and not config.host.development:
            yield Fault(
                location=(*location, "expected_audience"),
                message="is needed in the production profile: tokens for other services would be accepted",
                concerns=(("host", "profile"),),
            )
        yield from _files(location, issuer.jwks, issuer.ca)


def _files(location: Location, jwks: Path | None, ca: Path | None) -> Iterator[Fault]:
    for name, path in (("jwks", jwks), ("ca", ca)):
        if path is None:
            continue
        try:
            octets = path.read_bytes()
            if name == "jwks" and not read_keys(octets).keys:
                raise ValueError("it has no usable public key")
        except (OSError, ValueError) as error:
            yield Fault(location=(*location, name), message=f"cannot be used: {error}")
