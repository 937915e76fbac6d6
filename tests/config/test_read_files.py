"""Which files a configuration was read from."""

from __future__ import annotations

from pathlib import Path

from agtphost.config import load
from agtphost.config.secret import CREDENTIALS
from agtphost.identity.keys import SigningKey
from agtphost.vocabulary.regular_files import stamps

TEXT = """
[host]
server_id = "localhost"
profile = "development"

[[http.client]]
name = "ci"
token = "file:token"
agent = "demo"

[attestation]
type = "rats-eat"
evidence = "file:evidence"

[store]
url = "postgresql://agtp@localhost/agtp"
password = "credential:database"

[delegation.governance]
p = "file:platform.pub"
"""


def test_files_that_values_were_read_from_are_known_as_they_were(tmp_path: Path) -> None:
    """The file itself, secrets, credentials, keys and evidence, with their stamps from before they were read."""
    files = {name: tmp_path / name for name in ("host.toml", "token", "evidence", "database", "platform.pub")}
    files["token"].write_text("t" * 40)
    files["token"].chmod(0o600)
    files["evidence"].write_text("abc")
    files["database"].write_text("secret")
    files["platform.pub"].write_bytes(SigningKey.generate().public.pem)
    files["host.toml"].write_text(TEXT)
    before = stamps(files.values())
    config = load(files["host.toml"], {CREDENTIALS: str(tmp_path)})
    files["token"].write_text("u" * 41)
    assert config.files == before
    assert config.files != stamps(files.values())
    assert config.model_copy().files == before
