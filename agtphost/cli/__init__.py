"""
The ``agtp`` command: interface section 2.

- :mod:`.root`: the group, which imports a command's module when it is called
- :mod:`.failures`: exit statuses, and how errors are shown
- :mod:`.output`: tables, JSON and untrusted text on a terminal
- :mod:`.options`: options that several commands share
- :mod:`.configured`, :mod:`.identities`: the host on this machine, its certificates and agents
- :mod:`.reach`: which host, as whom, trusting what
- :mod:`.arguments`: ``key=value`` and ``key:=json``
- :mod:`.exchange`: one request, its failures as exit statuses
- one module per command, or per group of commands
"""

from __future__ import annotations


def main() -> None:
    """The ``agtp`` script."""
    from agtphost.cli.root import agtp

    agtp(prog_name="agtp")


__all__ = ["main"]
