"""The ``agtp agis`` group: check, format and convert AGIS documents (AGIS v01 sections 9 and 10)."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agtphost.cli import agis_conversion, agis_match, agis_publication
from agtphost.cli.agis_similarity import similarity
from agtphost.cli.colour import Verdict, echo
from agtphost.cli.failures import JSON_MODE, WrongInput, local_file
from agtphost.cli.groups import VerbGroup
from agtphost.cli.options import json_option
from agtphost.cli.output import print_json, print_note, visible
from agtphost.cli.plain_files import read_octets
from agtphost.identity import files

if TYPE_CHECKING:
    from agtphost.agis.document import AgisDocument
    from agtphost.agis.report import ValidatedFile

STANDARD = "-"
"""File name that means standard input and output."""

BOM = b"\xef\xbb\xbf"
"""Byte order mark that some editors write before UTF-8 text."""


@click.group(cls=VerbGroup)
def command() -> None:
    """Check, format, publish and convert AGIS documents."""


for _command in (
    *(agis_conversion.to_mcp, agis_conversion.from_mcp),
    *(agis_conversion.to_openapi, agis_conversion.from_openapi),
    *(agis_publication.import_, agis_publication.export, agis_publication.publish),
    *(agis_match.map_, agis_match.match),
):
    command.add_command(_command)


@command.command(epilog="Exit status: 0 every document conforms, 1 one does not, 2 wrong usage.")
@click.argument("files_", metavar="FILE...", nargs=-1, required=True, type=agis_conversion.DOCUMENT)
@click.option(
    "--level",
    type=click.Choice(["1", "2"]),
    default="1",
    help="Level to check: 1 declarative, 2 interpretable; default: 1.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "junit", "sarif"]),
    default="text",
    help="Output format; json equals --json.",
)
@click.option(
    "--suppress",
    multiple=True,
    metavar="RULE=REASON",
    help="Suppress the warnings of a rule; the reason is printed. Errors are never suppressed.",
)
@click.option(
    "--similarity",
    "thresholds",
    metavar="WARN,FAIL",
    help="Also compare intents with methods; the draft uses 0.3,0.1. Needs the extra `semantic`.",
)
@click.option("--similarity-fails", is_flag=True, help="Treat similarity below FAIL as an error instead of a warning.")
@click.option(
    "--model",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder of a sentence transformer (model.onnx, tokenizer.json) for --similarity.",
)
@click.option("--strict", is_flag=True, help="Exit with status 1 for warnings, too.")
@click.option("-v", "--verbose", is_flag=True, help="Also print passes, notes and suppressed findings.")
@json_option
def validate(
    files_: Sequence[str],
    level: str,
    form: str,
    suppress: Sequence[str],
    thresholds: str | None,
    similarity_fails: bool,
    model: Path | None,
    strict: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """
    Check AGIS documents in the eight passes of the draft.

    FILE is YAML or JSON; - is standard input, and a directory means all .agis files in it. Each line names the place,
    the rule, the section of the draft and what to write instead. A document conforms if all eight passes succeed;
    warnings do not count. The document's member `suppressions` suppresses warnings: rule, endpoint and reason.

    \b
    Examples:
      agtp agis validate service.agis
      agtp agis validate services/*.agis --level 2 --format sarif > agis.sarif
      agtp agis validate service.agis --suppress AGIS-P3-borderline="RUN is what our users say"
    """
    from agtphost.agis import report
    from agtphost.agis import validate as examine

    reasons = _reasons(suppress)
    if thresholds is None and (similarity_fails or model is not None):
        raise WrongInput("--similarity-fails and --model need --similarity", "Add --similarity 0.3,0.1.")
    similar = None if thresholds is None else similarity(thresholds, model, fails=similarity_fails)
    examined = []
    for name in _expand_names(files_):
        verdict = examine(read_octets(name), level=int(level), similar=similar)
        left_out = [
            replace(each, reason=reasons[each.rule.name])
            for each in verdict.findings
            if each.rule.name in reasons and each.severity.value != "error"
        ]
        kept = [each for each in verdict.findings if each.rule.name not in reasons or each.severity.value == "error"]
        suppressed = [*verdict.suppressed, *left_out]
        examined.append(
            report.ValidatedFile(
                file=name,
                conforms=verdict.conforms,
                findings=kept,
                suppressed=suppressed,
                ended=verdict.document is None,
                outside=frozenset(reasons),
            ),
        )
    if as_json or form == "json":
        click.get_current_context().meta[JSON_MODE] = True
        print_json(report.as_json(examined))
    elif form == "junit":
        click.echo(report.as_junit(examined), nl=False)
    elif form == "sarif":
        click.echo(report.as_sarif(examined), nl=False)
    else:
        _print(examined, verbose=verbose)
        for rule, reason in reasons.items():
            count = sum(each.rule.name == rule for one in examined for each in one.suppressed)
            click.echo(visible(f"suppressed: {count or 'nothing'} of {rule}: {reason}"))
    found = {finding.severity.value for each in examined for finding in each.findings}
    if not all(each.conforms for each in examined) or (strict and "warning" in found):
        click.get_current_context().exit(1)


def _expand_names(given: Sequence[str]) -> Iterator[str]:
    """Yield the given files; for a directory, the AGIS files in and below it."""
    for name in given:
        if name == STANDARD or not Path(name).is_dir():
            yield name
            continue
        found = sorted(str(each) for each in Path(name).rglob("*.agis") if each.is_file())
        if not found:
            raise WrongInput(f"{name} has no file in it that ends in .agis", "Name the files instead of the directory.")
        yield from found


def _reasons(given: Sequence[str]) -> Mapping[str, str]:
    """Return the reason for each rule whose warnings are suppressed."""
    from agtphost.agis.rules import RULES

    reasons: dict[str, str] = {}
    for each in given:
        rule, _, reason = each.partition("=")
        if rule not in RULES:
            raise WrongInput(f"--suppress: {rule} is not a rule", "agtp agis validate names the rule of each finding.")
        if not reason.strip():
            raise WrongInput(f"--suppress: {rule} has no reason", f'Write {rule}="why it does not matter here".')
        if RULES[rule].severity.value == "error":
            raise WrongInput(f"--suppress: {rule} is an error, and errors cannot be suppressed", "Correct FILE.")
        reasons[rule] = reason.strip()
    return reasons


def _print(examined: Sequence[ValidatedFile], *, verbose: bool) -> None:
    from agtphost.agis import report

    colours = {"error": Verdict.BAD, "warning": Verdict.WAITS}
    for each in examined:
        if verbose:
            for number, name, held in report.passes(each):
                word = "----" if held is None else "ok  " if held else "FAIL"
                echo(f"{word} {number} {name}", {True: Verdict.GOOD, False: Verdict.BAD, None: Verdict.WAITS}[held])
        for finding in each.findings:
            if verbose or finding.severity.value != "note":
                echo(visible(report.line(each.file, finding)), colours.get(finding.severity.value))
        for finding in each.suppressed if verbose else ():
            echo(visible(report.line(each.file, finding)))
        echo(visible(report.verdict(each)), Verdict.GOOD if each.conforms else Verdict.BAD)


@command.command()
@json_option
def schema(as_json: bool) -> None:
    """
    Print the JSON Schema of AGIS documents.

    Pass 1 checks documents against it. Editors can use it while a document is written.

    \b
    Example:
      agtp agis schema > agis.schema.json
    """
    from agtphost.agis.passes import structural

    del as_json  # The output is JSON in any case.
    print_json(structural.schema())


@command.command()
@click.argument("file", type=agis_conversion.DOCUMENT)
@click.option("--to", "form", type=click.Choice(["yaml", "json"]), help="Format of the output; default: that of FILE.")
@click.option("--fix", is_flag=True, help="Also correct mechanical faults; each change is printed.")
@click.option("--from-illustrative", is_flag=True, help="Also accept the notation of the draft's examples.")
@click.option("--write", is_flag=True, help="Rewrite FILE instead of printing.")
@click.option("--drop-comments", is_flag=True, help="Drop comments, and write FILE even if some are lost.")
@json_option
def fmt(
    file: str,
    form: str | None,
    fix: bool,
    from_illustrative: bool,
    write: bool,
    drop_comments: bool,
    as_json: bool,
) -> None:
    """
    Print an AGIS document in its canonical form.

    Members come in the draft's order, methods in capitals, and contracts in the draft's shorthand become the JSON
    Schemas that they abbreviate. Comments stay with their members. --fix corrects capitals, slashes and braces of
    paths, parameters and errors that are not in snake_case, declared_verbs, and suppressions without effect.
    --from-illustrative accepts BOOK /reservation { ... }, the notation of the draft's examples, and writes it as YAML.
    JSON has no comments: --write refuses to lose any.

    \b
    Examples:
      agtp agis fmt service.agis
      agtp agis fmt service.agis --fix --write
      agtp agis fmt example.txt --from-illustrative > service.agis
      agtp agis fmt service.agis --to json > service.json
    """
    from agtphost.agis import autofix, normal

    given = read_octets(file)
    octets = agis_conversion.convert_illustrative(file, given) if from_illustrative else given
    document = _document(file, octets)
    better, changes = autofix.apply_fixes(document) if fix else (document, ())
    value = normal.to_canonical(better)
    written_in = "json" if octets.removeprefix(BOM).lstrip()[:1] == b"{" else "yaml"
    chosen = form or ("json" if as_json and not write else written_in)
    text = normal.as_json(value) if chosen == "json" else normal.as_yaml(value)
    lost = 0
    if not drop_comments:
        text, lost = _restore_comments(text, chosen, document, octets, given)
    if not write:
        for change in changes:
            print_note(f"mended {change}")
        if lost:
            print_note(f"{_comments(lost)} left out")
        click.echo(text, nl=False)
        return
    if lost:
        form_of = "its canonical form" if chosen == "yaml" else "JSON"
        raise WrongInput(f"{file} has {_comments(lost)}, which {form_of} cannot hold", "Add --drop-comments.")
    _rewrite(file, given, text)
    if as_json:
        print_json({"file": file, "form": chosen, "mended": [*changes]})
        return
    for change in changes:
        click.echo(visible(f"mended {change}"))
    click.echo(f"wrote {visible(file)}")


def _comments(count: int) -> str:
    return f"{count} comment{'' if count == 1 else 's'}"


def _restore_comments(text: str, form: str, document: AgisDocument, octets: bytes, given: bytes) -> tuple[str, int]:
    """Return the canonical form with the comments of the source, and how many comments were lost."""
    from agtphost.agis.comments import add_comments
    from agtphost.agis.illustrative import comments as illustrated
    from agtphost.vocabulary import yamltext

    if octets is not given:
        return text, illustrated(given)
    found = yamltext.comments(octets)
    whole = add_comments(found, document.tree, text) if form == "yaml" else None
    return (text, len(found)) if whole is None else (whole, 0)


def _rewrite(file: str, given: bytes, text: str) -> None:
    """Rewrite a file; keep its byte order mark, line ends and mode, and follow a symbolic link."""
    if file == STANDARD:
        raise WrongInput("--write needs a file, and - is standard input", "Leave out --write, or name a file.")
    octets = text.encode("utf-8")
    if b"\r\n" in given:
        octets = octets.replace(b"\n", b"\r\n")
    with local_file(file, doing="written"):
        path = Path(file).resolve(strict=True)
        mode = stat.S_IMODE(path.stat().st_mode)
        if not mode & 0o222:
            raise WrongInput(f"{file} is read-only", "Make it writable: chmod u+w.")
        if path.read_bytes() != given:
            raise WrongInput(f"{file} was changed while it was formatted", "Run the command again.")
        files.replace(path, (BOM if given.startswith(BOM) else b"") + octets, mode)


def _document(file: str, octets: bytes) -> AgisDocument:
    """
    Return a document whose structure is valid.

    :raises WrongInput: the structure is invalid; the message is the first finding.
    """
    from agtphost.agis import report
    from agtphost.agis import validate as examine

    verdict = examine(octets)
    if verdict.document is None:
        raise WrongInput(report.line(file, verdict.findings[0]), "agtp agis validate lists every finding.")
    return verdict.document
