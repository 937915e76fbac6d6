"""Which standard methods are on, and what answers them: ``[methods] standard`` and endpoints on ``METHOD /``."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from agtphost.config.methods import reading_names, standard_names
from agtphost.contract.manifest import project_binding
from agtphost.errors import ConfigurationError
from agtphost.host.unmatched import find_unmatched
from agtphost.methods.standard.bindings import ALWAYS_BOUND
from agtphost.methods.standard.table import STANDARD
from agtphost.testing import Answer, MemoryHost, TestAgent
from tests.contract.test_built_in_contracts import found, manifest
from tests.rows import each_row

ALL = sorted(STANDARD)


@cache
def everything() -> tuple[MemoryHost, TestAgent]:
    """For all: a host whose every standard method is on, and a caller who may do anything."""
    host = MemoryHost({"methods": {"standard": "*"}})
    return host, host.agent("caller", scopes=("authorization:grant", "activation:run", "payments:purchase"))


def supported(answer: Answer) -> set[str]:
    return set((answer.headers.get("supported-methods") or "").split(", "))


@each_row("name", ALL, ids=str)
def test_none_of_the_fifty_is_405(name: str) -> None:
    """METH-051, METH-066: with ``"*"`` each is answered, by a refusal of its own if by any; and none is 459."""
    host, caller = everything()
    answer = host.call(name, "/", {}, caller=caller)
    assert answer.status not in (405, 459, 500), answer.result


@each_row("name", sorted(set(ALL) - ALWAYS_BOUND - {"PURCHASE", "RUN"}), ids=str)
def test_a_missing_parameter_is_named(name: str) -> None:
    """422 that names the first parameter that is missing, by the table and before any handler."""
    host, caller = everything()
    answer = host.call(name, "/", {}, caller=caller)
    assert (answer.status, answer.result["parameter"]) == (422, STANDARD[name].required[0]), answer.result
    if name != "VALIDATE":  # null is what follows a schema, or does not.
        nothing = host.call(name, "/", {STANDARD[name].required[0]: None}, caller=caller)
        assert (nothing.status, nothing.result["parameter"]) == (422, STANDARD[name].required[0]), nothing.result


def test_a_length_is_one() -> None:
    """GENERATE: a number from 1, or words about it; before, whatever was sent was as good."""
    host, caller = everything()
    given = {"output_type": "text", "source": {"template": "a"}}
    statuses = [
        host.call("GENERATE", "/", {**given, "length": n}, caller=caller).status for n in (0, -1, "", 1, "short")
    ]
    assert statuses == [422, 422, 422, 200, 200]


@each_row("name", sorted(set(ALL) - ALWAYS_BOUND), ids=str)
def test_what_changes_something_refuses_who_has_no_name(name: str) -> None:
    """Nobody changes anything here without saying who it is, and nobody reads either."""
    host, _ = everything()
    answer = host.call(name, "/", {}, connection=host.connect(address=f"127.0.0.{ALL.index(name) + 2}"))
    assert (answer.status, answer.reason) == (401, "agent-unauthenticated")


def test_nothing_is_on_by_itself() -> None:
    """405 as before, and in no list: but for the two that every host answers."""
    host = MemoryHost()
    caller = host.agent("caller")
    found = {name: host.call(name, "/", {}, caller=caller).status for name in ALL}
    assert {name for name, status in found.items() if status != 405} == ALWAYS_BOUND


def test_what_is_supported_is_what_is_called() -> None:
    """METH-051: a method is in Supported-Methods if something answers it, and not where it waits for a provider."""
    host, caller = everything()
    listed = supported(host.call("DESCRIBE", "/", {}, caller=caller, connection=host.connect(caller)))
    bound = host.core.services.registry.all_bindings()
    assert listed == {binding.method for binding in bound if not binding.absent}
    assert {binding.method for binding in bound if binding.path == "/"} >= set(ALL)
    assert "CHECK" in listed


def test_those_that_read() -> None:
    """``standard = "reading"``: what changes nothing and may be repeated, and no more."""
    host = MemoryHost({"methods": {"standard": "reading"}})
    caller = host.agent("caller")
    found = {name for name in ALL if host.call(name, "/", {}, caller=caller).status != 405}
    assert found == {*reading_names(), *ALWAYS_BOUND}
    assert {name for name, row in STANDARD.items() if not row.writes} == set(reading_names())
    assert set(standard_names()) == set(ALL)


def provided(takes: dict[str, str] | None = None, on: str = "TRANSLATE") -> tuple[MemoryHost, TestAgent, list[Any]]:
    """A host whose operator answers one method himself."""
    host, seen = MemoryHost({"methods": {"standard": [on]}}), []

    def answer(context: Any) -> Any:
        seen.append(context.input)
        return {"content": "Bonjour", "source_language": "en", "target_language": "fr"}

    host.endpoint(on, "/", answer, takes or {"content": "string", "target_language": "string"})
    return host, host.agent("caller"), seen


def test_an_endpoint_takes_the_built_ins_place() -> None:
    """METH-011: a provider is an operator's endpoint on ``METHOD /``; it is listed, and the table's rules stay."""
    host, caller, seen = provided()
    answer = host.call("TRANSLATE", "/", {"content": "Hello", "target_language": "fr"}, caller=caller)
    assert (answer.status, answer.result["content"]) == (200, "Bonjour")
    assert "TRANSLATE" in supported(host.call("DESCRIBE", "/", {}, caller=caller, connection=host.connect(caller)))
    for wrong, name in (
        ({"content": "Hello"}, "target_language"),
        ({"content": "x", "target_language": ""}, "target_language"),
    ):
        refused = host.call("TRANSLATE", "/", wrong, caller=caller)
        assert (refused.status, refused.result["parameter"]) == (422, name)
    assert len(seen) == 1


def test_the_scope_of_the_table_stays_whoever_answers() -> None:
    """METH-023: an operator's AUTHORIZE asks for ``authorization:grant`` as the built-in does."""
    host, caller, seen = provided({"subject": "string", "resource": "string", "scope": "string"}, on="AUTHORIZE")
    given = {"subject": "a", "resource": "b", "scope": "c"}
    assert host.call("AUTHORIZE", "/", given, caller=caller).status == 455
    granting = host.agent("granting", scopes=("authorization:grant",))
    assert host.call("AUTHORIZE", "/", given, caller=granting).status == 200
    assert len(seen) == 1


def test_an_operators_authorize_never_widens() -> None:
    """METH-054: 455 and on record for what exceeds the caller's own, however it is written, and nobody is asked."""
    host, _, seen = provided({"subject": "string", "resource": "string", "scope": {}}, on="AUTHORIZE")
    granting = host.agent("granting", scopes=("authorization:grant", "desks:*"))
    given = {"subject": "a", "resource": "b"}
    for scope in ("desks:read,payroll:read", ["payroll:read"], "desks:read payroll:read"):
        refused = host.call("AUTHORIZE", "/", {**given, "scope": scope}, caller=granting)
        assert (refused.status, refused.result["missing_scopes"]) == (455, ["payroll:read"]), scope
        assert refused.record["extra"]["authorization"] == {"subject": "a", "exceeding": ["payroll:read"]}
    assert host.call("AUTHORIZE", "/", {**given, "scope": ["desks:read"]}, caller=granting).status == 200
    narrowed = {**given, "scope": "desks:read"}
    assert host.call("AUTHORIZE", "/", narrowed, caller=granting, scopes=("authorization:grant",)).status == 455
    assert len(seen) == 1


def test_the_record_of_a_transfer_has_both_principals_whoever_answers() -> None:
    """METH-061: with an operator's endpoint in the place of the built-in, and of its refusals as well."""
    given = {"resource_id": "r", "from_principal": "a", "to_principal": "b"}
    host, caller, seen = provided(dict.fromkeys(given, "string"), on="TRANSFER")
    for more, status in (({}, 200), ({"reason": "x"}, 422)):
        answer = host.call("TRANSFER", "/", {**given, **more}, caller=caller)
        extra = answer.record["extra"]
        assert (answer.status, extra["from_principal"], extra["to_principal"]) == (status, "a", "b")
    assert len(seen) == 1


def test_an_endpoint_that_cannot_take_what_the_table_demands_is_a_start_error() -> None:
    """Nobody could ever call it: the table demands what its closed schema refuses."""
    host, _, _ = provided({"text": "string"})
    with pytest.raises(ConfigurationError, match=r"TRANSLATE /.*content"):
        _ = host.core


def test_what_collections_cost_is_told() -> None:
    """``agtp check`` warns of a collection whose items may take much memory."""
    of_all: dict[str, Any] = {"read": [], "write": []}
    kept: dict[str, Any] = {"name": "many", **of_all, "max_items": 10_001}
    host = MemoryHost({"methods": {"standard": ["SYNC"], "collection": [kept, {"name": "few", **of_all}]}})
    (told,) = [each for each in find_unmatched(host.core.services.loaded) if "collection" in each]
    assert "many may have 10001 items, all in memory" in told


def test_each_is_a_sound_endpoint_of_the_manifest() -> None:
    """API-160: by the rules that operators' endpoints are held to; what it takes and leaves behind is its row's."""
    host, _ = everything()
    own = [
        binding
        for binding in host.core.services.registry.built_in_bindings()
        if binding.path == "/" and binding.method in STANDARD
    ]
    shown = [
        project_binding(binding, host.core.services.loaded.catalog)
        for binding in own
        if binding.method not in ALWAYS_BOUND
    ]
    assert len(shown) > 40
    assert found(manifest(list(shown))) == set()
    for each in shown:
        row = STANDARD[each["method"]]
        assert each["semantic"]["outcome"] == row.outcome
        assert each["semantic"]["is_idempotent"] is (row.idempotent is True)
        assert (each["semantic"]["impact"] == "informational") is not row.writes
        assert set(each["input_schema"]["required"]) == set(row.required)
