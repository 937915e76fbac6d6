"""What is told of the configuration: everything that the file says, and no secret of it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from agtphost.config import load
from agtphost.page.configuration import outcome
from agtphost.page.feature import mask_configuration
from agtphost.page.markup import encode_html
from agtphost.page.person_client import PageReply

TEXT = """
[host]
server_id = "h"
profile = "development"

[[mcp.server]]
name = "files"
command = ["true"]
env = {{ PLAIN = "hunter2", REFERRED = "env:THE_TOKEN" }}

[[a2a.agent]]
name = "far"
url = "https://far.example.com"
bearer = "file:{token}"
headers = {{ X-Key = "hunter4" }}
"""


def test_secrets_are_masked_and_the_rest_is_toml(tmp_path: Path) -> None:
    """Inline ones, those of the environment and of files; what is shown can be read again."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("hunter3\n")
    file = tmp_path / "host.toml"
    file.write_text(TEXT.format(token=token))
    told = mask_configuration(load(file, {"THE_TOKEN": "hunter1"}))
    text = "\n".join(section["toml"] for section in told["sections"])
    assert "hunter" not in text and text.count("***") == 4
    read = tomllib.loads(text)
    assert read["host"]["server_id"] == "h" and read["mcp"]["server"][0]["name"] == "files"
    assert told["file"] == str(file)


def test_the_warnings_of_a_reload_are_shown() -> None:
    """A grant that names no tool is a warning on the page as on the command line, and no list without one."""
    given = {"taken": ["configuration ([grant])"], "waiting": [], "warnings": ["[[grant]] of x grants <nothing>"]}
    for warnings, shown in ((given["warnings"], True), ([], False)):
        reply = PageReply(status=200, result={**given, "warnings": warnings}, document={}, audit_id="")
        text = b"".join(encode_html(tag) for tag in outcome(reply, "Applied")).decode()
        assert ("Warnings:" in text and "[[grant]] of x grants &lt;nothing&gt;" in text) == shown, text
