"""Calls each tool by a client that was generated from the document: ``FOLDER URL TOKEN``; prints what came of it."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from types import ModuleType
from typing import Any

folder, url, token = sys.argv[1:]
sys.path.insert(0, folder)
client = importlib.import_module("generated").AuthenticatedClient(base_url=url, token=token)
models = importlib.import_module("generated.models")
fetch = importlib.import_module("generated.api.fetch.fetch_fetch")
files = importlib.import_module("generated.api.files.files_read_file")

page = fetch.sync(client=client, body=models.FetchFetchInput(address="shelf", limit=3)).result.tool_response
content = page.structured_content
text = files.sync(client=client, body=models.FilesReadFileInput(path="welcome.txt")).result.tool_response
wrong = fetch.sync_detailed(client=client, body=models.FetchFetchInput(address=5))


def modules(server: str) -> list[ModuleType]:
    """The modules of one server's tools."""
    package = importlib.import_module(f"generated.api.{server}")
    return [
        importlib.import_module(f"{package.__name__}.{each.name}") for each in pkgutil.iter_modules(package.__path__)
    ]


def called(tool: ModuleType) -> tuple[str, str]:
    """The path that a function calls, and what kind of answer it returns."""
    asked: list[str] = []
    client.get_httpx_client().event_hooks["request"] = [lambda request: asked.append(request.url.raw_path.decode())]
    given: dict[str, Any] = {"address": "x", "path": "welcome.txt", "name": "n", "text": "t", "query": "t"}
    name = tool.__name__.rpartition(".")[2]
    model = getattr(models, "".join(part.capitalize() for part in name.split("_")) + "Input")
    kwargs = {key: value for key, value in given.items() if key in model.__annotations__}
    answer = tool.sync(client=client, body=model(**kwargs))
    return asked[0], type(answer).__name__


print(
    json.dumps(
        {
            "page": [type(content).__name__, content.address, content.words, content.links[0].to],
            "text": text.content[0].text[:7],
            "wrong": [int(wrong.status_code), wrong.parsed.reason],
            "called": dict(called(each) for server in ("fetch", "files") for each in modules(server)),
        }
    )
)
