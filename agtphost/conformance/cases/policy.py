"""The method policy, as the manifest publishes it: AGTP-API section 9."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.conformance.case import Cases
from agtphost.conformance.expectations import forbid_status, require_members, require_status
from agtphost.conformance.records import record_of
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Inapplicable, Need, expect

CASES = Cases("policy")

MEMBERS = ("allow", "disallow", "legacy", "aliases", "redirects")
LEGACY = ("GET", "POST", "PUT", "DELETE", "PATCH")
NOWHERE = "/conformance/none"


@CASES.case("published", "API-093", Need.MANIFEST)
def check_published(target: Target) -> None:
    """The manifest shows the method policy with its five members."""
    require_members(require_members(target.policies, ["methods"], "policies")["methods"], MEMBERS, "policies.methods")


@CASES.case("allow-form", "API-086", Need.MANIFEST)
def allow(target: Target) -> None:
    """allow is * or a list of methods."""
    found = target.method_policy.get("allow")
    expect(found == "*" or isinstance(found, list), f"it is {found!r}")


@CASES.case("legacy-form", "API-088", Need.MANIFEST)
def legacy(target: Target) -> None:
    """legacy is *, NONE or a list of the five HTTP verbs."""
    found = target.method_policy.get("legacy")
    expect(found in ("*", "NONE") or (isinstance(found, list) and set(found) <= set(LEGACY)), f"it is {found!r}")


@CASES.case("aliases-one-hop", "API-090", Need.MANIFEST, Need.ALIAS)
def aliases(target: Target) -> None:
    """No alias leads to another alias."""
    found = target.method_policy["aliases"]
    expect(isinstance(found, Mapping), "aliases is not an object")
    chained = [name for name, to in found.items() if to in found]
    expect(not chained, f"{', '.join(chained)} lead to other aliases")


@CASES.case("aliases-resolved", "API-089 AGTP-253", Need.MANIFEST, Need.ALIAS)
def aliases_resolved(target: Target) -> None:
    """Aliased methods are answered as their targets, never 459."""
    for name, to in target.method_policy["aliases"].items():
        first, second = target.ask(name, NOWHERE), target.ask(to, NOWHERE)
        expect(first.status == second.status, f"{name} is answered {first}, {to} {second}")


@CASES.case("alias-recorded", "API-091 API-089", Need.MANIFEST, Need.ALIAS)
def alias_recorded(target: Target) -> None:
    """The record of an aliased request keeps the method that was sent."""
    name, to = next(iter(target.method_policy["aliases"].items()))
    payload = record_of(target.ask(name, NOWHERE)).payload
    extra = payload.get("extra") or {}
    expect(
        payload.get("requested_method", extra.get("requested_method")) == name,
        f"the record of {name} for {to} does not",
    )


@CASES.case("alias-only-where-used", "API-091")
def alias_only(target: Target) -> None:
    """The record of a request without alias has no requested_method."""
    payload = record_of(target.ask("DISCOVER", "/agents")).payload
    expect("requested_method" not in payload, "it has one")


@CASES.case("alias-reaches-endpoint", "API-089", Need.ENDPOINT, Need.ALIAS)
def alias_endpoint(target: Target) -> None:
    """An alias whose target has an endpoint reaches it."""
    for name, to in target.method_policy["aliases"].items():
        for item in target.admitted_endpoints:
            if item.method == to:
                path, body = item.address(item.input or {})
                forbid_status(target.as_agent(name, path, body), 404, 405, 459)
                return
    raise Inapplicable("an endpoint whose method is the target of an alias")


@CASES.case("legacy-without-alias", "API-007", Need.MANIFEST)
def legacy_refused(target: Target) -> None:
    """A legacy verb that is neither aliased nor enabled is refused."""
    enabled = target.method_policy.get("legacy")
    for name in LEGACY:
        if name not in (target.method_policy.get("aliases") or {}) and enabled != "*" and name not in (enabled or ()):
            require_status(target.ask(name, NOWHERE), 459, 405)


@CASES.case("disallowed", "API-087", Need.MANIFEST)
def check_disallowed(target: Target) -> None:
    """Methods that are disallowed are answered 405 on any path."""
    for name in target.method_policy.get("disallow") or ():
        require_status(target.ask(name, NOWHERE), 405)


@CASES.case("floor-always-allowed", "API-086", Need.MANIFEST)
def floor(target: Target) -> None:
    """DISCOVER, DESCRIBE and INSPECT are always allowed."""
    disallowed = set(target.method_policy.get("disallow") or ())
    for name in {"DISCOVER", "DESCRIBE", "INSPECT"} - disallowed:
        forbid_status(target.ask(name, "/"), 405, 459)


@CASES.case("redirects-followed", "API-092", Need.MANIFEST, Need.REDIRECT)
def redirects(target: Target) -> None:
    """A redirected method and path are answered as their target."""
    for entry in target.method_policy["redirects"][:5]:
        source = entry.get("from_path") or NOWHERE
        first = target.ask(str(entry["from_method"]), source)
        second = target.ask(str(entry["to_method"]), entry.get("to_path") or source)
        expect(first.status == second.status, f"{entry['from_method']} {source}: {first}, its target: {second}")


@CASES.case("405-redirects", "API-124", Need.MANIFEST)
def redirects_listed(target: Target) -> None:
    """redirects_for_path of a 405 matches the policy."""
    answer = require_status(target.ask("TRANSLATE", "/methods"), 405)
    listed = answer.members.get("redirects_for_path")
    expect(isinstance(listed, dict), "it is not an object")
    if not target.method_policy.get("redirects"):
        expect(listed == {}, f"it is {listed!r}, and the policy has no redirects")


@CASES.case("scope-required-for-invocation", "API-078", Need.MANIFEST, Need.SCOPED)
def scope_required(target: Target) -> None:
    """No endpoint runs without its scopes if scopes are required for invocation."""
    if target.policies.get("scope_required_for_invocation") is not True:
        raise Inapplicable("the policy scope_required_for_invocation")
    assert target.scoped_endpoint is not None
    endpoint, other = target.scoped_endpoint
    require_status(target.call(endpoint, fields=[("Authority-Scope", other)]), 262)
