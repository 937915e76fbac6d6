"""The import table of design decision 17: who may import whom, and where Twisted may appear."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from pathlib import Path

import pytest

from agtphost.features import Contribution, Services
from agtphost.host.feature_loading import GROUP, HOST_FEATURES
from tests.house import mutual_pairs
from tests.rows import each_row
from tests.sources import nodes, parsed, statements_in

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent / "agtphost"

BASE = {"errors", "vocabulary", "extras"}
EVERYONE = BASE | {"iagtp"}
"""What each package may import, but those whose interfaces ``iagtp`` gives to the others: these have :data:`BASE`."""

MAY_IMPORT: dict[str, set[str]] = {
    "vocabulary": set(),
    "errors": {"vocabulary"},
    "extras": set(),
    "iagtp": BASE | {"wire", "identity", "contract", "dispatch", "handlers", "audit", "stores"},
    "wire": BASE,
    "identity": BASE,
    "contract": BASE | {"config", "identity"},
    "config": EVERYONE | {"identity"},
    # `identity` for what a record has signed: its index columns are made of that.
    "stores": BASE | {"identity"},
    "audit": BASE | {"identity", "stores"},
    # `config` lies below: who is told what the operator says takes the section of the file itself, not a copy of it.
    "protocols": EVERYONE | {"config", "wire", "identity"},
    # Which of several hosts serves: it knows the lease of a store, and neither what is served nor by which store.
    "cluster": EVERYONE | {"http", "metrics", "stores", "upstream"},
    # What workers run is named by text: they import what they are asked for, and no more.
    "compute": EVERYONE,
    "handlers": BASE | {"contract", "identity", "audit"},
    "upstream": EVERYONE | {"config", "contract", "handlers", "identity", "audit"},
    "adapters": EVERYONE | {"config", "contract", "handlers", "identity", "audit", "upstream"},
    "dispatch": BASE | {"compute", "config", "wire", "identity", "contract", "handlers", "audit"},
    # The one place where OpenTelemetry is spoken; where `[traces]` is not configured, it is never imported.
    "traces": EVERYONE | {"config", "dispatch", "features", "handlers"},
    "witnessing": EVERYONE | {"audit", "client", "config", "contract", "features", "identity", "methods", "stores"},
    "negotiation": EVERYONE | {"config", "wire", "identity", "contract", "dispatch", "handlers", "audit", "protocols"},
    "search": EVERYONE | {"config", "upstream"},
    "methods": EVERYONE
    | {
        "agis",
        "compute",
        "config",
        "wire",
        "identity",
        "contract",
        "dispatch",
        "handlers",
        "audit",
        "upstream",
        "search",
    },
    # `config` for `Client.of` alone: host.toml and profiles are read where they are asked for, and by one reader.
    # `contract` for how an endpoint looks as an MCP tool.
    # What agents are listed, by cards: it answers methods, from what adapters and the directory have.
    "registry": EVERYONE
    | {"adapters", "audit", "config", "contract", "dispatch", "features", "handlers", "http", "http_clients"}
    | {"identity", "methods", "protocols", "search", "upstream", "wire"},
    "client": EVERYONE | {"agis", "config", "contract", "upstream", "wire", "identity"},
    "http": EVERYONE | {"upstream", "contract", "identity", "wire", "protocols"},
    # The server side of A2A; the agents that this host calls are in `adapters`.
    "a2a": EVERYONE
    | {"adapters", "audit", "config", "contract", "dispatch", "features", "http", "http_clients", "identity"}
    | {"methods", "upstream", "wire"},
    "gateway": EVERYONE
    | {"config", "contract", "features", "http", "http_clients", "identity", "methods", "protocols", "wire"},
    # The views import less: PAGE_VIEWS.
    "page": EVERYONE | {"audit", "config", "contract", "features", "handlers", "http", "identity", "methods", "wire"},
    # What a host tells in numbers: it asks parts for what they are, and does not know whose they are.
    "metrics": EVERYONE | {"audit", "config", "features", "http"},
    # The server side of MCP, which a bridge and a front of the host have in common: what it needs of either is a link.
    # What it needs of a host is in `mcp/feature.py` alone.
    "mcp": EVERYONE
    | {"audit", "client", "config", "dispatch", "features", "http", "http_clients", "identity", "protocols", "wire"},
    "bridge": EVERYONE | {"client", "contract", "http", "identity", "mcp", "protocols"},
    # Documents of a grammar: nothing of a host is in them but how its contracts are checked.
    "agis": EVERYONE | {"contract", "search"},
    # What it writes it takes from the ledger and from the calls that run.
    "logs": EVERYONE | {"audit", "handlers", "http"},
    # What its own distribution has of the host, module by module: tests/supply/test_conformance.py.
    "conformance": {"vocabulary", "contract"},
    "cli": EVERYONE
    | {
        "agis",
        "bridge",
        "conformance",
        "client",
        "config",
        "identity",
        "contract",
        "handlers",
        "audit",
        "stores",
        "http",
    }
    # `agtp check` rehearses a start with the host's own code: one list of what can be in the way, and not two.
    # `agtp agis publish` describes the host as DISCOVER does.
    # `agtp agis validate --similarity` measures by the models that searches have.
    | {"host", "mcp", "methods", "search"},
    "host": EVERYONE
    | {"config", "wire", "identity", "contract", "dispatch", "handlers", "methods", "negotiation"}
    | {
        "adapters",
        "audit",
        "stores",
        "upstream",
        "protocols",
        "http",
        "client",
        "search",
        "compute",
        "cluster",
        "features",
        "http_clients",
        "logs",
    },
    # What fronts have in common that are features, or are to become some; `http` itself knows no configuration.
    "http_clients": EVERYONE | {"config", "dispatch", "http", "identity", "protocols", "wire"},
    "tap": EVERYONE | {"config", "host", "logs"},
    # What a feature is built from and what it adds, of ours as of others: it knows types, and no part of the host.
    "features": EVERYONE
    | {"audit", "config", "contract", "dispatch", "handlers", "http", "identity", "search", "stores"},
    # The names that packages of others import; nothing of the host imports it.
    "plugin": EVERYONE
    | {"audit", "config", "contract", "dispatch", "features", "handlers", "http", "identity", "stores"},
    # Nothing imports it but tests: a host in memory, made of everything.
    "testing": EVERYONE
    | {"host", "config", "contract", "client", "handlers", "identity", "audit", "stores", "protocols", "wire"},
    "__init__": {"handlers"},
}

PAGE_VIEWS = EVERYONE | {"audit", "http", "identity", "wire"}
"""
What the page imports but for its feature and its methods: a view shows and does what the dispatcher answers. ``audit``
is for the filter language, which has one parser.
"""

FEATURES = {"a2a", "gateway", "mcp", "metrics", "page", "registry", "traces", "witnessing"}
"""Rooms that the host takes as features, by their entry points."""

TWISTED_FREE = {"agis", "vocabulary", "wire", "identity", "contract", "config", "errors", "extras", "iagtp"}

REACTOR_ALLOWED = {"tap", "cli", "testing"}
"""``testing`` runs it for handlers that wait for it, and does not install it before one does."""


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def room_of(path: Path) -> str:
    """The package (or top-level module) that a file belongs to."""
    relative = path.relative_to(ROOT)
    return relative.parts[0].removesuffix(".py")


def imports(source: str) -> Iterator[str]:
    """Every imported dotted name, those that only type checkers see included."""

    def walk(node: ast.AST) -> Iterator[str]:
        for child in statements_in(node):
            if isinstance(child, ast.Import):
                yield from (alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, "imports are absolute"
                yield child.module or ""
                yield from (f"{child.module}.{alias.name}" for alias in child.names)
            else:
                yield from walk(child)

    yield from walk(parsed(source))


def violations(room: str, source: str, allowed: Collection[str] | None = None) -> list[str]:
    """
    What ``source``, placed in ``room``, imports against the table.

    :param allowed: what it may import, where that is not what the room may.
    """
    found = []
    allowed = MAY_IMPORT[room] if allowed is None else allowed
    for name in imports(source):
        parts = name.split(".")
        if parts[0] == "agtphost" and len(parts) > 1:
            target = parts[1]
            if target != room and target not in allowed and (ROOT / target).exists() | (ROOT / f"{target}.py").exists():
                found.append(f"{room} imports {name}")
        if parts[0] == "twisted":
            if room in TWISTED_FREE:
                found.append(f"{room} imports {name}")
            if name in {"twisted.internet.reactor"} and room not in REACTOR_ALLOWED:
                found.append(f"{room} imports the reactor")
    return found


@each_row("path", modules, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_table(path: Path) -> None:
    """Each module imports only what its room allows."""
    assert violations(room_of(path), path.read_text()) == []


def test_views_of_the_page_ask_the_dispatcher() -> None:
    """Neither stores nor methods are within their reach; the control: a view that imports a method."""
    views = [each for each in (ROOT / "page").rglob("*.py") if each.stem not in ("feature", "access")]
    assert [violations("page", each.read_text(), PAGE_VIEWS) for each in views] == [[]] * len(views)
    assert violations("page", "from agtphost.methods.inspection.traffic import Traffic", PAGE_VIEWS)


def test_no_two_rooms_import_each_other() -> None:
    """One of the arrows of each such pair would lead upward; the table, which every module follows, has none."""
    assert mutual_pairs(MAY_IMPORT) == []


def test_the_table_names_every_room() -> None:
    """A new package cannot appear without saying what it may import."""
    rooms = {room_of(path) for path in modules()}
    assert rooms <= set(MAY_IMPORT)


def known_features(table: Mapping[str, Collection[str]]) -> list[str]:
    """Rooms that may import a feature, of the host and of the features."""
    return [f"{room}: {each}" for room in ("host", *sorted(FEATURES)) for each in sorted(FEATURES & {*table[room]})] + [
        f"{room}: host" for room in sorted(FEATURES) if "host" in table[room]
    ]


def test_features_know_neither_the_host_nor_each_other() -> None:
    """Nor does the host know one: it takes what they contribute."""
    assert known_features(MAY_IMPORT) == []


def test_a_feature_that_is_known_is_noticed() -> None:
    """The control: one that the host imports, and one that imports the host."""
    assert known_features({**MAY_IMPORT, "host": {"traces"}, "traces": {"host"}}) == ["host: traces", "traces: host"]


def stray_points(points: Mapping[str, str]) -> list[str]:
    """Entry points that are none of the host's features, features without one, and rooms that are not known as such."""
    names = [f"{each}: no entry point" for each in HOST_FEATURES if each not in points]
    names += [f"{each}: no feature of the host" for each in points if each not in HOST_FEATURES]
    rooms = {value.split(".")[1] for value in points.values()}
    return names + [f"{room}: not in FEATURES" for room in sorted(rooms - FEATURES)]


def test_the_host_has_an_entry_point_for_each_of_its_features() -> None:
    """Each in its own room; the host would refuse a section whose feature is not installed."""
    project = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]
    points = project["entry-points"][GROUP]
    assert stray_points(points) == [] and len(points) == len(FEATURES)


def test_a_stray_entry_point_is_noticed() -> None:
    """The control: one that is not listed, in a room of the host, and one that is missing."""
    points = dict.fromkeys(HOST_FEATURES[1:], "agtphost.metrics.feature:MetricsFeature")
    assert stray_points({**points, "page": "agtphost.host.page:Page"}) == [
        f"{HOST_FEATURES[0]}: no entry point",
        "page: no feature of the host",
        "host: not in FEATURES",
    ]


MOST_FIELDS = {Services: 11, Contribution: 9}
"""What most features do not need, they build of their own."""


def test_features_are_given_few_things() -> None:
    """Neither bag grows into one of everything."""
    assert [each.__name__ for each, most in MOST_FIELDS.items() if len(fields(each)) > most] == []


@each_row(
    ("room", "source"),
    [
        ("wire", "import twisted.internet.defer"),
        ("vocabulary", "from agtphost.errors import Refusal"),
        ("protocols", "from agtphost.dispatch.dispatcher import Dispatcher"),
        ("dispatch", "from agtphost.stores import sqlite"),
        ("client", "def f():\n    from agtphost.host import assemble"),
        ("host", "from twisted.internet import reactor"),
        ("host", "def f():\n    from agtphost.traces.service import TraceService"),
        ("host", "from agtphost.metrics.call_counts import CallCounts"),
        ("host", "from agtphost.witnessing.feature import witness_bindings"),
        ("host", "from agtphost.page.feature import mask_configuration"),
        ("host", "from agtphost.mcp.front import McpFrontResource"),
        ("host", "from agtphost.gateway.translation import TranslationRules"),
        ("host", "from agtphost.registry.catalogue import Cards"),
        ("host", "from agtphost.a2a.front import A2aFrontFacts"),
        ("metrics", "from agtphost.traces.service import TraceService"),
        ("http", "from agtphost.dispatch.dispatcher import Dispatcher"),
        ("http", "from agtphost.config import load"),
        ("bridge", "from agtphost.adapters.mcp.versions import Negotiated"),
    ],
)
def test_a_forbidden_import_is_noticed(room: str, source: str) -> None:
    """The control: sources that break the table are caught."""
    assert violations(room, source)


def contents(init: Path) -> tuple[set[str], set[str]]:
    """
    A package's modules and sub-packages that the text of its ``__init__`` does not name, and what it names that is not.
    """
    folder, text = init.parent, ast.get_docstring(parsed(init.read_text())) or ""
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    modules |= {path.parent.name for path in folder.glob("*/__init__.py")}
    own = "agtphost" if folder == ROOT else "agtphost." + ".".join(folder.relative_to(ROOT).parts)
    roles = re.findall(r":(?:mod|class|func|data):`~?([A-Za-z0-9_.]+)`", text)
    inside = {name.removeprefix(own).split(".")[1] for name in roles if name.startswith((".", f"{own}."))}
    return modules - inside - set(re.findall(r"``([a-z0-9_]+)``", text)), inside - modules


PLACES = [str(path.parent.relative_to(ROOT)) for path in sorted(ROOT.rglob("__init__.py"))]


@each_row("place", PLACES, ids=str)
def test_a_package_is_its_own_table_of_contents(place: str) -> None:
    """Its text names each of its modules, and none that is gone."""
    missing, gone = contents(ROOT / place / "__init__.py")
    assert (missing, gone) == (set(), set())


def test_a_module_that_is_not_named_is_noticed(tmp_path: Path) -> None:
    """The control, in a copy of a package: one more module, and one that is gone."""
    copy = tmp_path / "wire"
    copy.mkdir()
    text = (ROOT / "wire" / "__init__.py").read_text().replace("agtphost.wire.", ".")
    (copy / "__init__.py").write_text(text)
    for name in ("headers", "events", "grammar", "readers", "heads", "codec", "quic", "planted"):
        (copy / f"{name}.py").touch()
    folder = copy.resolve()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.ROOT", folder.parent)
        assert contents(folder / "__init__.py") == ({"planted"}, {"connection"})


def test_modules_are_read_in_one_sitting() -> None:
    """No module over 500 lines, and half of them under 150."""
    sizes = sorted(len(path.read_text().splitlines()) for path in modules())
    assert sizes[-1] <= 500
    assert sizes[len(sizes) // 2] < 150


def long_functions(source: str, most: int = 80) -> list[str]:
    """Functions and methods, nested ones too, with more lines from their ``def`` to their end than that."""
    return [
        f"{node.name}: {lines} lines"
        for node in nodes(source)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > most
    ]


def test_functions_are_seen_at_one_glance() -> None:
    """None has over 80 lines, its text among them."""
    found = [f"{path.relative_to(ROOT)}:{each}" for path in modules() for each in long_functions(path.read_text())]
    assert found == []


def test_a_long_function_is_noticed() -> None:
    """The control: a coroutine inside of a method, of 81 lines and of 80."""
    for lines, found in ((81, ["inner: 81 lines"]), (80, [])):
        body = "\n".join(["            pass"] * (lines - 1))
        outer = "\n".join(["        pass"] * 10)
        assert long_functions(f"class A:\n    def outer(self):\n{outer}\n    async def inner():\n{body}") == found
    assert long_functions("def outer():\n    def inner():\n" + "        pass\n" * 80) == [
        "outer: 82 lines",
        "inner: 81 lines",
    ]


def spread_displays(source: str) -> int:
    """The number of calls with an argument such as ``*(a, b)``: it saves lines, and hides what each argument is for."""
    calls = [node for node in nodes(source) if isinstance(node, ast.Call)]
    spread = [[each.value for each in call.args if isinstance(each, ast.Starred)] for call in calls]
    return sum(any(isinstance(value, (ast.Tuple, ast.List)) for value in values) for values in spread)


def test_calls_spread_no_tuple_that_they_write_out() -> None:
    """But for three calls about cards."""
    found = {path.relative_to(ROOT).as_posix(): spread_displays(path.read_text()) for path in modules()}
    assert sum(found.values()) <= 3, {name: number for name, number in found.items() if number}


def test_a_spread_tuple_is_noticed() -> None:
    """The control: in a call, and neither a name that is spread nor a tuple of several."""
    assert spread_displays("f(*(a, b), *c)\nf(*c)\nd = (*(a, b), c)") == 1


def needed(name: str, source: str, names: Collection[str]) -> set[str]:
    """The modules that a module needs: at import, inside of functions, and for its types alone."""
    found: set[str] = set()
    for node in nodes(source):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & set(names) or {node.module}
    return (found & set(names)) - {name}


def circles(needs: Mapping[str, Collection[str]]) -> list[str]:
    """Modules that need themselves by way of others: what is left once whoever needs nobody is taken away."""
    left = {name: set(others) for name, others in needs.items()}
    while free := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in free}
    # And whoever is needed by nobody of these only leads to a circle.
    while idle := left.keys() - set().union(*left.values()):
        left = {name: others for name, others in left.items() if name not in idle}
    return sorted(left)


def test_no_modules_import_each_other_in_a_circle() -> None:
    """However far around: whoever changes one would have to know them all."""
    sources = {
        "agtphost." + ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path.read_text()
        for path in modules()
        if path != ROOT / "__init__.py"
    }
    assert circles({name: needed(name, source, sources) for name, source in sources.items()}) == []


def test_a_circle_is_noticed() -> None:
    """The control: also where one of the imports is for types alone, or inside a function."""
    sources = {
        "a": "import b",
        "b": "if TYPE_CHECKING:\n    import c\nimport d",
        "c": "def f():\n    import a",
        "d": "",
        "e": "import a",
    }
    assert circles({name: needed(name, source, sources) for name, source in sources.items()}) == ["a", "b", "c"]


OLD_MODULES: Mapping[str, str] = {
    "adapters/mcp": "desk asking interviews waiting_calls feed dialogue eras offers offer_lists small_actions turns",
    "adapters/web": "upkeep endings links",
    "audit": "held",
    "bridge": "pasting rounds watching",
    "cli": "reach",
    "client": "greetings",
    "http": "gateway gateway_documents gateway_events translation tool_calls viewer_files a2a_card a2a_events "
    "a2a_front a2a_legacy a2a_messages a2a_relay a2a_rest a2a_rpc a2a_runs",
    "host": "uptake handling materials traces metrics witnesses page http_clients mcp_front gateway own_documents "
    "cards card_calls card_peers card_registry card_watch registry_http periodic search_engines merchant standard "
    "a2a_front clock_watch observers shared_numbers floor contract_cleanup live_directory "
    "agis access_log call_events json_log log_throttle modules turn_executor quic_warnings file_access",
    "methods": "page oversight hops delegated_task delegated_hop delegated_work",
    "negotiation": "turns attempts sweep",
    "protocols": "prompt",
}
OLD_CLASSES = """
Desk Carried Asking Interview WaitingCalls Feed Dialogue Turns LineQuota Comparing Upkeep Endings Held HeldTable
Sightings Standstill Holdings Wish Turn Gate Workshop Market Materials Keeping Reach Believing Unbelievable
Surroundings Happening Scene Stage Play
"""
"""What things were called before they had the field's names."""


def old_names(files: Mapping[str, str]) -> list[str]:
    """Modules and classes that have such a name: by path below the package, without ``.py``."""
    found = [
        name
        for name in files
        for room, names in OLD_MODULES.items()
        if name in {f"{room}/{old}" for old in names.split()}
    ]
    for name, source in files.items():
        classes = {node.name for node in nodes(source) if isinstance(node, ast.ClassDef)}
        found += [f"{name}:{each}" for each in sorted(classes & set(OLD_CLASSES.split()))]
    return found


def test_things_have_the_names_of_the_field() -> None:
    """A Twisted or MCP engineer knows each word."""
    files = {str(path.relative_to(ROOT).with_suffix("")): path.read_text() for path in modules()}
    assert old_names(files) == []


def test_an_old_name_is_noticed() -> None:
    """The control: a module, and a class."""
    files = {"client/greetings": "", "audit/state": "class Held:\n    pass", "audit/drafts": "class Draft:\n    pass"}
    assert old_names(files) == ["client/greetings", "audit/state:Held"]
    assert old_names({"host/traces": ""}) == ["host/traces"], "a module that became a feature"
