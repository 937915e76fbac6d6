"""What is configured and needs a package that a plain install leaves out."""

from __future__ import annotations

from collections.abc import Iterator

from agtphost import extras
from agtphost.config.faults import Fault
from agtphost.config.sections import Config
from agtphost.vocabulary.tomltext import Location


def extras_faults(config: Config) -> Iterator[Fault]:
    """A fault for every section whose package is missing, naming the extra that brings it."""
    for location, package in _needed(config):
        if not extras.installed(package):
            yield Fault(
                location=location,
                message=f"needs the package {package}, which is not installed",
                hint=extras.remedy(package),
            )


def _needed(config: Config) -> Iterator[tuple[Location, str]]:
    if config.policies.oauth.issuer:
        yield ("policies", "oauth"), "joserfc"
    if config.merchant.platform:
        yield ("merchant", "platform"), "joserfc"
    for number, agent in enumerate(config.a2a.agent):
        if agent.card_keys:
            yield ("a2a", "agent", number, "card_keys"), "joserfc"
    if config.audit.envelope == "cose":
        yield ("audit", "envelope"), "cbor2"
    if config.recipes.file is not None:
        yield ("recipes", "file"), "jmespath"
    if config.policies.synthesis_enabled:
        yield ("policies", "synthesis_enabled"), "jmespath"
