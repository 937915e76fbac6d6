"""
The rules that a server manifest is held to (AGTP-API sections 3 to 13), each with its name.

One list for whoever looks at manifests from outside: ``agtp manifest
validate`` names the rule of every finding, and ``agtp conformance`` has a case
for each. What makes this host's own manifest is written without it, so that
an error there is not an error here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from agtphost.vocabulary import jsontext

SWITCHES = (
    *("wildcards_accepted", "anonymous_discovery"),
    *("scope_required_for_invocation", "synthesis_enabled"),
)
"""Policies that are true or false."""

HANDLERS = ("registered_function", "composition", "external_service")
"""The kinds of handlers that there are (AGTP-API section 12)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that the drafts say of manifests."""

    id: str
    """``subject.detail``; stable."""

    section: str
    """Of AGTP-API, such as ``8.3``."""

    says: str
    """What holds in a manifest that keeps it, as a sentence."""

    advice: bool = False
    """Whether the drafts allow the contrary, so that it is remarked on and no fault."""


def _rules() -> Iterator[Rule]:
    table = jsontext.decode(files(__package__).joinpath("manifest_rules.json").read_bytes())
    for subject, entry in table.items():
        for detail, says in entry["rules"].items():
            name, advice = f"{subject}.{detail.lstrip('~')}", detail.startswith("~")
            yield Rule(id=name, section=entry["section"], says=says, advice=advice)


RULES: Mapping[str, Rule] = {rule.id: rule for rule in _rules()}
"""By id, as ``manifest_rules.json`` has them; ``~`` there is advice."""
