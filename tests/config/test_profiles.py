"""The agtp command's own file."""

from __future__ import annotations

from pathlib import Path

import pytest

from agtphost.config import load_profile
from agtphost.config.profiles import profile_file
from agtphost.errors import ConfigurationError


def write(home: Path, text: str) -> dict[str, str]:
    """Put ``text`` where the command looks; returns the environment to look with."""
    path = home / ".config" / "agtphost" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return {"HOME": str(home)}


def test_a_profile(tmp_path: Path) -> None:
    """Paths are relative to the file, as everywhere."""
    environ = write(tmp_path, "[profile.work]\nuri = 'agtp://example.com'\ncacert = 'ca.pem'\n[profile.home]\n")
    profile = load_profile("work", environ)
    assert profile.uri == "agtp://example.com"
    assert profile.cacert == tmp_path / ".config" / "agtphost" / "ca.pem"
    assert (profile.cert, profile.key, profile.agent_id) == (None, None, None)


def test_xdg_config_home(tmp_path: Path) -> None:
    """The XDG variable wins over HOME."""
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "HOME": "/nowhere"}
    assert profile_file(environ) == tmp_path / "agtphost" / "config.toml"


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("[profile.wrok]\n", 0, "the profile 'work' does not exist", "did you mean wrok?"),
        ("", 0, "the profile 'work' does not exist", "add [profile.work]"),
        ("[profil.work]\n", 1, "[profil] is unknown", 'did you mean "profile"?'),
        ("[profile.work]\nurl = 'x'\n", 2, "[profile.work] url is unknown", 'did you mean "uri"?'),
        ("[profile.work]\nagent_id = 'x'\n", 2, "64 lower-case hexadecimal", ""),
    ],
)
def test_what_is_wrong_with_the_file(tmp_path: Path, text: str, line: int, message: str, hint: str) -> None:
    """The same reports as for host.toml."""
    with pytest.raises(ConfigurationError) as caught:
        load_profile("work", write(tmp_path, text))
    problem = caught.value.problems[0]
    assert message in problem.message
    assert hint in problem.hint
    assert problem.line == line


def test_no_file(tmp_path: Path) -> None:
    """A profile asked for where there is no file."""
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_profile("work", {"HOME": str(tmp_path)})
