"""What recipes lead to: scopes, assurance, impact, circles (API-119, API-125, API-128, T-SC-50 to T-SC-60)."""

from __future__ import annotations

from dataclasses import replace

from agtphost.contract.endpoint import Endpoint
from agtphost.contract.recipes.graph import RecipeGraph
from agtphost.contract.recipes.selection import settle
from agtphost.contract.reserved import RESERVED
from agtphost.errors import Problem
from agtphost.identity.peer import Assurance
from tests.contract.recipes import endpoint, read, recipe_text, sound
from tests.rows import each_row

READ = endpoint("QUERY /library/{isbn}", scopes=["documents:query"])
BOOK = endpoint("BOOK /room", scopes=["booking:room"], impact="irreversible", idempotent=False, assurance="certificate")


def settled(recipes: list, endpoints: list) -> tuple:  # type: ignore[type-arg]
    """The book, endpoints by name, and problems."""
    problems: list[Problem] = []
    book, kept = settle(recipes, endpoints, RESERVED, problems)
    return book, {one.name: one for one in kept}, [str(problem) for problem in problems]


def trip(**changes: object) -> object:
    members = {"recipe": "trip", "impact": "irreversible", "idempotent": False, **changes}
    return endpoint("PLAN /trip", **members)  # type: ignore[arg-type]


def test_scopes_are_the_union_of_the_steps() -> None:
    """API-119, API-128, T-SC-50: the endpoint demands what its steps do, and the surest identity of them."""
    recipes = sound(recipe_text("trip", "QUERY /library/{isbn}", "BOOK /room"))
    book, endpoints, problems = settled(recipes, [READ, BOOK, trip(scopes=["plans:make"])])
    assert problems == []
    plan = endpoints["PLAN /trip"]
    assert plan.required_scopes == ("plans:make", "documents:query", "booking:room")
    assert plan.min_assurance is Assurance.CERTIFICATE
    assert book.find("trip").required_scopes == ("documents:query", "booking:room")
    assert plan.projection()["handler"] == {"type": "composition"}


def test_a_diamond_and_a_parameter_reach_everything() -> None:
    """T-SC-51, T-SC-52: two ways to one endpoint count once; a parameter reaches literal endpoints too."""
    recipes = sound(
        recipe_text("left", "QUERY /library/{isbn}"),
        recipe_text("right", "QUERY /library/{isbn}"),
        recipe_text("top", "CHECK /left", "CHECK /right"),
    )
    endpoints = [
        READ,
        endpoint("QUERY /library/rare", scopes=["vault:open"]),
        endpoint("CHECK /left", recipe="left"),
        endpoint("CHECK /right", recipe="right"),
        endpoint("PLAN /top", recipe="top"),
    ]
    _, kept, problems = settled(recipes, endpoints)
    assert problems == []
    assert kept["PLAN /top"].required_scopes == ("documents:query", "vault:open")


def test_recursion_is_refused_whatever_its_way() -> None:
    """T-SC-53: itself, over another recipe, and through a parameter; endpoints of such recipes go too."""
    recipes = sound(
        recipe_text("self", "PLAN /self"),
        recipe_text("a", "PLAN /b"),
        recipe_text("b", "PLAN /a"),
        recipe_text("wild", "CHECK /{anything}"),
        recipe_text("fine", "QUERY /library/{isbn}"),
    )
    endpoints = [READ, endpoint("CHECK /wild", recipe="wild"), endpoint("PLAN /fine", recipe="fine")]
    endpoints += [endpoint(f"PLAN /{name}", recipe=name) for name in ("self", "a", "b")]
    book, kept, problems = settled(recipes, endpoints)
    assert set(kept) == {"QUERY /library/{isbn}", "PLAN /fine"}
    assert [recipe.name for recipe in book.all()] == ["fine"]
    circles = [problem for problem in problems if "calls itself" in problem]
    assert len(circles) == 4
    assert any("a -> PLAN /b -> b -> PLAN /a -> a" in circle for circle in circles)
    assert all(circle.startswith("recipes.toml:") for circle in circles)


def test_ten_recipes_deep_and_no_deeper() -> None:
    """T-SC-54: the depth that calls inside calls may have, and one more."""
    for depth, fine in ((10, True), (11, False)):
        texts = [recipe_text("r1", "QUERY /library/{isbn}")]
        texts += [recipe_text(f"r{n}", f"PLAN /p{n - 1}") for n in range(2, depth + 1)]
        endpoints = [READ] + [endpoint(f"PLAN /p{n}", recipe=f"r{n}") for n in range(1, depth + 1)]
        _, kept, problems = settled(sound(*texts), endpoints)
        assert (problems == []) is fine
        if fine:
            assert kept["PLAN /p10"].required_scopes == ("documents:query",)
        else:
            assert "more than 10 recipes" in problems[0]


def test_a_step_that_nothing_answers_is_refused_with_its_line() -> None:
    """An unknown path, a known path with another method (said), and retries of what is not idempotent."""
    recipes = sound(
        recipe_text("none", "QUERY /nowhere"),
        recipe_text("other", "QUERY /room"),
        recipe_text("again", "BOOK /room\nretries = 1"),
    )
    _, _, problems = settled(recipes, [READ, BOOK])
    assert any("step 1 calls QUERY /nowhere, which no endpoint answers" in problem for problem in problems)
    assert any("the path takes: BOOK /room" in problem for problem in problems)
    assert any("retries, but BOOK /room is not idempotent" in problem for problem in problems)
    assert all(problem.startswith("recipes.toml:") and ":0:" not in problem for problem in problems)


@each_row(
    ("changes", "said"),
    [
        ({"recipe": "unknown"}, "its recipe unknown is not registered"),
        ({"recipe": "trip@7"}, "its recipe trip@7 is not registered"),
        ({"impact": "informational"}, "its impact is informational, but a step of trip is irreversible"),
        ({"idempotent": True}, "declared idempotent, but a step of trip is not"),
    ],
)
def test_a_composition_that_says_what_is_not_so(changes: dict[str, object], said: str) -> None:
    """API-125: an unknown recipe; and a semantic block that its steps contradict."""
    recipes = sound(recipe_text("trip", "BOOK /room"))
    _, kept, problems = settled(recipes, [BOOK, trip(**changes)])
    assert "PLAN /trip" not in kept
    assert any(said in problem and problem.startswith("endpoints.toml:") for problem in problems)


def test_names_mean_the_last_version_and_versions_themselves() -> None:
    """AGTP-API section 10.5: versions are opaque, so the order of the file decides."""
    texts = recipe_text("a", "QUERY /library/{isbn}", version="9"), recipe_text("a", "BOOK /room", version="10")
    recipes = sound(*texts)
    book, _, problems = settled(recipes, [READ, BOOK])
    assert problems == []
    assert book.find("a").version == "10" and book.find("a@9").version == "9" and book.find("a@8") is None
    assert [recipe.identifier for recipe in book.current()] == ["a@10"]
    assert len(book.all()) == 2


def test_the_hosts_own_bindings_are_targets() -> None:
    """A step may EXECUTE a tool; what that needs is decided when its input is known."""
    recipes = sound(recipe_text("tool", "EXECUTE /mcp/files"))
    graph = RecipeGraph(recipes, [], RESERVED)
    assert list(graph.faults()) == []
    assert graph.needs(recipes[0]).required_scopes == () and not graph.needs(recipes[0]).idempotent


def test_a_recipe_made_at_run_time_is_measured_like_any_other() -> None:
    """API-119: what synthesis makes is checked against the same endpoints, and is not remembered."""
    book, _, _ = settled(sound(recipe_text("a", "QUERY /library/{isbn}")), [READ, BOOK])
    (made,) = sound(recipe_text("made", "BOOK /room"))
    assert book.needs(made).required_scopes == ("booking:room",)
    (other,) = sound(recipe_text("made", "QUERY /library/{isbn}"))
    assert book.needs(other).required_scopes == ("documents:query",)


def approved(one: Endpoint) -> Endpoint:
    return replace(one, approval=True)


def test_a_composition_needs_the_approval_of_its_steps() -> None:
    """Through recipes inside recipes, through a parameter, and where the recipe itself says so; nothing else does."""
    recipes = sound(
        recipe_text("inner", "BOOK /room"),
        recipe_text("outer", "PLAN /inner"),
        recipe_text("wild", "BOOK /{anything}"),
        recipe_text("said", "QUERY /library/{isbn}", more='approval = "required"'),
        recipe_text("free", "QUERY /library/{isbn}"),
    )
    grave = {"impact": "irreversible", "idempotent": False}
    endpoints = [
        READ,
        approved(BOOK),
        *(endpoint(f"PLAN /{name}", recipe=name, **grave) for name in ("inner", "outer", "wild", "said", "free")),  # type: ignore[arg-type]
    ]
    book, kept, problems = settled(recipes, endpoints)
    assert problems == []
    needing = {name for name, one in kept.items() if one.approval}
    assert needing == {"BOOK /room", "PLAN /inner", "PLAN /outer", "PLAN /wild", "PLAN /said"}
    assert {name for name, one in kept.items() if one.definition} == needing
    assert {recipe.name for recipe in book.all() if book.needs(recipe).approval} == {"inner", "outer", "wild", "said"}
    assert kept["PLAN /outer"].projection()["approval"] == "required"
    assert "approval" not in kept["PLAN /free"].projection()


def test_a_definition_is_of_all_that_is_led_to() -> None:
    """The same files give the same digest; another step, or another endpoint at the end of the way, gives another."""

    def definition(inner: str = "BOOK /room", last: Endpoint = BOOK) -> str:
        recipes = sound(recipe_text("inner", inner), recipe_text("outer", "PLAN /inner"))
        grave = {"impact": "irreversible", "idempotent": False}
        further = [endpoint(f"PLAN /{name}", recipe=name, **grave) for name in ("inner", "outer")]  # type: ignore[arg-type]
        _, kept, problems = settled(recipes, [READ, approved(last), *further])
        assert problems == []
        return str(kept["PLAN /outer"].definition)

    first = definition()
    assert first == definition()
    assert len(first) == 64
    assert definition(last=replace(BOOK, description="Something else.")) != first
    assert definition(last=replace(BOOK, handler=replace(BOOK.handler, function="a.c"))) != first
    assert definition('BOOK /room\nwhen = "=`true`"') != first


def test_what_an_approval_may_say() -> None:
    """``required``, or nothing."""
    _, problems = read(recipe_text("x", "QUERY /library/{isbn}", more='approval = "never"'))
    assert [problem.message for problem in problems] == ["recipe x: approval has the unknown value 'never'"]
