"""
The rules of ``agtp manifest validate`` for manifests (AGTP-API sections 3 to 13), each as a case.

The checker is that of the command; it shares no code with the part of a host that makes manifests.
"""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.conformance.case import Cases
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Inapplicable, Need, expect
from agtphost.contract.manifest_rules import RULES, ManifestRule

CASES = Cases("manifest")

OTHER_CASES: Mapping[str, str] = {
    "manifest-structure.object": "manifest.offered",
    "manifest-signature.present": "manifest.signed",
    "manifest-retrieval.media-type": "manifest.content-type",
    "manifest-retrieval.own-type": "manifest.content-type",
    "manifest-caching.etag": "manifest.etag",
    "manifest-caching.cache-control": "manifest.cache-control",
    "manifest-caching.api-version": "manifest.api-version",
}
"""Rules that other cases test more thoroughly than the manifest alone permits."""

SUBJECTS: Mapping[str, str] = {
    "method-name": "API-005 API-151",
    "legacy-verb": "API-009 API-151",
    "catalog-version": "API-012 API-072 API-151",
    "catalog-versions": "API-013 API-151",
    "path-grammar": "API-026 API-027 API-029 API-030 API-031 API-032 API-151",
    "path-parameter": "API-033 API-151",
    "reserved-path": "API-054 API-060 API-151",
    "endpoint-tier": "API-059 API-151",
    "endpoint-unique": "API-036 API-151",
    "endpoint-identity": "API-061 API-151",
    "endpoint-contract": "API-061 API-144 API-151",
    "endpoint-deprecation": "API-065 API-151",
    "semantic-block": "API-067 API-151",
    "manifest-structure": "API-072 API-151",
    "server-block": "API-073 API-151",
    "method-inventory": "API-074 API-151",
    "agent-disclosure": "API-075 API-151",
    "protocol-surface": "API-076 API-151",
    "policies-block": "API-077 API-154 API-151",
    "manifest-signature": "API-081 API-151",
    "endpoint-projection": "API-083 API-151",
    "method-policy": "API-086 API-088 API-089 API-090 API-092 API-093 API-151",
    "handler-binding": "API-160 API-151",
    "input-strictness": "API-142 API-160 API-151",
}
"""Requirements that the rules of each subject test."""

DETAILS: Mapping[str, str] = {
    "semantic-block.capability": "API-069 API-067 API-151",
    "semantic-block.confidence": "API-070 API-067 API-151",
    "semantic-block.impact": "API-070 API-067 API-151",
    "semantic-block.is-idempotent": "API-070 API-067 API-151",
    "semantic-block.own-effects": "API-160 API-151",
    "endpoint-contract.method-parameters": "AGTP-326 API-151",
    "endpoint-contract.method-known": "API-004 API-151",
    "endpoint-contract.namespace": "API-062 API-151",
    "endpoint-contract.required-scopes": "API-064 API-151",
    "manifest-structure.data-manifest": "AGTP-261 API-151",
}
"""Requirements that single rules test."""

SHOWN = 3
"""Most findings in the message of a failure; `agtp manifest validate` lists all."""


def case_of(rule: ManifestRule) -> str:
    """Return the id of the case that tests a rule."""
    return OTHER_CASES.get(rule.id, f"manifest.{rule.id}")


def _check_rule(target: Target, rule: ManifestRule) -> None:
    found = [f"{finding.pointer or 'it'} {finding.message}" for finding in target.findings if finding.rule == rule.id]
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    told = "; ".join(found[:SHOWN]) + more
    if found and rule.advice:
        raise Inapplicable(f"a manifest that follows optional rules: {told}")
    expect(not found, told)


for _rule in RULES.values():
    if _rule.id not in OTHER_CASES:
        CASES.row(
            _rule.id,
            DETAILS.get(_rule.id) or SUBJECTS[_rule.id.partition(".")[0]],
            _rule.says,
            _check_rule,
            _rule,
            needs=[Need.MANIFEST],
        )
