"""
``agtp up --hosts N`` whose hosts are forked: ``forked_up.py PROGRAMS WORDS...``.

It starts ``agtp`` beside its interpreter, in a new interpreter for each host.

:mod:`tests.system.up_host` names a directory of programs that fork, as :func:`tests.forking.path` makes it.
"""

from __future__ import annotations

import sys

from agtphost.cli import main

if __name__ == "__main__":
    sys.executable = f"{sys.argv.pop(1)}/python"
    sys.argv[0] = "agtp"
    main()
