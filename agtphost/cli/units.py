"""Units of systemd for a deployment: one text, for ``agtp init`` and for ``etc/systemd``."""

from __future__ import annotations

import pwd
import sys
from importlib.resources import files
from os import getuid
from pathlib import Path

SERVICE, SOCKET = "agtphost.service", "agtphost.socket"


def service_unit(directory: Path, *, state: Path | None = None, twistd: Path | None = None, user: str = "") -> str:
    """
    The text of ``agtphost.service``.

    :param directory: where ``host.toml`` is; absolute.
    :param state: ``[host] state_dir``; ``state`` below the directory if None.
    :param twistd: the program; that of this installation if None.
    :param user: whom it runs as; whoever runs this if empty.
    :raises ValueError: for a path that a unit cannot name.
    """
    program = twistd or Path(sys.executable).with_name("twistd")
    # Below /home nothing would be found, where all of it is hidden.
    hidden = not any(path.is_relative_to(place) for path in (directory, program) for place in ("/home", "/root"))
    return _filled(
        SERVICE,
        user=user or pwd.getpwuid(getuid()).pw_name,
        directory=str(directory),
        state=str(state or directory / "state"),
        twistd=str(program),
        home="yes" if hidden else "read-only",
    )


def socket_unit(port: int) -> str:
    """The text of ``agtphost.socket``."""
    return _filled(SOCKET, port=str(port))


def _filled(name: str, **values: str) -> str:
    text = files("agtphost").joinpath("cli", "templates", name).read_text(encoding="utf-8")
    for key, value in values.items():
        if any(character in value for character in " \"'\\%\n\t"):
            raise ValueError(f"a unit cannot name {value!r}: it has blanks, quotes, or %")
        text = text.replace(f"{{{key}}}", value)
    return text
