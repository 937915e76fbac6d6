"""
``python -m tests.bench``: the host beside bare Twisted TLS, the official MCP SDK and other proxies, in one run.

Servers have one core, the load another. The rounds of all subjects are interleaved, so neighbours move all figures
together; the first subject is measured twice, which is the error of the others. The proxies of others are installed
from the Python package index when they are first needed. Needs Linux and two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench import functions, proxies
from tests.bench.measurement import fsync_probe, measure, pin
from tests.bench.report import CONNECTIONS, Run, picture, text
from tests.bench.tool_call import idle_memory
from tests.system.fronting import front
from tests.system.gateways import with_gateway
from tests.system.hosting import free_port, running

ROOT = Path(__file__).resolve().parents[2]
FOR_KEYS = (("timeout = 30\n", 'timeout = 30\nmin_assurance = "gateway"\n'),)
"""The sample's MCP server takes calls of clients with a key, as gateway and front have no other proof here."""


def bench(seconds: float, rounds: int, *, foreign: bool, tell: Callable[[str], None]) -> Run:
    """
    Measure all.

    :param seconds: of one round of one subject.
    :param foreign: whether the proxies of others are measured.
    :param tell: told what is measured now.
    """
    pin(1)
    before, port = os.getloadavg()[0], free_port()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config, gateway = with_gateway(folder, kind="ssl", edit=FOR_KEYS, append=front(port, {}, secure=True))
        with running(config, prefix=("taskset", "-c", "0")) as host:
            with functions.subjects(host, gateway, port) as subjects:
                of_functions = measure(subjects, CONNECTIONS, seconds=seconds, rounds=rounds, tell=tell)
            with proxies.subjects(host, gateway, port, folder, foreign=foreign) as subjects:
                of_tools = measure(subjects, CONNECTIONS, seconds=seconds, rounds=rounds, tell=tell)
            idle, sync = idle_memory(host)["kib_per_idle_connection"], fsync_probe(host.state)
    return Run(
        about=describe(before, seconds, rounds),
        functions=of_functions,
        tools=of_tools,
        kib_per_idle_connection=idle,
        fdatasync_ms=round(sync * 1000, 3),
    )


def describe(load: float, seconds: float, rounds: int) -> dict[str, str]:
    """
    Return what a reader of the figures has to know.

    :param load: the machine's load average before the run.
    """
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    models = {line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")}
    return {
        "agtphost": commit.stdout.strip() or "unknown commit",
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {', '.join(sorted(models)) or platform.machine()}; "
        f"Python {platform.python_version()}, {platform.system()}",
        "load": f"{load:.1f} before the run (the run itself adds 2)",
        "rounds": f"{rounds} of {seconds:g} s each, interleaved",
    }


def _cpuinfo() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.exists() else []


def main() -> None:
    """Run the benchmarks and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one round of one subject (default: 2)")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default: 3)")
    parser.add_argument("--own", action="store_true", help="leave out the proxies of others: nothing is installed")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="write a picture of the figures (SVG)")
    given = parser.parse_args()
    if not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2:
        parser.error("the benchmark needs Linux and two cores: one for the servers, one for the load")
    run = bench(
        given.seconds, given.rounds, foreign=not given.own, tell=lambda line: print(line, file=sys.stderr, flush=True)
    )
    if given.picture is not None:
        given.picture.write_text(picture(run))
    print(json.dumps(run, indent=2) if given.json else text(run), end="\n" if given.json else "")


if __name__ == "__main__":
    main()
