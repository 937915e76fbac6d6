"""Texts of systemd units, for ``agtp init`` and for ``etc/systemd``."""

from __future__ import annotations

import pwd
import sys
from importlib.resources import files
from os import getuid
from pathlib import Path

SERVICE, SOCKET = "agtphost.service", "agtphost.socket"
TEMPLATE = "agtphost@.service"


def service_unit(directory: Path, *, state: Path | None = None, twistd: Path | None = None, user: str = "") -> str:
    """
    Return the text of ``agtphost.service``.

    :param directory: directory of ``host.toml``, as an absolute path.
    :param state: ``[host] state_dir``; None: ``state`` in the directory.
    :param twistd: the program; None: that of this installation.
    :param user: user to run as; empty: the present user.
    :raises ValueError: a path has characters that a unit cannot have.
    """
    program = twistd or Path(sys.executable).with_name("twistd")
    # ProtectHome hides everything below /home and /root, so it is relaxed for paths there.
    hidden = not any(path.is_relative_to(place) for path in (directory, program) for place in ("/home", "/root"))
    return _fill_template(
        SERVICE,
        user=user or pwd.getpwuid(getuid()).pw_name,
        directory=str(directory),
        state=str(state or directory / "state"),
        twistd=str(program),
        home="yes" if hidden else "read-only",
    )


def template_unit(directory: Path, *, state: Path, twistd: Path | None = None, user: str = "") -> str:
    """
    Return the text of ``agtphost@.service``, for hosts on one machine that share a store and the port of the socket.

    :param state: the directory above the state directories, which are named by the instances.
    :raises ValueError: as :func:`service_unit`.
    """
    text = service_unit(directory, state=state, twistd=twistd, user=user)
    begin, name = f"\nUser={user or pwd.getpwuid(getuid()).pw_name}\n", "AGTPHOST_CLUSTER_NAME=%H-%i"
    shared = (
        "\n# systemd holds the port, and gives it to each instance; the one that serves accepts connections."
        f"\nSockets={SOCKET}\nEnvironment={name} AGTPHOST_STATE_DIR={state}/%i"
    )
    return text.replace(begin, f"{shared}{begin}").replace(f"ReadWritePaths={state}", f"ReadWritePaths={state}/%i")


def socket_unit(port: int) -> str:
    """Return the text of ``agtphost.socket``."""
    return _fill_template(SOCKET, port=str(port))


def _fill_template(name: str, **values: str) -> str:
    text = files("agtphost").joinpath("cli", "templates", name).read_text(encoding="utf-8")
    for key, value in values.items():
        if any(character in value for character in " \"'\\%\n\t"):
            raise ValueError(f"a unit cannot have the path {value!r}: it has blanks, quotes, or %")
        text = text.replace(f"{{{key}}}", value)
    return text
