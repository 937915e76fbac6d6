"""What ``[[merchant.platform]]`` needs besides sound keys."""

from __future__ import annotations

from collections.abc import Iterator

from agtphost.config.faults import Fault
from agtphost.config.sections import Config
from agtphost.vocabulary.tomltext import Location


def merchant_faults(config: Config) -> Iterator[Fault]:
    """Every fault of the section."""
    names = [platform.issuer for platform in config.merchant.platform]
    for number, platform in enumerate(config.merchant.platform):
        location: Location = ("merchant", "platform", number)
        if not platform.issuer:
            yield Fault(location=(*location, "issuer"), message="is missing", hint="the iss of its assertions")
        elif names.count(platform.issuer) > 1:
            yield Fault(location=(*location, "issuer"), message="stands twice: its rules would be in doubt")
        if platform.jwks is None:
            yield Fault(
                location=(*location, "jwks"),
                message="is missing",
                hint="a file with its JSON Web Key Set",
                concerns=((*location, "jwks"),),
            )
        if not platform.allowed_algs:
            yield Fault(location=(*location, "allowed_algs"), message="allows nothing", hint='write ["EdDSA"]')
