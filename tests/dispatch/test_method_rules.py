"""Catalog, method policy and consent as a caller meets them: AGTP-API sections 3, 4, 9 and 16.4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from agtphost.config.policies import Redirect
from agtphost.contract.binding import Binding
from agtphost.contract.policy import MethodPolicy
from agtphost.vocabulary.catalog import FLOOR, LEGACY, Catalog
from agtphost.vocabulary.catalog_set import CatalogSet
from tests.dispatch.hosts import CALLER, DispatchHost, Recorder, agent, document, payload
from tests.rows import each_row
from tests.vocabulary.test_catalog_set import document as catalog_document

SHIPPED = Catalog.load()
STANDARD = sorted(name for name, entry in SHIPPED.entries.items() if entry.standard is not None)
DEMOTED = ("BOOK", "SCHEDULE", "LEARN", "COLLABORATE")
VERSION = "AGTP-Catalog-Version"


def catalog(version: str, **verbs: Any) -> Catalog:
    return Catalog(catalog_document(version, **verbs))


def bound(method: str, path: str, recorder: Recorder | None = None) -> Binding:
    return Binding(method=method, path=path, handler=recorder or Recorder(), tier="B", state_changing=False)


def consenting(wildcards: object = True, **policy: Any) -> DispatchHost:
    """A host with such a policy, and a caller whose Identity Document has ``wildcards``."""
    plain = agent(CALLER, "caller", hosted=False, scopes=frozenset({"booking:*"}))
    caller = replace(plain, document={**plain.document, "wildcards": wildcards})
    return DispatchHost(caller=caller, policy=MethodPolicy(**policy))


# The catalog


@each_row(
    ("path", "fields", "status"),
    [
        ("/agents", {}, 200),
        ("/methods/book", {}, 460),
        ("/book", {}, 460),
        ("/agents", {VERSION: "9.9.9"}, 400),
    ],
)
def test_a_built_in_goes_through_catalog_and_path_grammar(path: str, fields: dict[str, str], status: int) -> None:
    """API-041: DISCOVER is refused for its path, and by the catalog that is asked for, as every method is."""
    answer = DispatchHost().ask("DISCOVER", path, headers=fields)
    assert answer.status == status, answer.body


@each_row("method", ["FROB", "X-NEGOTIATE", "book", "query", "GETT", "HEAD"])
def test_what_is_not_in_the_catalog_is_459(method: str) -> None:
    """API-004, API-005, AGTP-252, AGTP-253: X- names too; the body cites the version and what is close."""
    response = DispatchHost().ask(method, "/words")
    body = document(response)
    assert (response.status, body["reason"]) == (459, "method-violation")
    assert body["catalog_version"] == SHIPPED.version
    assert body["method"] == method
    assert body["close_matches"] == list(SHIPPED.close_matches(method))


@pytest.fixture
def host() -> DispatchHost:
    """One host for all rows of a table."""
    return DispatchHost()


@each_row("method", [*STANDARD, *DEMOTED, *FLOOR])
def test_a_catalogued_method_is_never_459(host: DispatchHost, method: str) -> None:
    """METH-066, AGTP-255, API-015: on a path that nobody registered it is 404, on another's path 405."""
    assert host.ask(method, "/nowhere").status == 404
    assert host.ask(method, "/desk").status in (405, 422)


def test_a_good_method_on_a_known_path_is_405_with_what_is_allowed() -> None:
    """AGTP-253: the last of the three refusals, after 459 and 460."""
    host = DispatchHost()
    body = document(host.ask("CANCEL", "/desk"))
    assert (body["status"], body["allowed_methods_for_path"]) == (405, ["RESERVE"])
    assert document(host.ask("QUERY", "/book/x"))["segment"] == "book"


def test_custom_methods_are_known_where_they_are_declared() -> None:
    """AGTP-254, API-006: declared, it reaches its endpoint; undeclared it is 459."""
    greet = bound("GREETSOMEONE", "/hello")
    policy = MethodPolicy(custom=frozenset({"GREETSOMEONE"}))
    assert DispatchHost(policy=policy, bindings=[greet]).ask("GREETSOMEONE", "/hello").status == 200
    assert DispatchHost(bindings=[greet]).ask("GREETSOMEONE", "/hello").status == 459


@pytest.mark.parametrize("there", [True, False])
def test_a_deprecated_method_is_answered_and_warned_of(there: bool) -> None:
    """API-014, API-015: on success and on failure, and never 459."""
    old = catalog("1.2.0", QUERY={"deprecated_in": "1.2.0", "successor": "FETCH", "removed_in": "2.0.0"})
    response = DispatchHost(catalogs=CatalogSet(primary=old)).ask("QUERY", "/words" if there else "/nowhere")
    assert response.status == (200 if there else 404)
    assert response.headers.get("agtp-catalog-warning") == "deprecated; successor=FETCH; removed_in=2.0.0"


def test_a_removed_method_is_459_and_cites_the_catalog_in_use() -> None:
    """API-016: after the MAJOR step the version in the body is the new one."""
    host = DispatchHost(catalogs=CatalogSet(primary=catalog("2.0.0", AUDIT=None)), bindings=[bound("AUDIT", "/books")])
    body = document(host.ask("AUDIT", "/books"))
    assert (body["status"], body["catalog_version"]) == (459, "2.0.0")
    assert "catalog_versions_with_method" not in body


# Several versions


@pytest.fixture
def versions() -> DispatchHost:
    """2.0.0 without AUDIT and with ZIP, and beside it 1.2.0, in which QUERY is deprecated."""
    return DispatchHost(
        catalogs=CatalogSet(
            primary=catalog("2.0.0", AUDIT=None, ZIP={}, FETCH={"deprecated_in": "2.0.0"}),
            others=(catalog("1.2.0", QUERY={"deprecated_in": "1.2.0"}),),
        ),
        bindings=[bound("AUDIT", "/books"), bound("ZIP", "/books"), bound("FETCH", "/books")],
    )


@pytest.mark.parametrize(
    ("method", "version", "status"),
    [
        ("AUDIT", None, 459),
        ("AUDIT", "2.0.0", 459),
        ("AUDIT", "1.2.0", 200),
        ("ZIP", None, 200),
        ("ZIP", "2.0.0", 200),
        ("ZIP", "1.2.0", 459),
        ("FETCH", "1.2.0", 200),
    ],
)
def test_a_request_is_validated_against_the_version_it_states(
    versions: DispatchHost, method: str, version: str | None, status: int
) -> None:
    """AGTP-API sections 4.6 and 4.8: the stated one, else the primary one; a 459 cites the one that was used."""
    headers = {} if version is None else {VERSION: version}
    response = versions.ask(method, "/books", headers=headers)
    assert response.status == status
    if status == 459:
        body = document(response)
        assert body["catalog_version"] == (version or "2.0.0")
        assert body["catalog_versions_with_method"] == ["1.2.0" if method == "AUDIT" else "2.0.0"]
        assert VERSION in body["remedy"]


def test_warnings_are_those_of_the_stated_version(versions: DispatchHost) -> None:
    """API-014: QUERY is deprecated in the old version only, FETCH in the new one only."""

    def warned(method: str, path: str, headers: Mapping[str, str]) -> str | None:
        return versions.ask(method, path, headers=headers).headers.get("agtp-catalog-warning")

    assert warned("QUERY", "/words", {}) is None
    assert warned("QUERY", "/words", {VERSION: "1.2.0"}) == "deprecated"
    assert warned("FETCH", "/books", {}) == "deprecated"
    assert warned("FETCH", "/books", {VERSION: "1.2.0"}) is None


@pytest.mark.parametrize("version", ["1.0.0", "latest", "", "2.0.0, 1.2.0", "2.0.0 "])
def test_a_version_that_is_not_supported_is_400(versions: DispatchHost, version: str) -> None:
    """Nothing is guessed: the body lists what is supported, the primary one first."""
    response = versions.ask("ZIP", "/books", headers={VERSION: version})
    body = document(response)
    assert (response.status, body["reason"]) == (400, "catalog-version-unsupported")
    assert body["catalog_versions_supported"] == ["2.0.0", "1.2.0"]


def test_a_host_of_one_version_takes_that_and_no_other() -> None:
    """The control: the header works without further catalogs, too."""
    assert DispatchHost().ask("QUERY", "/words", headers={VERSION: SHIPPED.version}).status == 200
    assert DispatchHost().ask("QUERY", "/words", headers={VERSION: "9.9.9"}).status == 400


# Aliases, legacy verbs, redirects


@each_row(
    ("verb", "method"),
    [("GET", "FETCH"), ("POST", "CREATE"), ("PUT", "REPLACE"), ("DELETE", "REMOVE"), ("PATCH", "MODIFY")],
)
def test_the_seed_aliases_reach_their_methods(verb: str, method: str) -> None:
    """API-089: in one hop, before the catalog is looked at; an empty map has none of them."""
    host = DispatchHost(bindings=[bound(method, "/doc")])
    assert host.ask(verb, "/doc").status == 200
    assert (payload(host)["method"], payload(host)["requested_method"]) == (method, verb)
    without = DispatchHost(bindings=[bound(method, "/doc")], policy=MethodPolicy(declared_aliases={}))
    assert without.ask(verb, "/doc").status == 459


@each_row("verb", LEGACY)
def test_legacy_verbs_are_opt_in(verb: str) -> None:
    """API-007: without the opt-in and without an alias they are unknown names."""
    host = DispatchHost(
        policy=MethodPolicy(declared_aliases={}), bindings=[bound("QUERY", "/r"), bound("EXECUTE", "/r")]
    )
    assert host.ask(verb, "/r", {}).status == 459


@each_row(
    ("verb", "headers", "parameters"),
    [
        ("GET", {}, {"n": "1"}),
        ("POST", {}, {"n": "1"}),
        ("PUT", {"Idempotency-Key": "k-1"}, {"n": "1", "idempotency_key": "k-1"}),
        ("DELETE", {}, {"n": "1", "action": "delete"}),
        ("PATCH", {}, {"n": "1", "action": "modify"}),
    ],
)
def test_an_opted_in_verb_acts_as_its_method(verb: str, headers: dict[str, str], parameters: dict[str, str]) -> None:
    """API-008, spec reading 42: the mapped handler gets the parameters that the verb stands for."""
    query, execute = Recorder(), Recorder()
    host = DispatchHost(
        policy=MethodPolicy(declared_aliases={}, legacy=LEGACY),
        bindings=[bound("QUERY", "/r", query), bound("EXECUTE", "/r", execute)],
    )
    assert host.ask(verb, "/r", {"n": "1"}, headers=headers).status == 200
    handler = query if verb == "GET" else execute
    assert [dict(call.input) for call in handler.calls] == [parameters]
    assert payload(host)["requested_method"] == verb


def test_a_legacy_put_has_a_key_from_header_or_parameters() -> None:
    """API-008: without any it is refused; in two places they must agree."""
    host = DispatchHost(policy=MethodPolicy(declared_aliases={}, legacy=("PUT",)), bindings=[bound("EXECUTE", "/r")])
    assert host.ask("PUT", "/r", {"idempotency_key": "k-2"}).status == 200
    for body in ({}, {"idempotency_key": ""}, {"idempotency_key": 7}, {"idempotency_key": "has space"}):
        refused = document(host.ask("PUT", "/r", body))
        assert (refused["status"], refused["reason"]) == (422, "idempotency-key-required")
    response = host.ask("PUT", "/r", {"idempotency_key": "one"}, headers={"Idempotency-Key": "other"})
    assert document(response)["reason"] == "legacy-parameter-conflict"


def test_a_legacy_delete_cannot_be_made_something_else() -> None:
    """The action of the verb wins over nothing: a body that says otherwise is refused."""
    host = DispatchHost(policy=MethodPolicy(declared_aliases={}, legacy=("DELETE",)), bindings=[bound("EXECUTE", "/r")])
    assert document(host.ask("DELETE", "/r", {"action": "pay"}))["reason"] == "legacy-parameter-conflict"
    assert host.ask("DELETE", "/r", {"action": "delete"}).status == 200


def test_an_alias_goes_before_the_legacy_mapping() -> None:
    """Spec reading 42: opted in and aliased, DELETE is REMOVE and gets no action."""
    recorder = Recorder()
    host = DispatchHost(policy=MethodPolicy(legacy=LEGACY), bindings=[bound("REMOVE", "/r", recorder)])
    assert host.ask("DELETE", "/r", {}).status == 200
    assert dict(recorder.calls[0].input) == {}
    assert "legacy verb" not in [gate.name for gate in host.gates]


def test_two_verbs_of_one_method_do_not_share_a_key() -> None:
    """DELETE and PATCH both act as EXECUTE; the answer to one must not be given to the other."""
    execute = replace(bound("EXECUTE", "/r"), state_changing=True)
    host = DispatchHost(policy=MethodPolicy(declared_aliases={}, legacy=LEGACY), bindings=[execute])
    keyed = {"Idempotency-Key": "k-1"}
    assert host.ask("DELETE", "/r", {}, headers=keyed).status == 200
    assert document(host.ask("PATCH", "/r", {}, headers=keyed))["reason"] == "idempotency-key-reused"
    assert host.ask("DELETE", "/r", {}, headers=keyed).status == 200


def test_an_allow_list_admits_the_floor_besides() -> None:
    """API-086: allow = ["BOOK"] takes QUERY and refuses CANCEL."""
    host = DispatchHost(policy=MethodPolicy(allow=frozenset({"BOOK"})), bindings=[bound("CANCEL", "/words")])
    assert host.ask("QUERY", "/words").status == 200
    assert host.ask("CANCEL", "/words").status == 405


def test_a_disallowed_method_is_405_under_every_name() -> None:
    """API-087, spec reading 43: by its resolved name, so an alias does not go round it."""
    policy = MethodPolicy(disallow=frozenset({"FETCH"}))
    host = DispatchHost(policy=policy, bindings=[bound("FETCH", "/doc"), bound("QUERY", "/doc")])
    for method in ("FETCH", "GET"):
        body = document(host.ask(method, "/doc"))
        assert (body["status"], body["allowed_methods_for_path"]) == (405, ["QUERY"])


def redirected(*entries: tuple[str, str | None, str, str | None], **policy: Any) -> MethodPolicy:
    made = tuple(
        Redirect(from_method=source, from_path=at, to_method=target, to_path=to) for source, at, target, to in entries
    )
    return MethodPolicy(redirects=made, **policy)


def test_a_redirect_is_answered_as_its_target() -> None:
    """API-092: BOOK /room reaches RESERVE's handler; an omitted path means every path."""
    recorder = Recorder()
    host = DispatchHost(policy=redirected(("BOOK", None, "HIRE", None)), bindings=[bound("HIRE", "/room", recorder)])
    assert host.ask("BOOK", "/room").status == 200
    assert (payload(host)["method"], payload(host)["requested_method"]) == ("HIRE", "BOOK")
    assert len(recorder.calls) == 1


def test_redirects_are_one_hop_whatever_the_policy_holds() -> None:
    """Even a chain that loading would have refused leads one step on, and no request can go round."""
    policy = redirected(("BOOK", None, "HIRE", None), ("HIRE", None, "BOOK", None))
    host = DispatchHost(policy=policy, bindings=[bound("HIRE", "/room")])
    assert host.ask("BOOK", "/room").status == 200
    assert host.ask("HIRE", "/room").status == 405


@pytest.mark.parametrize("shut", ["BOOK", "HIRE"])
def test_a_redirect_never_goes_round_a_disallow(shut: str) -> None:
    """API-087: neither from a method that is shut out nor to one."""
    policy = redirected(("BOOK", None, "HIRE", None), disallow=frozenset({shut}))
    assert DispatchHost(policy=policy, bindings=[bound("HIRE", "/room")]).ask("BOOK", "/room").status == 405


def test_a_redirect_from_a_deprecated_method_warns_of_that() -> None:
    """API-014: the method that was asked for is the one whose users must move on."""
    old = catalog("1.2.0", BOOK={"deprecated_in": "1.2.0", "successor": "HIRE"})
    host = DispatchHost(
        catalogs=CatalogSet(primary=old),
        policy=redirected(("BOOK", None, "HIRE", None)),
        bindings=[bound("HIRE", "/room")],
    )
    assert host.ask("BOOK", "/room").headers.get("agtp-catalog-warning") == "deprecated; successor=HIRE"
    assert host.ask("HIRE", "/room").headers.get("agtp-catalog-warning") is None


# Consent to ad-hoc invocation


@each_row(
    ("consents", "server", "unknown", "unbound"),
    [(False, False, 459, 405), (True, True, 459, 405), (True, False, 262, 262), (False, True, 262, 262)],
)
def test_262_only_where_one_side_alone_consents(consents: bool, server: bool, unknown: int, unbound: int) -> None:
    """Spec reading 50, AGTP-API section 16.4: else the ordinary refusals; no handler runs either way."""
    host = consenting(consents, wildcards_accepted=server)
    for method, path, status in (("FROB", "/desk", unknown), ("CANCEL", "/desk", unbound)):
        response = host.ask(method, path)
        body = document(response)
        assert response.status == status
        if status == 262:
            assert body["type"] == "wildcards-required"
            assert body["consents"] == {"agent": consents, "server": server}
    assert host.ask("QUERY", "/nowhere").status == 404
    assert not host.recorder.calls


@each_row("value", ["true", 1, None, {}])
def test_consent_is_true_and_nothing_like_it(value: object) -> None:
    """Fail closed: what is not the JSON value true is no consent."""
    assert consenting(value).ask("FROB", "/desk").status == 459


def test_a_method_that_the_policy_shuts_out_is_no_matter_of_consent() -> None:
    """Disallowed is disallowed: 405, whoever would consent to what."""
    host = consenting(disallow=frozenset({"RESERVE"}))
    assert host.ask("RESERVE", "/desk").status == 405
