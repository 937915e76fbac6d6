"""Calls a gateway by a client that was generated from its document: ``FOLDER URL TOKEN``; prints what came of it."""

from __future__ import annotations

import importlib
import json
import sys

folder, url, token = sys.argv[1:]
sys.path.insert(0, folder)
client = importlib.import_module("generated").AuthenticatedClient(base_url=url, token=token)
models = importlib.import_module("generated.models")
echo = importlib.import_module("generated.api.samples.echo_text")
query = importlib.import_module("generated.api.library.query_library_isbn")
said = echo.sync_detailed(client=client, body=models.ECHOTextInput(text="hello there"))
book = query.sync_detailed("9780141439518", client=client)
wrong = query.sync_detailed("none", client=client)
print(
    json.dumps(
        {
            "words": said.parsed.result.words,
            "audit_id": said.headers["Audit-ID"],
            "title": book.parsed.result.title,
            "wrong": [int(wrong.status_code), wrong.parsed.reason, type(wrong.parsed).__name__],
        }
    )
)
