"""What is told of the configuration: everything that the file says, and no secret of it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from agtphost.config import load
from agtphost.host.page import mask_configuration

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
