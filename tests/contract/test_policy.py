"""The method policy: what is admitted, under which names, and what a wrong policy is told."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from pydantic import ValidationError

from agtphost.config.policies import SEED_ALIASES, Redirect
from agtphost.config.policies import MethodPolicy as Section
from agtphost.contract.policy import MethodPolicy, PolicyReading, read_policy
from agtphost.vocabulary.catalog import FLOOR, Catalog
from tests.rows import each_row

CATALOG = Catalog.load()


def reading(*, registered: Collection[str] = (), wildcards_accepted: bool = False, **given: Any) -> PolicyReading:
    return read_policy(CATALOG, Section(**given), registered=registered, wildcards_accepted=wildcards_accepted)


def policy(**settings: Any) -> MethodPolicy:
    read = reading(**settings)
    assert read.errors == ()
    return read.policy


def redirect(*parts: str | None) -> Redirect:
    from_method, from_path, to_method, to_path = parts
    assert from_method and to_method
    return Redirect(from_method=from_method, from_path=from_path, to_method=to_method, to_path=to_path)


def test_the_default_admits_everything_under_the_seed_aliases() -> None:
    """API-086, API-089: allow "*", nothing disallowed, five aliases."""
    default = policy()
    assert default.admits_everything
    assert default.admits("TRANSFER")
    assert dict(default.aliases) == dict(SEED_ALIASES)
    assert default.redirect("BOOK", "/room") is None


def test_an_allow_list_still_admits_the_floor() -> None:
    """API-086: allow=["BOOK"] takes BOOK and the eighteen, nothing else."""
    listed = policy(allow=["BOOK"])
    assert listed.admits("BOOK")
    assert all(listed.admits(method) for method in FLOOR)
    assert not listed.admits("CANCEL")
    assert not listed.admits_everything


def test_disallow_wins() -> None:
    """API-087: over allow, and over the floor."""
    assert not policy(allow=["TRANSFER"], disallow=["TRANSFER"]).admits("TRANSFER")
    read = reading(disallow=["SUMMARIZE"])
    assert not read.policy.admits("SUMMARIZE")
    assert "every host supports" in str(read.warnings[0])


def test_aliases_are_one_hop() -> None:
    """API-089: the alias gate looks a name up once; an empty map disables them."""
    assert policy(aliases={"FETSCH": "FETCH"}).aliases == {"FETSCH": "FETCH"}
    assert policy(aliases={}).aliases == {}


@each_row(
    ("aliases", "message"),
    [
        ({"GET": "POST", "POST": "CREATE"}, "GET leads to POST, which is itself an alias"),
        ({"GET": "POST", "POST": "GET"}, "itself an alias"),
        ({"GET": "GET"}, "itself an alias"),
        ({"BOOK": "RESERVE"}, "BOOK is the name of a method"),
    ],
)
def test_wrong_aliases_keep_the_host_from_starting(aliases: dict[str, str], message: str) -> None:
    """API-090: chains, circles, and names that are no aliases."""
    read = reading(aliases=aliases)
    assert message in str(read.errors[0])


def test_an_alias_of_an_unknown_method_is_skipped() -> None:
    """An alternative catalog without FETCH must not keep the seed aliases from loading."""
    read = reading(aliases={"GET": "FROBNICATE"})
    assert (read.errors, read.policy.aliases) == ((), {})
    assert "FROBNICATE" in str(read.warnings[0])


def test_legacy_verbs_act_only_without_an_alias() -> None:
    """API-007, API-008, spec reading 42: the alias first, the mapping of AGTP-API section 3.6 where there is none."""
    opted = policy(aliases={}, legacy="*")
    assert dict(opted.aliases) == {
        "GET": "QUERY",
        "POST": "EXECUTE",
        "PUT": "EXECUTE",
        "DELETE": "EXECUTE",
        "PATCH": "EXECUTE",
    }
    assert opted.legacy_parameters("DELETE") == {"action": "delete"}
    assert opted.legacy_parameters("PATCH") == {"action": "modify"}
    assert opted.legacy_parameters("PUT") == opted.legacy_parameters(None) == {}
    aliased = policy(legacy=["GET"])
    assert aliased.aliases["GET"] == "FETCH"
    assert policy(legacy="*").legacy_parameters("DELETE") == {}
    assert "GET" not in policy(aliases={}).aliases


@pytest.mark.parametrize("aliases", [{"get": "FETCH"}, {"GET": "FETCH-IT"}])
def test_aliases_are_of_methods(aliases: dict[str, str]) -> None:
    """API-090: what is no method name is not read."""
    with pytest.raises(ValidationError, match="not a method name"):
        reading(aliases=aliases)


@each_row("legacy", [["GETT"], ["HEAD"], ["get"], "ALL"])
def test_other_verbs_in_legacy_are_an_error(legacy: object) -> None:
    """API-088: a typing error must not silently opt out."""
    with pytest.raises(ValidationError, match=r"GET, POST, PUT, DELETE, PATCH|not a method name"):
        reading(legacy=legacy)


@pytest.mark.parametrize("key", ["allow", "disallow"])
def test_methods_that_the_catalog_lost_are_skipped_with_a_warning(key: str) -> None:
    """API-019: the host starts, the entry has no effect, the operator sees it."""
    read = reading(**{key: ["BOOK", "FROBNICATE"]})
    assert read.errors == ()
    assert "FROBNICATE is not in catalog 1.1.0" in str(read.warnings[0])
    assert read.policy.admits("BOOK") is (key == "allow")


def test_a_redirect_to_a_lost_method_is_skipped() -> None:
    """API-019: redirects too."""
    read = reading(redirects=[redirect("BOOK", None, "FROBNICATE", None)])
    assert (read.errors, read.policy.redirects) == ((), ())
    assert read.warnings


def test_registered_and_custom_methods_count_as_known() -> None:
    """API-006, API-086: allow names them without a warning."""
    read = reading(allow=["PRESCRIBE", "FROBNICATE"], custom=["PRESCRIBE"], registered={"FROBNICATE"})
    assert read.warnings == ()
    assert read.policy.custom == {"PRESCRIBE"}


@each_row("name", ["DO_IT", "AB", "A" * 33, "book"])
def test_custom_methods_follow_the_lexical_rules(name: str) -> None:
    """API-005: as any method name."""
    with pytest.raises(ValidationError, match="not a method name"):
        reading(custom=[name])


def test_a_custom_method_is_no_verb_of_http() -> None:
    """API-005."""
    read = reading(custom=["GET"])
    assert read.errors
    assert read.policy.custom == frozenset()


def test_disallowing_an_alias_is_pointed_out() -> None:
    """Spec reading 43: disallow compares the resolved name, so PATCH there does nothing."""
    read = reading(disallow=["PATCH", "TRANSFER"])
    assert "PATCH is an alias; list its method MODIFY" in str(read.warnings[0])
    assert read.policy.disallow == {"TRANSFER"}


def test_redirects() -> None:
    """API-092: the very path before every path; an omitted to_path keeps the request's own."""
    redirected = policy(
        redirects=[
            redirect("BOOK", None, "RESERVE", None),
            redirect("BOOK", "/room", "HIRE", "/chamber"),
            redirect("BUY", "/x", "PURCHASE", None),
        ]
    )
    assert redirected.redirect("BOOK", "/room") == ("HIRE", "/chamber")
    assert redirected.redirect("BOOK", "/desk") == ("RESERVE", "/desk")
    assert redirected.redirect("BUY", "/x") == ("PURCHASE", "/x")
    assert redirected.redirect("BUY", "/y") is None
    assert redirected.redirects_at("/room") == {"BOOK": "HIRE"}
    assert redirected.redirects_at("/x") == {"BOOK": "RESERVE", "BUY": "PURCHASE"}
    assert not redirected.admits_everything


@each_row(
    ("entries", "message"),
    [
        ([("BOOK", None, "RESERVE", None), ("RESERVE", "/a", "HIRE", None)], "redirected again"),
        ([("BOOK", "/a", "BOOK", "/a")], "redirected again"),
        ([("BOOK", None, "BOOK", "/a")], "redirected again"),
        ([("BOOK", "/a", "HIRE", "/b"), ("HIRE", "/b", "BOOK", "/a")], "redirected again"),
        ([("BOOK", "/a", "HIRE", None), ("BOOK", "/a", "RESERVE", None)], "has two entries"),
        ([("BOOK", "/a/{x}", "HIRE", None)], "is a template"),
        ([("BOOK", "/a/", "HIRE", None)], "empty segment"),
        ([("BOOK", "/a", "HIRE", "/query/x")], "method name QUERY"),
    ],
)
def test_wrong_redirects_keep_the_host_from_starting(entries: list[tuple[Any, ...]], message: str) -> None:
    """A redirect is one step and names real paths."""
    read = reading(redirects=[redirect(*entry) for entry in entries])
    assert any(message in str(problem) for problem in read.errors)


def test_redirects_that_only_look_chained_are_taken() -> None:
    """The control: the second entry does not apply where the first leads."""
    assert policy(redirects=[redirect("BOOK", "/a", "HIRE", "/b"), redirect("HIRE", "/c", "RENT", None)])


def test_resolving_follows_the_dispatcher() -> None:
    """API-089, API-092: alias, admission, redirect, and the target's admission."""
    settled = policy(
        disallow=["TRANSFER", "HIRE"],
        redirects=[redirect("BOOK", None, "RESERVE", None), redirect("RENT", None, "HIRE", None)],
    )
    outcomes = {
        "GET": ("FETCH", "GET", True),
        "BOOK": ("RESERVE", "BOOK", True),
        "TRANSFER": ("TRANSFER", None, False),
        "RENT": ("HIRE", "RENT", False),
        "QUERY": ("QUERY", None, True),
    }
    for method, expected in outcomes.items():
        found = settled.resolve(method, "/room")
        assert (found.method, found.requested_method, found.admitted) == expected


def test_a_redirect_never_bypasses_disallow() -> None:
    """API-087: neither a disallowed source nor a disallowed target gets through."""
    entry = [redirect("TRANSFER", None, "PAY", None)]
    assert not policy(disallow=["TRANSFER"], redirects=entry).resolve("TRANSFER", "/x").admitted
    assert not policy(disallow=["PAY"], redirects=entry).resolve("TRANSFER", "/x").admitted
    assert policy(redirects=entry).resolve("TRANSFER", "/x").admitted


def test_the_manifest_form() -> None:
    """API-093: allow, disallow, legacy, aliases, redirects as declared."""
    shown = policy(
        allow=["BOOK"],
        disallow=["TRANSFER"],
        legacy=["GET"],
        redirects=[redirect("BOOK", "/room", "RESERVE", None)],
    ).document()
    assert shown == {
        "allow": ["BOOK"],
        "disallow": ["TRANSFER"],
        "legacy": ["GET"],
        "aliases": dict(sorted(SEED_ALIASES.items())),
        "redirects": [{"from_method": "BOOK", "from_path": "/room", "to_method": "RESERVE"}],
    }
    assert policy().document()["legacy"] == "NONE"
    assert policy(legacy="*").document()["legacy"] == "*"
    assert policy().document()["allow"] == "*"


def test_what_is_neither_word_nor_list_is_an_error() -> None:
    """allow = "BOOK" would otherwise be read letter by letter."""
    with pytest.raises(ValidationError, match="or a list of method names"):
        reading(allow="BOOK")


def test_disallowing_an_opted_in_verb_is_pointed_out() -> None:
    """Spec reading 43: what is compared is the method that the verb acts as."""
    read = reading(aliases={}, legacy=["PATCH"], disallow=["PATCH"])
    assert "PATCH is opted in by legacy and acts as EXECUTE" in str(read.warnings[0])
    assert read.policy.disallow == frozenset()


def test_which_verbs_act_by_themselves() -> None:
    """API-008, spec reading 42: opted in and not aliased; PUT among them needs a key."""
    assert policy().legacy_acts == policy(legacy="*").legacy_acts == frozenset()
    some = policy(legacy=["PUT", "GET"], aliases={"GET": "FETCH"})
    assert some.legacy_acts == {"PUT"}
    assert [some.demands_key(verb) for verb in ("PUT", "GET", "EXECUTE", None)] == [True, False, False, False]


def test_an_alias_of_a_legacy_verb_is_no_second_hop() -> None:
    """API-090: GET is no catalog method, so nothing leads to it."""
    read = reading(aliases={"RETRIEVEIT": "GET"}, legacy=["GET"])
    assert read.policy.declared_aliases == {}
    assert "leads to GET" in str(read.warnings[0])


def test_profiles_are_shown_where_there_are_any() -> None:
    """AGTP-256: by name; the methods are in ``custom``."""
    shown = policy(custom=["PRESCRIBE"], profiles=["agtp-profile-healthcare"])
    assert shown.document()["profiles"] == ["agtp-profile-healthcare"]
    assert "profiles" not in policy().document()
    assert policy(wildcards_accepted=True).wildcards_accepted
