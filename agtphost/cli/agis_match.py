"""The commands ``agtp agis map`` and ``match``: endpoints of a service, matched to a text (AGIS v01 section 12)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli.agis_conversion import DOCUMENT, SCHEME, refusal_of
from agtphost.cli.agis_similarity import measure_of
from agtphost.cli.failures import WrongInput
from agtphost.cli.options import HERE, Connection, connection_options
from agtphost.cli.output import print_fields, print_json, print_note, print_table, visible
from agtphost.cli.plain_files import read_octets

if TYPE_CHECKING:
    from agtphost.agis.document import AgisDocument, AgisEndpoint
    from agtphost.agis.endpoint_matching import EndpointMatch, ServiceMap

MOST = 50
"""Most matches that are printed."""


@click.command("map")
@click.argument("sources", metavar="URI|-|FILE...", type=DOCUMENT, nargs=-1, required=True)
@connection_options
def map_(sources: tuple[str, ...], where: Connection, as_json: bool) -> None:
    """
    Show what services can do, according to their AGIS documents.

    A document comes from a host (- is the configured one) or from a FILE. It is checked before it is used: of a
    document that does not conform nothing is shown, and the exit status is not 0. The verbs that the vocabulary
    declares come first, then every endpoint with its intent, its impact and the confidence that a caller should have.
    With several services, methods have their namespace: logistics.DISPATCH.

    \b
    Examples:
      agtp agis map -
      agtp agis map agtp://agents.example.com --json
      agtp agis map service.agis
      agtp agis map logistics.agis workflow.agis
    """
    found = [_map(source, where) for source in sources]
    if as_json:
        told = [_map_to_json(each) for each in found]
        print_json(told if len(told) > 1 else told[0])
        return
    for number, each in enumerate(found):
        if number:
            click.echo()
        _show(each, qualified=len(found) > 1)


def _map_to_json(found: ServiceMap) -> dict[str, Any]:
    """Return a service's map for JSON output."""
    members, vocabulary = found.document.members, found.document.vocabulary
    return {
        "service": members["service"],
        "agtp": members["agtp"],
        "domain": vocabulary.get("domain"),
        "namespace": vocabulary.get("namespace"),
        "negotiable": vocabulary.get("negotiable", False),
        "data_classes": _classes(found),
        "verbs": {verb: [each.path for each in using] for verb, using in found.verbs.items()},
        "endpoints": [_endpoint_to_json(found, each) for each in found.document.endpoints],
    }


def _classes(found: ServiceMap) -> list[str]:
    return [str(each["class"]) for each in found.document.data_classes]


def _show(found: ServiceMap, *, qualified: bool) -> None:
    """
    Print a service's map for people.

    :param qualified: print the namespace of each method.
    """
    members, vocabulary = found.document.members, found.document.vocabulary
    fields: list[tuple[str, Any]] = [("service", members["service"]), ("agtp", members["agtp"])]
    fields += [(name, vocabulary[name]) for name in ("domain", "namespace") if name in vocabulary]
    fields.append(("verbs", ", ".join(found.verbs)))
    if vocabulary.get("negotiable") is True:
        fields.append(("negotiable", ", ".join(_classes(found))))
    print_fields(fields)
    rows = [
        (
            found.qualified_method(each) if qualified else each.verb,
            each.path,
            str(each.semantic.get("impact_tier", "")),
            _number(each.semantic.get("confidence_guidance")),
            str(each.semantic["intent"]),
        )
        for each in found.document.endpoints
    ]
    print_table(("METHOD", "PATH", "IMPACT", "SURE", "INTENT"), rows)


@click.command(epilog="Exit status: 0 an endpoint matches confidently, 1 none does: ask a person, 2 wrong usage.")
@click.argument("source", metavar="URI|-|FILE", type=DOCUMENT)
@click.argument("instruction")
@click.option(
    "--limit",
    type=click.IntRange(1, MOST),
    default=5,
    show_default=True,
    metavar="NUMBER",
    help="Maximum number of matches to print.",
)
@click.option("--by-meaning", is_flag=True, help="Also match by meaning; needs agtphost[semantic] or --model.")
@click.option(
    "--model",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of a sentence transformer (model.onnx, tokenizer.json) for --by-meaning.",
)
@connection_options
def match(
    source: str,
    instruction: str,
    limit: int,
    by_meaning: bool,
    model: Path | None,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Show which endpoints of a service an instruction may mean.

    The verb of INSTRUCTION is compared with the methods, its other words with the nouns of the paths, and all of it
    with the intents. Each endpoint has these three scores and a total, best first. The total is compared with the
    confidence that the service asks for, and with 0.85 for irreversible calls. If it is lower, or if two endpoints
    score alike, ask a person first. The document comes from a host (- is the configured one) or from a FILE, and is
    checked before it is used.

    \b
    Examples:
      agtp agis match - "read the file"
      agtp agis match agtp://agents.example.com "schedule a meeting" --json
      agtp agis match service.agis "book a table for four" --limit 1
      agtp agis match service.agis "get rid of the appointment" --by-meaning
    """
    if not instruction.strip():
        raise WrongInput("the instruction is empty", 'Describe the task, such as "schedule a meeting".')
    if model is not None and not by_meaning:
        raise WrongInput("--model needs --by-meaning", "Add --by-meaning.")
    measure = measure_of(model, "--by-meaning") if by_meaning else None
    found = _map(source, where)
    matches = found.match(instruction, limit=limit, measure=measure)
    sure = bool(matches) and not matches[0].escalate
    if as_json:
        told = [_match_to_json(found, each, instruction) for each in matches]
        print_json({"instruction": instruction, "sure": sure, "matches": told})
    elif not matches:
        print_note("no endpoint has a word of the instruction; agtp agis map shows all endpoints")
    else:
        print_table(("METHOD", "PATH", "CONFIDENCE", "BY METHOD", "BY PATH", "BY INTENT", "NEEDED"), map(_row, matches))
        best = matches[0]
        said = f"{best.endpoint.name}: {best.endpoint.semantic['intent']}"
        if named := _propose_parameters(best, instruction):
            said += f" with {', '.join(f'{name}={value}' for name, value in named.items())}"
        click.echo(visible(said) if sure else visible(f"ask a person before {said} ({best.escalate})"))
    if not sure:
        click.get_current_context().exit(1)


def _map(source: str, where: Connection) -> ServiceMap:
    from agtphost.agis.endpoint_matching import ServiceMap

    hosted = source == HERE or source.startswith(SCHEME)
    return ServiceMap(document=_fetch_document(source, where) if hosted else _read(source))


def _fetch_document(source: str, where: Connection) -> AgisDocument:
    """Return the document of a host; one that does not conform is refused (AGIS v01 section 12)."""
    from agtphost.cli.exchange import failure_of, open_client, require_success
    from agtphost.cli.target import resolve
    from agtphost.client.errors import ClientError
    from agtphost.client.service_documents import document_of

    target = resolve(where, source)
    with open_client(target) as client:
        reply = require_success(client.call(target.uri, "DESCRIBE", "/", {"format": "agis"}))
    try:
        return document_of(reply)
    except ClientError as error:
        raise failure_of(error) from None


def _read(file: str) -> AgisDocument:
    from agtphost.agis import validate

    verdict = validate(read_octets(file))
    if verdict.document is None or not verdict.conforms:
        raise refusal_of(file, verdict)
    return verdict.document


def _endpoint_to_json(found: ServiceMap, endpoint: AgisEndpoint) -> dict[str, Any]:
    """Return an endpoint of the map for JSON output."""
    return {
        "method": endpoint.verb,
        "path": endpoint.path,
        "qualified": found.qualified_method(endpoint),
        **{
            name: endpoint.semantic[name]
            for name in ("intent", "outcome", "capability", "impact_tier", "confidence_guidance", "is_idempotent")
            if name in endpoint.semantic
        },
    }


def _propose_parameters(each: EndpointMatch, instruction: str) -> dict[str, Any]:
    """Return the parameters of an endpoint that an instruction names."""
    from agtphost.agis.goal_values import goal_values

    schema = each.endpoint.members.get("input")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    hints = each.endpoint.semantic.get("parameter_hints")
    if not isinstance(properties, Mapping):
        return {}
    return goal_values(instruction, properties, hints if isinstance(hints, Mapping) else None)


def _match_to_json(found: ServiceMap, each: EndpointMatch, instruction: str) -> dict[str, Any]:
    return {
        "method": each.endpoint.verb,
        "path": each.endpoint.path,
        "qualified": found.qualified_method(each.endpoint),
        "intent": each.endpoint.semantic["intent"],
        "confidence": each.confidence,
        "scores": {"method": each.method, "path": each.path, "intent": round(each.intent, 3)},
        "needed": each.needed,
        "ask": each.escalate or None,
        "parameters": _propose_parameters(each, instruction),
    }


def _row(each: EndpointMatch) -> tuple[str, ...]:
    scores = (each.confidence, each.method, each.path, each.intent, each.needed)
    return (each.endpoint.verb, each.endpoint.path, *(f"{score:.2f}" for score in scores))


def _number(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, (int, float)) else ""
