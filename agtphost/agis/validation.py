"""Validation of a document: eight passes in their order, and one verdict (AGIS v01 section 9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from agtphost.agis.document import AgisDocument, endpoints
from agtphost.agis.document_reader import Tree, Unreadable, read
from agtphost.agis.findings import Finding, Severity
from agtphost.agis.passes import (
    completeness,
    consistency,
    contracts,
    method_class,
    method_syntax,
    path_syntax,
    similarity,
    structural,
    vocabulary,
)
from agtphost.agis.passes.subject import Subject
from agtphost.agis.rules import RULES
from agtphost.agis.suppression import apply_suppressions

LATER: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    method_syntax.check,
    method_class.check,
    path_syntax.check,
    completeness.check,
    consistency.check,
    vocabulary.check,
    contracts.check,
)
"""Passes 2 to 8."""

MOST = 10_000
"""Most findings of one document; a reader would correct the first ones before reading more."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of a validation."""

    findings: tuple[Finding, ...]
    document: AgisDocument | None
    """None if pass 1 ended the validation."""

    suppressed: tuple[Finding, ...] = ()
    """Warnings that the document suppresses, each with its reason."""

    @property
    def conforms(self) -> bool:
        """Return whether all eight passes succeeded: there is no partial conformance (AGIS v01 section 9)."""
        return self.document is not None and all(each.severity is not Severity.ERROR for each in self.findings)


def validate(octets: bytes, *, level: int = 1, similar: similarity.Similarity | None = None) -> Verdict:
    """
    Validate the text of a document.

    :param octets: YAML or JSON.
    :param level: 1 or 2 (AGIS v01 section 3).
    :param similar: also compares intents with methods by embeddings.
    """
    try:
        tree = read(octets)
    except Unreadable as error:
        return Verdict(findings=(_unreadable(error),), document=None)
    return validate_tree(tree, level=level, similar=similar)


def validate_value(root: Any, *, level: int = 1) -> Verdict:
    """Validate a generated document that was not read from a text; findings have no line."""
    return validate_tree(Tree(root=root), level=level)


def validate_tree(tree: Tree, *, level: int = 1, similar: similarity.Similarity | None = None) -> Verdict:
    """Validate values that were read from a text; see :func:`validate`."""
    if level not in (1, 2):
        raise ValueError("level must be 1 or 2")
    found = [*structural.check(tree)]
    if any(each.severity is Severity.ERROR and each.rule.name == "AGIS-P1-schema" for each in found):
        return Verdict(findings=tuple(found), document=None)
    document = AgisDocument(tree=tree, endpoints=tuple(endpoints(tree.root)))
    subject = Subject(document=document, level=level)
    checks = [*LATER]
    if similar is not None:
        checks.append(partial(similarity.check, similarity=similar))
    for check in checks:
        for finding in check(subject):
            if len(found) < MOST:
                found.append(finding)
            elif finding.severity is Severity.ERROR:
                # An error replaces the last finding, so that a document that does not conform is never reported as
                # conforming.
                found[-1] = finding
                return Verdict(findings=tuple(found), document=document)
    kept, left_out = apply_suppressions(document, found)
    return Verdict(findings=kept[:MOST], document=document, suppressed=left_out)


def _unreadable(error: Unreadable) -> Finding:
    rule = RULES["AGIS-P1-illustrative" if error.illustrative else "AGIS-P1-unreadable"]
    line, column = error.mark
    return Finding(
        rule=rule,
        severity=rule.severity,
        place="document",
        message=error.reason,
        line=line,
        column=column,
        fix=error.fix,
    )
