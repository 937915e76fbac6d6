"""
``twistd`` that ends as by SIGKILL at a chosen commit of what workflows and subscriptions are kept in.

``python dying_host.py before|after NUMBER twistd ARGUMENTS...``; commits are counted from 1.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from twisted.scripts.twistd import run

from agtphost.audit.transaction import Group
from agtphost.audit.writer import GroupWriter

KINDS = frozenset({"workflow", "workflow-step", "monitor"})


def make_mortal(when: str, number: int) -> None:
    """End at that commit."""
    rows, commit = Group._held_rows, GroupWriter._commit
    counted = {"concerned": 0, "commits": 0}

    def held_rows(self: Group, changes: Any) -> Any:
        found = rows(self, changes)
        counted["concerned"] += sum(1 for row in found if row.kind in KINDS)
        return found

    def mortal(self: GroupWriter, group: Any) -> None:
        concerned, counted["concerned"] = counted["concerned"], 0
        counted["commits"] += bool(concerned)
        last = bool(concerned) and counted["commits"] == number
        if last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        commit(self, group)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)

    Group._held_rows = held_rows  # type: ignore[method-assign]
    GroupWriter._commit = mortal  # type: ignore[method-assign]


if __name__ == "__main__":
    make_mortal(sys.argv[1], int(sys.argv[2]))
    sys.argv = sys.argv[3:]
    run()  # type: ignore[no-untyped-call]
