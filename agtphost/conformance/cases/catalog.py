"""Methods: core v08 section 7 and AGTP-API section 3."""

from __future__ import annotations

from agtphost.conformance.case import Cases, load_tables
from agtphost.conformance.cases.headers import FLOOR
from agtphost.conformance.expectations import forbid_status, require_list, require_members, require_status
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Need, expect

CASES = Cases("catalog")
TABLES = load_tables("requests.toml")

NOWHERE = "/conformance/none"

TIER_2 = [
    "FETCH",
    "SEARCH",
    "SCAN",
    "PULL",
    "IMPORT",
    "FIND",
    "EXTRACT",
    "FILTER",
    "VALIDATE",
    "TRANSFORM",
    "TRANSLATE",
    "NORMALIZE",
    "PREDICT",
    "RANK",
    "MAP",
    "REGISTER",
    "SUBMIT",
    "TRANSFER",
    "PURCHASE",
    "SIGN",
    "MERGE",
    "LINK",
    "LOG",
    "SYNC",
    "PUBLISH",
    "REPLY",
    "SEND",
    "REPORT",
    "MONITOR",
    "ROUTE",
    "RETRY",
    "PAUSE",
    "RESUME",
    "RUN",
    "CHECK",
    "ANALYZE",
    "AUTHORIZE",
    "BATCH",
    "BROADCAST",
    "CALCULATE",
    "CANCEL",
    "CHAIN",
    "CLASSIFY",
    "CONNECT",
    "EMBED",
    "EVALUATE",
    "GENERATE",
    "QUOTE",
    "RECOMMEND",
    "ALERT",
]
DEMOTED = ("BOOK", "SCHEDULE", "LEARN", "COLLABORATE")


def _require_recognized(target: Target, methods: tuple[str, ...]) -> None:
    for method in methods:
        answer = target.ask(method, NOWHERE)
        expect(answer.status != 459, f"{method} is answered {answer}")


CASES.row(
    "tier-2",
    "METH-066 AGTP-255",
    "None of the fifty standard methods is answered 459.",
    _require_recognized,
    tuple(TIER_2),
)
CASES.row(
    "demoted",
    "AGTP-255",
    "BOOK, SCHEDULE, LEARN and COLLABORATE are still in the catalog.",
    _require_recognized,
    DEMOTED,
)


@CASES.each("floor-{}", "AGTP-183", sorted(FLOOR))
def floor(target: Target, method: str) -> None:
    """{} is supported on /."""
    forbid_status(target.ask(method, "/", {}, who=target.best), 404, 405, 459, 501)


for _name, _requirements, _title, _method in TABLES["refused_methods"]:

    def _check_refused(target: Target, method: str) -> None:
        if method in set(target.member("custom_methods") or ()):
            return
        allowed = (459,) if method.isalpha() and method.isupper() else (459, 400)
        require_status(target.ask(method, NOWHERE), *allowed)

    CASES.row(f"refused-{_name}", _requirements, _title, _check_refused, _method)


@CASES.case("459-close-matches", "API-004")
def close_matches(target: Target) -> None:
    """The body of a 459 may list close matches, all of which are methods."""
    answer = require_status(target.ask("DISCOVR", "/"), 459)
    for name in require_list(answer.members.get("close_matches", []), "close_matches"):
        forbid_status(target.ask(str(name), NOWHERE), 459)


@CASES.case("embedded-are-known", "API-001 AGTP-183", Need.MANIFEST)
def check_embedded(target: Target) -> None:
    """Every embedded method of the manifest is recognized."""
    _require_recognized(target, tuple(map(str, target.member("embedded_methods") or ())))


@CASES.case("custom-are-known", "AGTP-254 API-006", Need.MANIFEST)
def custom(target: Target) -> None:
    """Every custom method of the manifest is recognized."""
    _require_recognized(target, tuple(map(str, target.member("custom_methods") or ())))


@CASES.case("context-accepted", "AGTP-184")
def context(target: Target) -> None:
    """Methods accept a context parameter."""
    plain = target.ask("INSPECT", "/", {"target": "audit", "audit_id": "0" * 64})
    answer = target.ask("INSPECT", "/", {"target": "audit", "audit_id": "0" * 64, "context": {}})
    expect(plain.status == answer.status, f"{answer} with context, {plain} without")


@CASES.case("deprecated-not-refused", "API-015 API-014", Need.MANIFEST)
def check_deprecated(target: Target) -> None:
    """A method that answers with AGTP-Catalog-Warning is answered by its endpoint, never 459."""
    for item in target.declared_endpoints[:50]:
        answer = target.ask(item.method, NOWHERE)
        if answer.header("AGTP-Catalog-Warning") is not None:
            expect(
                (answer.header("AGTP-Catalog-Warning") or "").startswith("deprecated"), "the warning has another form"
            )
            forbid_status(answer, 459)


@CASES.case("versions-negotiated", "API-020 API-012", Need.MANIFEST)
def versions(target: Target) -> None:
    """The version of a 459 is one of those that the manifest supports."""
    answer = require_status(target.ask("FROBNICATE", "/"), 459)
    version = require_members(answer.value, ["catalog_version"], "the body")["catalog_version"]
    supported = require_list(target.member("catalog_versions_supported"), "catalog_versions_supported")
    expect(version in supported, f"{version!r} is not among {supported}")
