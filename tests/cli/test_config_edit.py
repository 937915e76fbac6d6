"""Changes of a deployment's files by commands."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agtphost.cli.config_edit import FileChange, write_changes
from agtphost.cli.failures import WrongInput

COMMANDS, TIMES = 4, 40


def test_no_change_is_lost_where_commands_run_at_the_same_time(tmp_path: Path) -> None:
    """Each command that wrote its line finds it in the end; the others are told to run again."""
    file = tmp_path / "host.toml"
    file.write_text("")

    def add(number: int) -> None:
        for time in range(TIMES):
            line = f"{number}.{time}\n".encode()
            while True:
                before = file.read_bytes()
                try:
                    with write_changes([FileChange(file=file, before=before, after=before + line)]):
                        break
                except WrongInput as error:
                    assert "changed by another program" in str(error)

    with ThreadPoolExecutor(COMMANDS) as pool:
        list(pool.map(add, range(COMMANDS)))
    assert sorted(file.read_text().split()) == sorted(
        f"{number}.{time}" for number in range(COMMANDS) for time in range(TIMES)
    )


def test_a_refused_change_is_undone_before_another_command_writes(tmp_path: Path) -> None:
    """The file is as before, with the refusal as the error."""
    first, second = tmp_path / "host.toml", tmp_path / "env"
    first.write_text("a")
    second.write_text("b")
    changes = [FileChange(file=each, before=each.read_bytes(), after=b"c") for each in (first, second)]
    with pytest.raises(WrongInput, match="refused"), write_changes(changes):
        assert (first.read_text(), second.read_text()) == ("c", "c")
        raise WrongInput("refused", "")
    assert (first.read_text(), second.read_text()) == ("a", "b")
