"""Find files of a host that other users of the machine can change."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator

from agtphost.config import Config


def access_warnings(config: Config) -> Iterator[str]:
    """Yield a warning for the state directory and the configuration file if other users can change them."""
    for path, forbidden, harm in (
        (config.host.state_dir, stat.S_IWGRP | stat.S_IWOTH, "replace its keys and its store"),
        # Group access to a file is the default of many systems, where each user has a group.
        (config.file, stat.S_IWOTH, "make the host run commands of theirs"),
    ):
        try:
            found = path.stat()
            is_read_only = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
        except OSError:
            continue
        mode = stat.S_IMODE(found.st_mode)
        if not _is_shared(found):
            forbidden &= ~stat.S_IWGRP
        if mode & forbidden and not is_read_only:
            yield f"{path} has mode {mode:o}: other users can {harm}; run: chmod {mode & ~0o022:o} {path}"


def _is_shared(found: os.stat_result) -> bool:
    """
    Return whether a file's group has others than its owner and this process.

    A group without a name, as volumes of containers have, belongs to their processes alone.
    """
    known = {uid: _name_of_user(uid) for uid in (found.st_uid, os.getuid())}
    try:
        group = grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    if set(group.gr_mem).difference(known.values()):
        return True
    return known[found.st_uid] != "" and group.gr_name not in known.values()


def _name_of_user(uid: int) -> str:
    """Return the name of a user; empty if the system knows none, as in many containers."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""
