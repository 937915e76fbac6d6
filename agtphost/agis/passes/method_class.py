"""Pass 3: a method is an action that a caller wants, and not one of HTTP's (AGIS v01 sections 4.2 and 4.3)."""

from __future__ import annotations

from collections.abc import Iterator

from agtphost.agis.acts import lexicon
from agtphost.agis.document import AgisEndpoint
from agtphost.agis.findings import Finding
from agtphost.agis.passes.method_syntax import is_one_word
from agtphost.agis.passes.path_syntax import suggested_path
from agtphost.agis.passes.subject import Subject
from agtphost.agis.passes.suggestions import INSTEAD, PROHIBITED, WHAT_IS

_SPECIFIC = "use a more specific verb, or suppress the warning with a reason"
_FOREIGN = "use a verb in its base form; if it is from another language, suppress the warning with a reason"


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the methods that are of another class."""
    for endpoint in subject.document.endpoints:
        yield from class_findings(subject, endpoint)


def class_findings(subject: Subject, endpoint: AgisEndpoint) -> Iterator[Finding]:
    """Yield the fault of one method's class."""
    verb, known, place = endpoint.verb, subject.words, endpoint.place("method")
    if not is_one_word(endpoint.method, known) or known.base_of_method(verb) is not None:
        return  # Pass 2 reports it.
    if verb in PROHIBITED:
        message = f"{verb} is an HTTP method, and agents would read it as such"
        path = suggested_path(subject.words, endpoint)
        fix = PROHIBITED[verb] if path == endpoint.path else f"{PROHIBITED[verb].partition(' ')[0]} {path}"
        yield subject.finding("3-http-method", endpoint.name, place, message, fix)
    elif verb in known.states:
        message = f"{verb} is a state or condition, not an action"
        yield subject.finding("3-state", endpoint.name, place, message, INSTEAD.get(verb, WHAT_IS))
    elif verb in known.things:
        message = f"{verb} is a thing, not an action"
        yield subject.finding("3-noun", endpoint.name, place, message, f"FETCH /{verb.lower()}")
    elif (act := lexicon().nominal(verb)) is not None and not known.is_verb(verb):
        message = f"{verb} is a noun, but a method must be a verb"
        fix = act if "-" not in act else f"FETCH /{verb.lower()}"
        yield subject.finding("3-noun", endpoint.name, place, message, fix)
    elif known.is_act_noun(verb):
        message = f"{verb} is a noun by its ending, but a method must be a verb"
        yield subject.finding("3-noun", endpoint.name, place, message, f"FETCH /{verb.lower()}")
    elif verb in known.borderline:
        message = f"{verb} may mean many things; a more specific verb is recommended"
        yield subject.finding("3-borderline", endpoint.name, place, message, _SPECIFIC)
    elif not known.is_verb(verb):
        message = f"{verb} is not a verb that this validator knows"
        yield subject.finding("3-unknown", endpoint.name, place, message, _FOREIGN)
