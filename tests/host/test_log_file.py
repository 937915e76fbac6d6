"""The log in files: for the host's user alone, and only so much of it (core v08 section 10.10)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from twisted.logger import Logger, formatEvent, formatEventAsClassicLogText

from agtphost.host.log_file import FILE, KEEP, OCTETS, observer_of


def test_files_are_private_and_the_oldest_go(tmp_path: Path) -> None:
    """AGTP-317: mode 0600 under any umask, also of a file that was there and of the full ones; the limit is kept."""
    path = tmp_path / "host.log"
    path.write_text("earlier\n")
    path.chmod(0o644)
    before = os.umask(0)
    try:
        log = Logger(observer=observer_of({FILE: str(path), OCTETS: "2000", KEEP: "3"}))
        for number in range(500):
            log.info("agent {agent} called", agent=f"{number:064x}")
    finally:
        os.umask(before)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["host.log", "host.log.1", "host.log.2", "host.log.3"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert sum(file.stat().st_size for file in files) < 4 * 2_200
    kept = "".join(file.read_text() for file in files)
    assert f"{499:064x}" in kept and f"{0:064x}" not in kept and "earlier" not in kept
    assert formatEvent({"log_format": "agent {agent} called", "agent": "x"}) == "agent x called"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {FILE: ""},
        {FILE: "/nowhere/at/all.log"},
        {FILE: "x.log", KEEP: "0"},
        {FILE: "x.log", OCTETS: "-1"},
        {FILE: "x.log", KEEP: "many"},
    ],
)
def test_a_wrong_variable_is_said(environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host does not start with a log that it cannot keep as told."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"AGTPHOST_LOG|cannot be written"):
        observer_of(environ)
    assert list(tmp_path.iterdir()) == []


HOSTILE = {
    "line feed": "a\n2027-01-01T00:00:00+0000 [agtphost] agtphost ready",
    "carriage return": "a\r2027-01-01 [x] y",
    "both": "a\r\n2027-01-01 [x] y",
    "vertical tab": "a\x0by",
    "form feed": "a\x0cy",
    "next line": "a\x85y",
    "line separator": "a\u2028y",
    "paragraph separator": "a\u2029y",
    "colour": "\x1b[31mred",
    "title": "\x1b]0;owned\x07",
    "one-octet CSI": "\x9b2J",
    "bidi override": "\u202etxt.exe",
    "zero width": "a\u200bb",
    "NUL and DEL": "a\x00\x7fb",
    "braces": "{log_source} {agent.__class__} {0} {{",
    "fake JSON": '"}\n{"log_level": "critical", "log_format": "x"',
    "lone surrogate": "\ud800",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_others_wrote_is_text_in_one_event(name: str, tmp_path: Path) -> None:
    """T-LG-1..15: no line of its own, no command to a terminal, no format: printable ASCII, further lines tabbed."""
    path = tmp_path / "host.log"
    log = Logger(observer=observer_of({FILE: str(path)}))
    log.info("refused {what}", what=HOSTILE[name])
    log.info("{what}", what=HOSTILE[name])
    octets = path.read_bytes()
    assert all(octet in (9, 10) or 32 <= octet < 127 for octet in octets)
    events = [found for found in octets.decode().splitlines() if not found.startswith("\t")]
    assert len(events) == 2
    assert "Unformattable" not in octets.decode()


def test_the_control_lets_commands_through() -> None:
    """The usual text of Twisted keeps them, which is why this observer is there."""
    event = {"log_format": "{what}", "what": HOSTILE["colour"], "log_time": 0.0}
    assert "\x1b[31m" in str(formatEventAsClassicLogText(event))
