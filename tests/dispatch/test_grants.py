"""Grants narrow, and never widen: 1,000 random sets of them against what document and certificate give."""

from __future__ import annotations

import random
from collections.abc import Callable
from fnmatch import fnmatchcase
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from agtphost.contract.binding import Binding
from agtphost.contract.rights import GrantSet, format_grant, is_free
from agtphost.dispatch import authority
from agtphost.dispatch.exchange import Exchange
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.grants import is_grant
from tests.dispatch.hosts import CALLER, agent
from tests.methods.granting_hosts import tool
from tests.programmes import length, seed_of_chance

SEED = seed_of_chance()
SCOPES = ("booking:desk", "documents:query", "mcp:tools:execute", "payments:purchase")
METHODS = ("QUERY", "RESERVE", "EXECUTE", "DISCOVER", "SUMMARIZE", "PURCHASE", "ESCALATE")
PATHS = ("/", "/words", "/books/{book}", "/books/{book}/pages", "/desk")
NOTHING: Any = SimpleNamespace(kind="function")


def resource(uri: str) -> Binding:
    """As an MCP server's is bound."""
    extra = {"mcp_server": "files", "mcp_resource": uri}
    return Binding(method="EXECUTE", path="/mcp/files", handler=NOTHING, tier="B", name=f"files.{uri}", extra=extra)


def universe() -> list[Binding]:
    """Bindings of every kind."""
    chance = random.Random(1)
    made = [tool(server, name) for server in ("files", "notes") for name in ("read_file", "read_files", "write")]
    made += [resource("file:///x"), resource("read_file")]
    for method in METHODS:
        for path in PATHS:
            for tier in "ABC":
                scopes = tuple(chance.sample(SCOPES, chance.choice((0, 0, 1, 2))))
                least = chance.choice(list(Assurance))
                made.append(
                    Binding(
                        method=method,
                        path=path,
                        handler=NOTHING,
                        tier=tier,
                        required_scopes=scopes,
                        min_assurance=least,
                    )
                )
    return made


EVERYTHING = universe()
BINDINGS = st.sampled_from(EVERYTHING)
WHOLE = sorted({format_grant(binding) for binding in EVERYTHING})
BEGUN = sorted({f"{text[:cut]}*" for text in WHOLE for cut in range(len(text) + 1)})
TEXTS = st.sampled_from([text for text in (*WHOLE, *BEGUN, "* /*", "* /words", "nowhere.*") if is_grant(text)])
DEMO = agent(CALLER, "caller", hosted=False)
HELD = st.sets(st.sampled_from((*SCOPES, "booking:*", "mcp:*")))


def exchange(scopes: set[str], assurance: Assurance, grants: set[str] | None) -> Exchange:
    """One request of an agent, as far as the decision looks at it."""
    made = Exchange(SimpleNamespace(path="/"), SimpleNamespace(certificate=None), 0.0)  # type: ignore[arg-type]
    made.caller, made.scopes, made.assurance = DEMO, frozenset(scopes), assurance
    if grants is not None:
        made.narrowings = (GrantSet(CALLER, frozenset(grants)),)
    return made


def grant_names_binding(binding: Binding, texts: set[str]) -> bool:
    """What a grant names, in another way than the host's: by what people are told, and shell patterns."""
    names = {format_grant(binding), f"{binding.method} {binding.path}", f"* {binding.path}"}
    if any(member in binding.extra for member in ("mcp_tool", "mcp_resource")):
        names = {format_grant(binding)}
    if binding.tier != "A":
        names.discard(binding.method)
    patterns = {text[:-1].replace("*", "[*]") + text[-1] for text in texts}
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def widen_decision(
    admits: Callable[[Exchange, Binding], bool], phases: tuple[Phase, ...] = tuple(Phase)
) -> Callable[[], None]:
    """The property, of a decision."""

    @seed(SEED)
    @settings(max_examples=length(300, 1000), deadline=None, database=None, phases=phases)
    @given(st.tuples(BINDINGS, BINDINGS), HELD, st.sampled_from(Assurance), st.sets(TEXTS, max_size=4), TEXTS)
    def holds(bindings: tuple[Binding, ...], scopes: set[str], known: Assurance, grants: set[str], more: str) -> None:
        for binding in bindings:
            without = admits(exchange(scopes, known, None), binding)
            narrowed = admits(exchange(scopes, known, grants), binding)
            assert without or not narrowed, "a grant gave what document and certificate do not"
            assert not narrowed or is_free(binding) or grant_names_binding(binding, grants), (
                "what no grant names was called"
            )
            assert narrowed or not without or not (is_free(binding) or grant_names_binding(binding, grants)), (
                "a grant gave nothing"
            )
            assert admits(exchange(scopes, known, {*grants, more}), binding) or not narrowed, "more grants took some"

    return holds


@pytest.mark.programme
def test_grants_never_widen() -> None:
    """For every set of grants, whatever the agent holds: what is called is granted, and was allowed before."""
    print("seed", SEED)
    widen_decision(authority.admits)()


def test_a_decision_that_lets_grants_give_is_caught() -> None:
    """The controls: one that asks granted callers for no scopes, one that forgets grants, one that matches too much."""
    print("seed", SEED)

    def generous(asked: Exchange, binding: Binding) -> bool:
        if asked.narrowings and asked.narrowings[0].allows(binding):
            return True
        return authority.admits(asked, binding)

    def forgetful(asked: Exchange, binding: Binding) -> bool:
        asked.narrowings = ()
        return authority.admits(asked, binding)

    def loose(asked: Exchange, binding: Binding) -> bool:
        asked.narrowings = tuple(
            GrantSet(CALLER, frozenset(f"{text.removesuffix('*')}*" for text in each.grants))
            for each in asked.narrowings
        )
        return authority.admits(asked, binding)

    for broken in (generous, forgetful, loose):
        with pytest.raises(BaseException) as raised:
            widen_decision(broken, (Phase.generate,))()
        assert "grant" in str(raised.value) or "grant" in repr(getattr(raised.value, "exceptions", "")), broken
