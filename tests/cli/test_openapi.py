"""``agtp openapi``: files in, files out, and what is said about them."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pytest

from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint_loading import load_endpoints
from agtphost.handlers.context import EndpointContext, EndpointError
from agtphost.handlers.function import resolve
from agtphost.vocabulary.catalog import Catalog
from tests.cli.conftest import Run
from tests.cli.server import AgtpServer, Answer
from tests.contract.test_manifest_validation import sound
from tests.contract.test_openapi_export import structure_faults
from tests.contract.test_openapi_import import SHOP

ETC = Path(__file__).resolve().parents[2] / "etc"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An OpenAPI document in the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "shop.yaml"
    path.write_text(SHOP)
    return path


def test_import_writes_files_that_no_host_loads(run: Run, shop: Path) -> None:
    """One .toml.review for each operation; the host's loader sees nothing in the directory (API-148)."""
    done = run("openapi", "import", str(shop), "--out", "endpoints")
    assert done.exit_code == 0, done.output
    assert "The host does not load these files" in done.stdout
    assert "review [path] the segment 'order' is now 'orders'" in done.stdout
    written = sorted(path.name for path in Path("endpoints").iterdir())
    assert len(written) == 4
    assert all(name.endswith(".toml.review") for name in written)
    assert load_endpoints(Path("endpoints"), Rules(catalog=Catalog.load())) == ([], [])


def test_import_overwrites_nothing(run: Run, shop: Path) -> None:
    """A second run is exit 2 and changes no file."""
    assert run("openapi", "import", str(shop), "--out", "endpoints").exit_code == 0
    target = next(Path("endpoints").iterdir())
    target.write_text("mine")
    assert run("openapi", "import", str(shop), "--out", "endpoints").exit_code == 2
    assert target.read_text() == "mine"


def test_import_reads_standard_input_and_prints_json(run: Run, shop: Path) -> None:
    """The summary for machines: endpoints, renamed paths, losses; nothing is written."""
    done = run("openapi", "import", "-", "--json", input=SHOP)
    answer = json.loads(done.stdout)
    assert answer["loadable"] is False
    assert {item["method"] for item in answer["endpoints"]} == {"QUERY", "REMOVE", "CANCEL", "CREATE"}
    assert answer["renamed_paths"][0] == {"from": "/order/{order-id}", "to": "/orders/{order_id}"}
    assert answer["lost"]["callbacks"] == 1
    assert list(Path().iterdir()) == [Path("shop.yaml")]


@pytest.mark.parametrize("text", ["swagger: '2.0'", "a: [", "", "\x00"])
def test_import_refuses_what_is_no_openapi(run: Run, shop: Path, text: str) -> None:
    """Exit 2, with the reason."""
    shop.write_text(text)
    done = run("openapi", "import", str(shop))
    assert done.exit_code == 2
    assert "shop.yaml" in done.stderr


def test_export_from_files_needs_no_running_host(run: Run, tmp_path: Path) -> None:
    """The sample deployment's endpoints, in a document that is sound OpenAPI (API-149)."""
    shutil.copytree(ETC, tmp_path / "etc", ignore=shutil.ignore_patterns("state", "__pycache__"))
    config = str(tmp_path / "etc/host.toml")
    done = run("openapi", "export", "--config", config)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert list(structure_faults(document)) == []
    assert set(document["paths"]) == {"/library/{isbn}", "/reading", "/room", "/text"}
    assert document["info"]["x-agtp-manifest"]["href"] == "agtp://127.0.0.1:4480/"
    assert "lost: the HTTP address is unknown" in done.stderr
    target = tmp_path / "openapi.json"
    assert run("openapi", "export", "--config", config, "-o", str(target)).exit_code == 0
    assert json.loads(target.read_text()) == document
    assert run("openapi", "export", "--config", config, "-o", str(target)).exit_code == 2


def test_export_names_faulty_endpoints(run: Run, tmp_path: Path) -> None:
    """A deployment with a bad endpoint is exit 2, with file and line."""
    shutil.copytree(ETC, tmp_path / "etc", ignore=shutil.ignore_patterns("state", "__pycache__"))
    (tmp_path / "etc/endpoints/bad.toml").write_text('method = "GET"\n')
    done = run("openapi", "export", "--config", str(tmp_path / "etc/host.toml"))
    assert done.exit_code == 2
    assert "bad.toml:1" in done.stderr


def test_export_asks_a_host_for_its_manifest(run: Run, server: AgtpServer) -> None:
    """By ``DISCOVER /`` without an Agent-ID; --json holds document and losses."""
    server.answers["DISCOVER", "/"] = Answer(sound())
    done = run("openapi", "export", "-", "--json", "--server-url", "https://api.acme.com")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["operations"] == 2
    assert answer["document"]["servers"] == [{"url": "https://api.acme.com"}]
    assert answer["document"]["info"]["x-agtp-manifest"]["href"] == f"{server.uri}/"
    assert "Agent-ID" not in server.seen[0].request.headers


def test_export_refuses_a_faulty_manifest(run: Run, server: AgtpServer) -> None:
    """What is no manifest is not rendered."""
    server.answers["DISCOVER", "/"] = Answer({"endpoints": []})
    assert run("openapi", "export", "-").exit_code == 3
    Path("m.json").write_text("{}")
    assert run("openapi", "export", "agtp://a.example", "--manifest", "m.json").exit_code == 2
    assert run("openapi", "export", "--manifest", "m.json").exit_code == 2


def test_stubs_are_modules_that_endpoints_load_with(run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-152: one function for each operation; it imports, it is what the endpoint names, and it says it is a stub."""
    done = run("openapi", "import", str(shop), "--out", "endpoints", "--stubs", "handlers_shop.py")
    assert done.exit_code == 0, done.output
    for path in Path("endpoints").iterdir():
        path.rename(path.with_suffix(""))
    loaded, problems = load_endpoints(Path("endpoints"), Rules(catalog=Catalog.load()))
    assert len(loaded) == 4 and problems == []
    monkeypatch.syspath_prepend(str(shop.parent))
    for endpoint in loaded:
        function = resolve(endpoint.handler.function)
        assert endpoint.name in (function.__doc__ or "")
        with pytest.raises(EndpointError) as raised:
            function(EndpointContext(input={}, method=endpoint.method, path=endpoint.path))
        assert raised.value.name in endpoint.errors
    assert run("openapi", "import", str(shop), "--stubs", "handlers_shop.py").exit_code == 2
    assert run("openapi", "import", str(shop), "--stubs", "no module.py").exit_code == 2


HOSTILE_TITLE = SHOP.replace("title: Shop", 'title: "\\"\\"\\" + __import__(\'os\').abort() #\\\\"', 1)


def test_no_text_of_a_document_becomes_code(run: Run, shop: Path) -> None:
    """T-IN: what a title or a description says stays inside the docstring."""
    shop.write_text(HOSTILE_TITLE.replace("summary: Get one order.", 'summary: \'"""; raise SystemExit(1)\''))
    assert run("openapi", "import", str(shop), "--stubs", "hostile.py").exit_code == 0
    tree = ast.parse(Path("hostile.py").read_text())
    kinds = {type(node) for node in tree.body}
    assert kinds <= {ast.Expr, ast.ImportFrom, ast.FunctionDef}
    assert all(len(node.body) == 2 for node in tree.body if isinstance(node, ast.FunctionDef))
