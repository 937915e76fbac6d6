"""
The named rules for server manifests (AGTP-API sections 3 to 13).

They are one list for external checks: ``agtp manifest validate`` names the rule of every finding, and ``agtp
conformance`` has a case for each. The code that builds this host's manifest does not use it, so that they do not share
errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

SWITCHES = (
    *("wildcards_accepted", "anonymous_discovery"),
    *("scope_required_for_invocation", "synthesis_enabled"),
)
"""Policies that are true or false."""

HANDLERS = ("registered_function", "composition", "external_service")
"""The kinds of handlers (AGTP-API section 12)."""

DEMANDED: Mapping[str, tuple[str, ...]] = {
    "composition": ("composition_failed",),
    "external_service": (
        *("upstream_timeout", "upstream_connection_error", "upstream_malformed_response"),
        *("upstream_authentication_failed", "upstream_error"),
    ),
}
"""Errors that endpoints of a binding kind must declare (AGTP-API section 12)."""

RESERVED = ("methods", "agents", "genesis", "tools", "apis", "patterns", "contracts")
"""First path segments that DISCOVER reserves (AGTP-API section 5.9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestRule:
    """A statement of the drafts about manifests."""

    id: str
    """``subject.detail``; it never changes."""

    section: str
    """Section of AGTP-API, such as ``8.3``."""

    says: str
    """A sentence that is true for a manifest that follows the rule."""

    advice: bool = False
    """Whether the drafts only recommend it, so a violation is a remark and not a fault."""


def _rules() -> Iterator[ManifestRule]:
    table = json.loads(files(__package__).joinpath("manifest_rules.json").read_bytes())
    for subject, entry in table.items():
        for detail, says in entry["rules"].items():
            name, advice = f"{subject}.{detail.lstrip('~')}", detail.startswith("~")
            yield ManifestRule(id=name, section=entry["section"], says=says, advice=advice)


RULES: Mapping[str, ManifestRule] = {rule.id: rule for rule in _rules()}
"""Rules by id, from ``manifest_rules.json``; ``~`` there marks advice."""
