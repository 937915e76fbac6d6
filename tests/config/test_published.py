"""``[[api]]``, ``[[data_class]]``, ``[manifest]`` and ``[wellknown]``: what they say, and what of mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agtphost.config import load
from agtphost.errors import ConfigurationError

HEAD = '[host]\nserver_id = "agents.example"\nprofile = "development"\n'


def written(directory: Path, text: str) -> Path:
    file = directory / "host.toml"
    file.write_text(HEAD + text)
    return file


def test_everything_said(tmp_path: Path) -> None:
    """API-076, AGTP-127: the values as they are published; absent members are left out."""
    config = load(
        written(
            tmp_path,
            '[[api]]\nname = "shop"\nbase_url = "https://shop.example/v1"\nopenapi_url = "https://shop.example/o.json"\n'
            '[[api]]\nname = "old"\nbase_url = "http://old.example/"\ndocumentation_url = "https://old.example/docs"\n'
            '[[data_class]]\nname = "location"\nformats = ["json"]\nsensitivity = "high"\n'
            "requires_authorization = true\n"
            '[manifest]\ndomain = "agents.example"\nmax_age = 60\n'
            '[wellknown]\nlisten = "ssl:443:interface=192.0.2.1"\ndns_anchor = "_agtp.agents.example"\n',
        ),
        {},
    )
    assert [entry.document() for entry in config.api] == [
        {"name": "shop", "base_url": "https://shop.example/v1", "openapi_url": "https://shop.example/o.json"},
        {"name": "old", "base_url": "http://old.example/", "documentation_url": "https://old.example/docs"},
    ]
    assert [entry.document() for entry in config.data_class] == [
        {
            "class": "location",
            "description": "",
            "formats": ["json"],
            "sensitivity": "high",
            "requires_authorization": True,
        }
    ]
    assert (config.manifest.domain, config.manifest.max_age) == ("agents.example", 60)
    assert (config.wellknown.listen, config.wellknown.max_age) == ("ssl:443:interface=192.0.2.1", 86_400)


def test_nothing_said(tmp_path: Path) -> None:
    """AGTP-127: no HTTPS unless it is asked for; five minutes for a manifest."""
    config = load(written(tmp_path, ""), {})
    assert (config.api, config.data_class, config.wellknown.listen) == ((), (), None)
    assert (config.manifest.domain, config.manifest.max_age) == (None, 300)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('[[api]]\nname = "shop"\n', 4, "base_url is missing"),
        ('[[api]]\nbase_url = "https://x.example/"\n', 4, "name is missing"),
        ('[[api]]\nname = "a b"\nbase_url = "https://x.example/"\n', 5, "1 to 64 letters"),
        ('[[api]]\nname = "a"\nbase_url = "ftp://x.example/"\n', 6, "http or https URL"),
        ('[[api]]\nname = "a"\nbase_url = "https://user:word@x.example/"\n', 6, "without user name"),
        ('[[api]]\nname = "a"\nbase_url = "https://x.example:port/"\n', 6, "http or https URL"),
        ('[[api]]\nname = "a"\nbase_url = "https://x.example/#a"\n', 6, "fragment"),
        (
            '[[api]]\nname = "a"\nbase_url = "https://x.example/"\n[[api]]\nname = "a"\nbase_url = "https://y.example/"\n',
            8,
            "is already used by entry 1",
        ),
        ('[[data_class]]\nname = "a"\n[[data_class]]\nname = "a"\n', 7, "is already used by entry 1"),
        ('[[data_class]]\nname = "a"\nsensitivity = "secret"\n', 6, "must be one of"),
        ("[manifest]\nmax_age = -1\n", 5, "at least 0"),
        ('[manifest]\ndomain = "https://agents.example"\n', 5, "host name"),
        ('[wellknown]\nlisten = "tcp:80"\n', 5, "must be ssl, except on this machine"),
        ('[wellknown]\nlisten = "udp:80"\n', 5, "ssl:PORT"),
        ('[wellknown]\nlisten = "ssl:443:privateKey=x.pem"\n', 5, "certificate and key name its files"),
        ('[wellknown]\ncertificate = "absent.pem"\n', 5, "needs key as well"),
        ('[wellknown]\ncertificate = "absent.pem"\nkey = "absent.key"\n', 5, "does not exist"),
        ('[wellknown]\nlistn = "ssl:443"\n', 5, "is unknown"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, text: str, line: int, message: str) -> None:
    """Each with its line, and nothing of a URL's password in it."""
    with pytest.raises(ConfigurationError) as refused:
        load(written(tmp_path, text), {})
    problem = refused.value.problems[0]
    assert (problem.line, message in problem.message) == (line, True), str(problem)
    assert "word" not in str(problem) or "without user name" in str(problem)
    assert "user:word" not in str(problem)


def test_a_readable_key_is_refused(tmp_path: Path) -> None:
    """A private key of the HTTPS side is a private key too."""
    for name in ("c.pem", "k.pem"):
        (tmp_path / name).write_text("")
    (tmp_path / "k.pem").chmod(0o644)
    with pytest.raises(ConfigurationError, match="read by others"):
        load(written(tmp_path, '[wellknown]\ncertificate = "c.pem"\nkey = "k.pem"\n'), {})
