"""DISCOVER and its built-in documents: AGTP-API section 5.8, core v08 section 7.2.2."""

from __future__ import annotations

from agtphost.conformance.access import Role
from agtphost.conformance.case import Cases
from agtphost.conformance.expectations import (
    forbid_status,
    is_hex64,
    require_list,
    require_members,
    require_status,
    require_success,
)
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Inapplicable, Need, expect

CASES = Cases("discovery")

AGENT_MEMBERS = ("agent_id", "name", "trust_tier", "verification_path")


def _entries(target: Target, path: str, who: Role | None = None) -> list[dict[str, object]]:
    answer = require_status(target.ask("DISCOVER", path, who=who or target.best), 200)
    found = require_list(answer.result, f"the result of DISCOVER {path}")
    expect(all(isinstance(entry, dict) for entry in found), f"an entry of DISCOVER {path} is not an object")
    return found


def _needs_anonymity(target: Target) -> None:
    if target.asks_agent:
        raise Inapplicable("anonymous discovery")


# /methods


@CASES.case("methods-members", "API-040")
def methods_members(target: Target) -> None:
    """Every entry of DISCOVER /methods has method, path, description and tier."""
    for entry in _entries(target, "/methods"):
        require_members(
            entry, ("method", "path", "description", "tier"), f"the entry {entry.get('method')} {entry.get('path')}"
        )


@CASES.case("methods-tiers", "API-040 API-059")
def methods_tiers(target: Target) -> None:
    """The tiers of DISCOVER /methods are A, B and C."""
    found = {entry.get("tier") for entry in _entries(target, "/methods")}
    expect(found <= {"A", "B", "C"}, f"there is tier {sorted(map(str, found - {'A', 'B', 'C'}))}")


@CASES.case("methods-lists-itself", "API-040 API-041")
def methods_itself(target: Target) -> None:
    """DISCOVER /methods lists itself, in tier A."""
    own = [
        entry
        for entry in _entries(target, "/methods")
        if (entry.get("method"), entry.get("path")) == ("DISCOVER", "/methods")
    ]
    expect(own and own[0].get("tier") == "A", "DISCOVER /methods does not list itself in tier A")


@CASES.case("methods-lists-endpoints", "API-040", Need.ENDPOINT)
def methods_endpoints(target: Target) -> None:
    """DISCOVER /methods lists an operator's endpoint in tier B."""
    assert target.endpoint is not None
    pair = target.endpoint.pair
    tiers = [
        entry.get("tier") for entry in _entries(target, "/methods") if (entry.get("method"), entry.get("path")) == pair
    ]
    expect(tiers == ["B"], f"{target.endpoint} has the tiers {tiers}")


@CASES.case("methods-no-duplicates", "API-040")
def methods_unique(target: Target) -> None:
    """DISCOVER /methods lists nothing twice."""
    found = [
        (entry.get("method"), entry.get("path"), entry.get("tool"), entry.get("action"))
        for entry in _entries(target, "/methods")
    ]
    expect(len(found) == len(set(map(str, found))), "an entry is listed twice")


@CASES.case("listed-is-callable", "API-040", Need.ENDPOINT)
def listed_callable(target: Target) -> None:
    """Entries of DISCOVER /methods are not refused for lack of authority."""
    for item in target.admitted_endpoints[:10]:
        forbid_status(target.call(item), 401, 403, 404, 405, 262)


@CASES.case("methods-in-manifest", "API-041", Need.MANIFEST)
def methods_in_manifest(target: Target) -> None:
    """The built-ins of DISCOVER /methods are endpoints of the manifest."""
    _needs_anonymity(target)
    published = {item.pair for item in target.declared_endpoints}
    for entry in _entries(target, "/methods", Role.ANONYMOUS):
        if entry.get("tier") == "A" and not entry.get("tool"):
            pair = (str(entry.get("method")), str(entry.get("path")))
            expect(pair in published, f"{pair[0]} {pair[1]} is not in the manifest")


# /agents


@CASES.case("agents-members", "API-045")
def agents_members(target: Target) -> None:
    """Every entry of DISCOVER /agents has agent_id, name, trust_tier and verification_path."""
    for entry in _entries(target, "/agents"):
        require_members(entry, AGENT_MEMBERS, f"the entry {entry.get('name')}")
        expect(is_hex64(entry["agent_id"]), f"{entry['name']}: the agent_id is not 64 hexadecimal digits")
        expect(entry["trust_tier"] in (1, 2, 3), f"{entry['name']}: the trust tier is {entry['trust_tier']!r}")


@CASES.case("agents-recommended", "API-045", Need.HOSTED)
def agents_recommended(target: Target) -> None:
    """Entries of DISCOVER /agents have skills_summary, methods_count and owner_id."""
    require_members(target.hosted_agents[0], ("skills_summary", "methods_count", "owner_id"), "the first entry")


@CASES.case("agents-trust-warning", "API-045 AGTP-147", Need.HOSTED)
def agents_warning(target: Target) -> None:
    """Tier 2 agents are listed with a warning, Tier 1 agents without that of Tier 2; others occur in any tier."""
    for entry in target.hosted_agents:
        tier, warning = entry.get("trust_tier"), entry.get("trust_warning")
        expect(tier != 2 or warning, f"{entry.get('name')} is Tier 2 and has no trust_warning")
        warned = tier == 1 and warning == "verification-incomplete"
        expect(not warned, f"{entry.get('name')} is Tier 1 and has the warning of Tier 2")


@CASES.case("agents-match-documents", "API-046", Need.HOSTED)
def agents_match(target: Target) -> None:
    """Entries of DISCOVER /agents do not disagree with the Identity Documents."""
    for entry in target.hosted_agents[:5]:
        answer = require_success(target.ask("DESCRIBE", f"/agents/{entry['name']}", who=target.best))
        for name in ("agent_id", "trust_tier", "verification_path", "owner_id", "trust_warning"):
            if name in entry and isinstance(answer.value, dict) and name in answer.value:
                expect(
                    entry[name] == answer.value[name],
                    f"{entry['name']}: {name} is {entry[name]!r} and {answer.value[name]!r}",
                )


# /genesis, /tools, /apis, /patterns, /contracts


CONTRACT_MEMBERS = (
    "synthesis_id",
    "method",
    "path",
    "originating_agent_id",
    "recipe_lineage",
    "contract_hash",
    "negotiation_origin",
)
"""Members that every contract has (AGTP-API section 5.8.7)."""


@CASES.case("genesis", "API-042 API-043")
def genesis(target: Target) -> None:
    """DISCOVER /genesis returns a Genesis, or 404 if none is loaded."""
    require_status(target.ask("DISCOVER", "/genesis", who=target.best), 200, 404)


@CASES.case("tools-members", "API-049")
def tools(target: Target) -> None:
    """DISCOVER /tools, if exposed, is an array of objects with a name each."""
    answer = require_status(target.ask("DISCOVER", "/tools", who=target.best), 200, 404)
    if answer.status == 200:
        for entry in require_list(answer.result, "the result"):
            require_members(entry, ["name"], "an entry")


@CASES.case("apis-members", "API-050")
def apis(target: Target) -> None:
    """DISCOVER /apis, if exposed, is an array of objects with a name each."""
    answer = require_status(target.ask("DISCOVER", "/apis", who=target.best), 200, 404)
    if answer.status == 200:
        for entry in require_list(answer.result, "the result"):
            require_members(entry, ["name"], "an entry")


@CASES.case("patterns", "API-051")
def patterns(target: Target) -> None:
    """DISCOVER /patterns, if exposed, says whether RCNS is on, and which recipes match what."""
    answer = require_status(target.ask("DISCOVER", "/patterns", who=target.best), 200, 401, 262, 404)
    if answer.status != 200:
        return
    result = require_members(answer.result, ["rcns_enabled", "patterns"], "the result")
    expect(isinstance(result["rcns_enabled"], bool), "rcns_enabled is not a boolean")
    for entry in require_list(result["patterns"], "patterns"):
        require_members(entry, ["recipe_name", "recipe_version", "method"], "a pattern")
        expect(("path_exact" in entry) != ("path_regex" in entry), "a pattern does not have exactly one path")


@CASES.case("contracts", "API-052")
def contracts(target: Target) -> None:
    """DISCOVER /contracts, if exposed, is an array of contracts with their required members."""
    answer = require_status(target.ask("DISCOVER", "/contracts", who=target.best), 200, 401, 262, 404)
    if answer.status == 200:
        for entry in require_list(answer.result, "the result"):
            require_members(entry, CONTRACT_MEMBERS, "a contract")


@CASES.each(
    "variant{}",
    "API-054 API-060",
    ("/methods/none", "/agents-extended", "/toolset", "/patterns-none", "/contracts/none"),
)
def no_variant(target: Target, path: str) -> None:
    """DISCOVER has no endpoint at {}."""
    require_status(target.ask("DISCOVER", path), 404, 405)


# /


@CASES.case("directory", "API-048", Need.AGENT)
def directory(target: Target) -> None:
    """DISCOVER / by an agent returns a directory of the built-ins."""
    answer = require_status(target.as_agent("DISCOVER", "/"), 200)
    entries = require_list(require_members(answer.result, ["directory"], "the result")["directory"], "directory")
    paths = {entry.get("path") for entry in entries if isinstance(entry, dict)}
    missing = {"/methods", "/agents", "/genesis"} - paths
    expect(not missing, f"it lacks {', '.join(sorted(missing))}")
    expect(
        all(isinstance(entry, dict) and entry.get("tier") in ("A", "B") for entry in entries),
        "an entry has no tier A or B",
    )


@CASES.case("directory-is-callable", "API-048", Need.AGENT)
def directory_callable(target: Target) -> None:
    """Every built-in of the directory is answered."""
    entries = target.as_agent("DISCOVER", "/").result.get("directory", [])
    for entry in entries:
        if entry.get("tier") == "A":
            forbid_status(target.as_agent("DISCOVER", str(entry.get("path"))), 405, 459, 460, 501)


@CASES.case("two-tokens-is-root", "AGTP-017 API-048")
def two_tokens(target: Target) -> None:
    """DISCOVER without a path is DISCOVER /, or refused as malformed."""
    octets = target.introduce(b"AGTP/1.0 DISCOVER\r\nContent-Length: 0\r\n\r\n")
    with target.link() as link:
        link.send(octets)
        answer = link.answer(octets)
    expect(answer is not None and answer.status in (200, 262, 400), f"it is answered {answer}")


# The body form


@CASES.case("target-form", "API-057")
def target_form(target: Target) -> None:
    """DISCOVER with target=agents in its body is DISCOVER /agents, if the form is accepted."""
    answer = require_status(target.ask("DISCOVER", "/", {"target": "agents"}, who=target.best), 200, 400, 422)
    if answer.status == 200:
        plain = target.ask("DISCOVER", "/agents", who=target.best)
        expect(answer.result == plain.result, "the two answers differ")


@CASES.case("target-conflict", "API-058")
def target_conflict(target: Target) -> None:
    """A reserved path together with another target in the body is answered 400."""
    require_status(target.ask("DISCOVER", "/agents", {"target": "methods"}, who=target.best), 400)


@CASES.case("target-unknown", "API-057")
def target_unknown(target: Target) -> None:
    """An unknown target in the body is refused."""
    require_status(target.ask("DISCOVER", "/", {"target": "conformance"}, who=target.best), 400, 404, 422)


# Candidates


def _search(target: Target, **parameters: object) -> list[dict[str, object]]:
    answer = require_status(target.as_agent("DISCOVER", "/", {"criteria": "anything at all", **parameters}), 200)
    result = answer.result
    if isinstance(result, dict):
        result = next((value for value in result.values() if isinstance(value, list)), None)
    return require_list(result, "the list of candidates")


@CASES.case("search-list", "AGTP-187", Need.AGENT)
def search(target: Target) -> None:
    """DISCOVER with criteria returns a list of candidates."""
    _search(target)


@CASES.case("search-members", "AGTP-187", Need.AGENT, Need.HOSTED)
def search_members(target: Target) -> None:
    """Agents among the candidates have agent_id, name, description and principal."""
    described = str(target.hosted_agents[0].get("description") or target.hosted_agents[0].get("name"))
    found = [entry for entry in _search(target, criteria=described) if "agent_id" in entry]
    if not found:
        raise Inapplicable("a candidate that is an agent")
    require_members(found[0], ("agent_id", "name", "description", "principal"), "the first agent")


@CASES.case("search-max-results", "AGTP-187", Need.AGENT)
def search_limit(target: Target) -> None:
    """max_results bounds the candidates."""
    expect(len(_search(target, max_results=1)) <= 1, "there are more than asked for")


@CASES.each("search-criteria-{0}", "AGTP-187", (("empty", ""), ("number", 7), ("null", None)), Need.AGENT)
def bad_criteria(target: Target, _: str, value: object) -> None:
    """The criteria {1!r} are refused."""
    require_status(target.as_agent("DISCOVER", "/", {"criteria": value}), 422, 400)


@CASES.case("search-max-results-checked", "AGTP-187", Need.AGENT)
def search_bad_limit(target: Target) -> None:
    """A max_results that is not a number is refused."""
    require_status(target.as_agent("DISCOVER", "/", {"criteria": "anything", "max_results": "many"}), 422, 400)


@CASES.case("search-without-criteria", "AGTP-187", Need.AGENT)
def search_without(target: Target) -> None:
    """A candidate search without criteria is refused."""
    require_status(target.as_agent("DISCOVER", "/", {"max_results": 3}), 422, 400)


@CASES.case("disclosure", "API-075", Need.MANIFEST)
def disclosure(target: Target) -> None:
    """DISCOVER /agents shows an anonymous caller no more than the manifest's agent_disclosure allows."""
    _needs_anonymity(target)
    entries = _entries(target, "/agents", Role.ANONYMOUS)
    level = target.member("agent_disclosure")
    expect(level in ("public", "authenticated", "private"), f"agent_disclosure is {level!r}")
    expect(level == "public" or not entries, f"agent_disclosure is {level}, and agents are shown")
