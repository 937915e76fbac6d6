"""``python -m tests.words``: print how plainly each package and the docs are written."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from tests.words.measure import Finding, Measure, measure_package, measure_page, repeated_classes

ROOT = Path(__file__).resolve().parents[2]
ROW = "{:<22} {:>9} {:>6} {:>7} {:>8} {:>8} {:>9} {:>9} {:>10}"
EXAMPLES = """
examples:
  python -m tests.words                               the table
  python -m tests.words --places names --only cli     each function of agtphost/cli with a bare name
  python -m tests.words --places mannered --only docs each mannered word of the pages

Mannered words are per 1,000 words of docstrings and comments, of messages, or of pages.
"""


def measure_tree(root: Path = ROOT) -> dict[str, Measure]:
    """Return the measure of each package of ``agtphost``, of each of ``packages``, and of the docs."""
    source = root / "agtphost"
    found = {"agtphost": measure_package(sorted(source.glob("*.py")))}
    for folder in sorted(path for path in source.iterdir() if (path / "__init__.py").exists()):
        found[folder.name] = measure_package(sorted(folder.rglob("*.py")))
    for folder in sorted((root / "packages").iterdir()):
        found[folder.name.replace("-", "_")] = measure_package(sorted(folder.rglob("*.py")))
    found["docs"] = Measure()
    for page in _pages(root):
        found["docs"].add(measure_page(page, page.read_text()))
    return found


def _pages(root: Path) -> Iterator[Path]:
    yield from (root / name for name in ("README.rst", "CONTRIBUTING.rst", "CHANGELOG.rst"))
    yield from sorted((root / "docs").rglob("*.rst"))


def print_table(measures: dict[str, Measure]) -> None:
    """Print one row a package, and the names that more than three classes have."""
    print(ROW.format("package", "functions", "bare", "%", "mannered", "/1000", "messages", "/1000", "fragments"))
    total = Measure()
    for name, measure in measures.items():
        _print_row(name, measure)
        if name != "docs":
            total.add(measure)
    _print_row("all code", total)
    for name, count in repeated_classes(measures.values()).items():
        print(f"{count} classes are named {name}")


def _print_row(name: str, measure: Measure) -> None:
    print(
        ROW.format(
            name,
            measure.functions,
            len(measure.names),
            f"{measure.name_share:.1f}",
            len(measure.mannered),
            f"{measure.mannered_share:.1f}",
            len(measure.mannered_messages),
            f"{measure.message_share:.1f}",
            len(measure.fragments),
        )
    )


def _places(measure: Measure, kind: str) -> list[Finding]:
    chosen = {
        "names": measure.names,
        "mannered": measure.mannered,
        "messages": measure.mannered_messages,
        "fragments": measure.fragments,
        "nouns": measure.nouns,
    }
    return chosen[kind]


def main() -> None:
    """Read the command line and print the table or the places."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.words", epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--places", choices=["names", "mannered", "messages", "fragments", "nouns"], help="print each place"
    )
    parser.add_argument("--only", metavar="PACKAGE", action="append", help="this package, or docs; may be repeated")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    options = parser.parse_args()
    measures = measure_tree()
    if options.only:
        unknown = sorted(set(options.only) - set(measures))
        if unknown:
            parser.error(f"there is no package {unknown[0]!r}; choose from {', '.join(measures)}")
        measures = {name: measures[name] for name in options.only}
    if options.places:
        for measure in measures.values():
            for each in _places(measure, options.places):
                print(f"{each.path.relative_to(ROOT)}:{each.line}: {each.text}")
    elif options.json:
        print(json.dumps({name: _to_json(measure) for name, measure in measures.items()}, indent=2))
    else:
        print_table(measures)


def _to_json(measure: Measure) -> dict[str, float]:
    return {
        "functions": measure.functions,
        "bare_names": len(measure.names),
        "mannered_per_1000": round(measure.mannered_share, 2),
        "mannered_messages_per_1000": round(measure.message_share, 2),
        "fragments": len(measure.fragments),
    }


if __name__ == "__main__":
    main()
