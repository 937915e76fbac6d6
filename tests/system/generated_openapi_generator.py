"""Calls a tool by a client that ``openapi-generator`` made: ``FOLDER URL TOKEN``; prints what came of it."""

from __future__ import annotations

import importlib
import inspect
import json
import sys

folder, url, token = sys.argv[1:]
sys.path.insert(0, folder)
generated = importlib.import_module("openapi_client")
client = generated.ApiClient(generated.Configuration(host=url, access_token=token))
api = generated.FetchApi(client)
calls = [
    function
    for each in (generated.FetchApi, generated.FilesApi)
    for name, function in inspect.getmembers(each, inspect.isfunction)
    if not name.startswith("_") and not name.endswith(("_with_http_info", "_without_preload_content"))
]
untyped = [call.__name__ for call in calls if "Input" not in str([*inspect.signature(call).parameters.values()][1])]
page = api.fetch_fetch(generated.FetchFetchInput(address="shelf", limit=3)).result.tool_response.structured_content
chosen = api.fetch_choose(generated.FetchChooseInput(answer="Yes", rows=[1]))
print(
    json.dumps(
        {
            "functions": len(calls),
            "untyped": untyped,
            "page": [type(page).__name__, page.address, page.words],
            "chosen": chosen.result.tool_response.structured_content.result,
        }
    )
)
