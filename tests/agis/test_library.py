"""``agtphost.agis`` as a library: what its page shows is so, and all of it can be imported without a host."""

from __future__ import annotations

import doctest
import subprocess
import sys

import agtphost.agis


def test_the_example_of_the_library() -> None:
    """Every line of it, and what it prints."""
    done = doctest.testmod(agtphost.agis)
    assert done.attempted > 2 and not done.failed


def test_it_brings_no_reactor() -> None:
    """Who imports it has none installed, and no host loaded."""
    said = (
        "import sys, agtphost.agis; "
        "print(*[n for n in sys.modules if n.startswith(('twisted', 'agtphost.host', 'agtphost.cli'))])"
    )
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "", done.stdout
