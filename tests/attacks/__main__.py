"""``python -m tests.attacks``: every attack against a production host, and a table of what came of it."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.attacks.attack import Attack
from tests.attacks.cores import cores
from tests.attacks.runner import FLOOR, Result, judged
from tests.attacks.site import made
from tests.programmes import CHOSEN

DESCRIPTION = """
Attacks a host that was made by `agtp init --production`, on loopback, with honest certified callers beside each
attack, and prints for each the bound, what was measured, and the verdict. Each attack has a host of its own.
"""

EXAMPLES = """
examples:
  python -m tests.attacks                       all of them: about ten minutes
  python -m tests.attacks --list                names, and what is done
  python -m tests.attacks --only yaml-nesting   one; may be repeated; a trailing * stands for anything
  python -m tests.attacks --short               half a second each: a first look
  python -m tests.attacks --only million-garbage
                                                a million requests, in up to an hour; never run unless named
  python -m tests.attacks --json > report.json

The exit status is 1 where one attack is not withstood. Run it on a machine that does nothing else.
docs/threats.rst says what each attack stands for, tests/attacks/runner.py how p99 is judged.
"""

MIB = 2**20
ROW = "{:<34} {:<9} {:<24} {:<66} {}"


def parser() -> argparse.ArgumentParser:
    """What can be said on the command line."""
    found = argparse.ArgumentParser(
        prog="python -m tests.attacks",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--seconds", type=float, default=2.0, help="how long an attack may last (default: 2)")
    found.add_argument("--only", action="append", metavar="NAME", default=[], help="this attack alone")
    found.add_argument("--list", action="store_true", help="say what there is, and attack nothing")
    found.add_argument("--json", action="store_true", help="print JSON in place of the table")
    found.add_argument("--short", action="store_true", help="half a second each, quiet windows of half a second")
    found.add_argument("--keep", metavar="DIR", type=Path, help="leave the hosts' directories there")
    return found


def chosen(names: list[str]) -> list[Attack]:
    """The attacks that are meant; SystemExit where a name means none."""
    # Imported here, because how many items some attacks use is decided when it is imported.
    from tests.attacks.catalogue import attacks

    found = attacks()
    for name in names:
        if not any(_means(name, attack) for attack in found):
            raise SystemExit(f"there is no attack {name!r}; --list names all")
    if not names:
        return [attack for attack in found if not attack.lasts]
    return [attack for attack in found if any(_means(name, attack) for name in names)]


def _means(name: str, attack: Attack) -> bool:
    return attack.name.startswith(name[:-1]) if name.endswith("*") else attack.name == name


def bound(attack: Attack) -> str:
    """In a few words."""
    return f"p99 x{attack.slower:g}, {attack.memory / MIB:g} M, {attack.disk / MIB:g} M"


def measured(result: Result) -> str:
    """In a few words."""
    times = f"{result.quiet * 1000:.0f} -> {result.during * 1000:.0f} ms"
    growth = f"{result.memory / MIB:.1f} M, {result.disk / MIB:.1f} M"
    return f"{times} ({result.kind}), {growth}, cpu {result.seconds:.1f} s, {result.reached} of {result.sent} reached"


def verdict(result: Result) -> str:
    """held, or what is wrong."""
    if result.held:
        return "held" if result.attempts == 1 else f"held (attempt {result.attempts})"
    return "FAILED: " + "; ".join([*result.failures, *result.slow])


def as_json(result: Result) -> dict[str, Any]:
    """For programs; seconds and octets."""
    attack = result.attack
    return {
        "attack": attack.name,
        "who": attack.who,
        "says": attack.says,
        "bound": {"slower": attack.slower, "memory": attack.memory, "disk": attack.disk, "p99": result.allowed},
        "measured": {
            "p99_quiet": result.quiet,
            "p99_attack": result.during,
            "kind": result.kind,
            "calls": result.calls,
            "errors": len(result.errors),
            "memory": result.memory,
            "disk": result.disk,
            "cpu": result.seconds,
            "sent": result.sent,
            "reached": result.reached,
            "lasted": result.lasted,
            "attempts": result.attempts,
        },
        "held": result.held,
        "failures": [*result.failures, *result.slow],
    }


def main(words: list[str] | None = None) -> int:
    """Run what was asked for; the exit status."""
    given = parser().parse_args(words)
    found = chosen(given.only)
    if given.list:
        for attack in found:
            print(f"{attack.name:<34} {attack.who:<9} {attack.says}")
        return 0
    seconds, quiet = (0.5, 0.5) if given.short else (given.seconds, 1.0)
    folder = given.keep or Path(tempfile.mkdtemp(prefix="attacks-"))
    folder.mkdir(parents=True, exist_ok=True)
    which, since, results = cores(), time.monotonic(), []
    if not given.json:
        print(f"{len(found)} attacks of at most {seconds:g} s; {which.says}.")
        print(f"A p99 below {FLOOR * 1000:.0f} ms counts as {FLOOR * 1000:.0f} ms.")
        print(ROW.format("attack", "who", "bound", "measured", "verdict"))
    try:
        template = made(folder)
        for attack in found:
            result = judged(attack, template, folder, which, seconds=seconds, quiet=quiet)
            results.append(result)
            if not given.json:
                print(ROW.format(attack.name, attack.who, bound(attack), measured(result), verdict(result)), flush=True)
            if given.keep is None:
                for place in folder.glob(f"{attack.name}-[0-9]"):
                    shutil.rmtree(place)
    finally:
        if given.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    failed = [result.attack.name for result in results if not result.held]
    if given.json:
        print(json.dumps({"cores": which.says, "attacks": [as_json(result) for result in results]}, indent=2))
    else:
        took = time.monotonic() - since
        print(f"{len(results) - len(failed)} of {len(results)} attacks held, in {took:.0f} s. {' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    # Here and not in main(), which tests call: their process would have long runs from then on.
    CHOSEN.whole = "--short" not in sys.argv
    sys.exit(main())
