"""``[policies.oauth]``: external credentials, and who may issue them (core v08 section 8.6)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from agtphost.config.faults import ConfigFault
from agtphost.config.upstreams import web_url
from agtphost.config.values import FilePath, Items, Line, Method, Seconds, Section
from agtphost.identity.bearer import ALGORITHMS, read_keys
from agtphost.vocabulary.foreign_errors import split
from agtphost.vocabulary.regular_files import read_octets
from agtphost.vocabulary.tomltext import Location


def algorithm(value: str) -> str:
    """Check that a signature algorithm may be allowed, and return its name."""
    if value not in ALGORITHMS:
        raise ValueError(f"holds {value[:20]!r}, which is not one of {', '.join(sorted(ALGORITHMS))}")
    return value


class Issuer(Section):
    """An entry of ``[[policies.oauth.issuer]]``: an identity provider. Exactly one source of keys is set."""

    expected_issuer: Line = ""
    """The ``iss`` of its tokens. Required."""

    expected_audience: Items[Line] = ()
    """One of these has to be in ``aud``; without any, tokens for other services are accepted too."""

    allowed_algs: Items[Annotated[str, AfterValidator(algorithm)]] = ("RS256", "ES256", "PS256", "EdDSA", "Ed25519")
    """Algorithms that its tokens may be signed with. Providers sign with RS256 unless they are configured otherwise."""

    principal_id_claim: Line = "sub"
    """The claim that becomes ``acting_principal_id``."""

    required_scopes: Items[Line] = ()
    """OAuth scopes that its tokens must have; they have nothing to do with Authority-Scope."""

    leeway_seconds: Annotated[float, Field(ge=0, le=600)] = 60.0
    """By how much clocks may differ."""

    jwks: FilePath | None = None
    """A file with its JSON Web Key Set."""

    jwks_uri: Annotated[str | None, BeforeValidator(web_url)] = None
    """Where its key set is fetched from, at start and every ``refresh_seconds``."""

    discovery_url: Annotated[str | None, BeforeValidator(web_url)] = None
    """Its OpenID Connect discovery document, which names the ``jwks_uri``."""

    ca: FilePath | None = None
    """Authority of its HTTPS certificate, where it is not a public one."""

    refresh_seconds: Seconds = 3_600.0
    """How often its keys are fetched."""

    @property
    def sources(self) -> int:
        """The number of sources of keys that are set."""
        return sum(source is not None for source in (self.jwks, self.jwks_uri, self.discovery_url))


class OAuth(Section):
    """
    The section ``[policies.oauth]``: credentials of identity providers. Without an issuer the feature is off, and
    Authorization headers are ignored (core v08 section 8.6).
    """

    required_on_methods: Items[Method] = ()
    """Methods, aliases resolved, that need a credential."""

    issuer: Items[Issuer] = ()


_SOURCES = "jwks (a file), jwks_uri or discovery_url"


def oauth_faults(settings: OAuth, *, development: bool) -> Iterator[ConfigFault]:
    """Yield every fault of the section whose single keys are sound."""
    base: Location = ("policies", "oauth")
    if settings.required_on_methods and not settings.issuer:
        yield ConfigFault(
            location=(*base, "required_on_methods"),
            message="requires credentials, but no issuer is trusted",
            hint="add [[policies.oauth.issuer]]",
        )
    names = [issuer.expected_issuer for issuer in settings.issuer]
    for number, issuer in enumerate(settings.issuer):
        location: Location = (*base, "issuer", number)
        if not issuer.expected_issuer:
            yield ConfigFault(
                location=(*location, "expected_issuer"), message="is missing", hint="the iss of its tokens"
            )
        elif names.count(issuer.expected_issuer) > 1:
            yield ConfigFault(
                location=(*location, "expected_issuer"), message="is repeated, so its rules are ambiguous"
            )
        if issuer.sources != 1:
            sources = tuple((*location, name) for name in ("jwks", "jwks_uri", "discovery_url"))
            yield ConfigFault(location=location, message=f"needs exactly one of {_SOURCES}", concerns=sources)
        if not issuer.allowed_algs:
            yield ConfigFault(
                location=(*location, "allowed_algs"), message="allows nothing", hint='write allowed_algs = ["RS256"]'
            )
        if not issuer.expected_audience and not development:
            yield ConfigFault(
                location=(*location, "expected_audience"),
                message="is needed in the production profile: tokens for other services would be accepted",
                concerns=(("host", "profile"),),
            )
        yield from _files(location, issuer.jwks, issuer.ca)


def _files(location: Location, jwks: Path | None, ca: Path | None) -> Iterator[ConfigFault]:
    for name, path in (("jwks", jwks), ("ca", ca)):
        if path is None:
            continue
        try:
            octets = read_octets(path)
            if name == "jwks" and not read_keys(octets).keys:
                raise ValueError("it has no usable public key")
        except (OSError, ValueError) as error:
            yield ConfigFault(location=(*location, name), message=f"cannot be used: {split(error)[0]}")
