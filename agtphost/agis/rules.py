"""The rules of the eight passes: name, severity, section and statement (AGIS v01)."""

from __future__ import annotations

from agtphost.agis.findings import Rule, Severity

_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

_TABLE: tuple[tuple[str, Severity, str, str], ...] = (
    ("1-unreadable", _ERROR, "10", "A document is one YAML or JSON text of bounded size, without aliases and tags."),
    (
        "1-illustrative",
        _ERROR,
        "10",
        "The notation of the draft's examples, braces without quotes, is neither YAML nor JSON.",
    ),
    (
        "1-schema",
        _ERROR,
        "8.1",
        "A document has the members of AGIS v01 section 8.1, each of the right type and not empty.",
    ),
    ("1-version", _ERROR, "8.1", "`agis` is the version of the specification, 1.0, as text."),
    ("1-address", _ERROR, "8.1", "`agtp` is the service's agtp: address."),
    ("1-recommended", _WARNING, "8.1", "`description` and `version` are recommended."),
    ("1-endpoint-twice", _ERROR, "8.1", "A method and its path are defined once."),
    ("1-manifest", _ERROR, "8.2 (e)", "A negotiable service has a data manifest."),
    ("1-sensitive", _WARNING, "8.3", "A data class of high sensitivity requires authorization."),
    ("1-too-telling", _WARNING, "14", "A public manifest does not count records or name fields."),
    (
        "1-suppression",
        _WARNING,
        "9",
        "A suppression names a rule of a warning, and a reason; errors cannot be suppressed.",
    ),
    ("1-unused-suppression", _WARNING, "9", "A suppression matches at least one finding."),
    ("2-characters", _ERROR, "4.1 (c)", "A method has only letters from A to Z."),
    ("2-compound", _ERROR, "4.1 (d)", "A method is one verb; its object belongs into the path."),
    ("2-inflected", _ERROR, "4.1 (b)", "A method is the base form of its verb."),
    ("2-case", _WARNING, "4.1 (e)", "A method is written in capitals."),
    ("2-two-words", _WARNING, "4.1 (d)", "A method that reads as two words is probably a compound."),
    ("3-http-method", _ERROR, "4.3", "HTTP's methods are prohibited."),
    ("3-state", _ERROR, "4.2", "A method is an action, not a state or condition."),
    ("3-noun", _ERROR, "4.2", "A method is an action, not a thing."),
    ("3-borderline", _WARNING, "4.2", "A verb with many meanings is vague; a more specific one is recommended."),
    ("3-unknown", _WARNING, "15", "A verb that this validator does not know may be from another language."),
    ("4-slash", _ERROR, "5 (a)", "A path begins with a slash."),
    ("4-first", _ERROR, "5 (b)", "The first segment of a path is a noun."),
    ("4-verb-in-path", _ERROR, "5 (b)", "Segments of a path are nouns."),
    ("4-case", _ERROR, "5 (c)", "Segments of a path are in lower case, their words joined by hyphens."),
    ("4-parameter", _ERROR, "5 (d)", "A parameter is written {name}."),
    ("4-method-in-path", _ERROR, "5 (e)", "A path does not repeat the method."),
    ("4-query", _ERROR, "5 (f)", "A path has no query string."),
    ("5-missing", _ERROR, "6", "A semantic block has intent, actor and outcome."),
    ("5-level-2", _ERROR, "3", "Level 2 requires more members of a semantic block."),
    ("5-actor", _ERROR, "6", "An actor is agent, user or system."),
    ("5-capability", _ERROR, "6", "A capability is one of six."),
    ("5-confidence", _ERROR, "6", "confidence_guidance is a number from 0.0 to 1.0."),
    ("5-low-confidence", _WARNING, "6", "An irreversible method declares a confidence_guidance of 0.85 or more."),
    ("5-impact", _ERROR, "6", "An impact_tier is informational, reversible or irreversible."),
    ("5-idempotent", _ERROR, "6", "is_idempotent is true or false."),
    ("5-hints", _ERROR, "6", "parameter_hints are lists of phrases by parameter."),
    ("5-unknown-hint", _WARNING, "6", "A parameter with hints is a parameter of the input."),
    ("5-transition", _ERROR, "6", "A state_transition is `field: FROM -> TO`."),
    ("5-tool-name", _ERROR, "6", "An mcp_tool_name is lower-case, and unique in the service."),
    ("5-sentence", _ERROR, "6", "Intent and outcome are one sentence each."),
    ("5-long", _WARNING, "14", "Intent and outcome have at most 500 characters."),
    ("5-unreadable", _ERROR, "14", "An intent or an outcome of more than 5,000 characters is not read."),
    ("5-instruction", _ERROR, "14", "Intent and outcome describe, and do not instruct the reader."),
    ("6-contradiction", _ERROR, "6.3", "An intent does not contradict the method."),
    ("6-doubtful", _WARNING, "6.3", "An intent agrees with the method."),
    ("6-dissimilar", _WARNING, "9", "An intent is similar to its method, measured by a language model."),
    ("6-internal", _ERROR, "6.1", "An intent states the agent's goal, not the system's internals."),
    ("7-missing", _ERROR, "8.2", "The vocabulary declares its verbs."),
    ("7-undeclared", _ERROR, "8.2 (a)", "Every method is declared."),
    ("7-unused", _ERROR, "8.2 (b)", "Every declared verb is used."),
    ("7-twice", _ERROR, "8.2 (a)", "A verb is declared once."),
    ("7-domain", _WARNING, "8.2 (c)", "The vocabulary declares the service's domain."),
    ("8-missing", _ERROR, "7", "An endpoint has input, output and errors."),
    ("8-schema", _ERROR, "7", "Input and output are JSON Schemas."),
    ("8-required", _ERROR, "7", "What an input requires is declared."),
    ("8-path-parameter", _WARNING, "7", "A parameter of the path is a parameter of the input."),
    ("8-shorthand", _NOTE, "7", "The draft's shorthand is read as a JSON Schema."),
    ("8-remote", _ERROR, "7", "A schema does not refer to other documents."),
    ("8-snake-case", _WARNING, "7", "Names of parameters are in snake_case."),
    ("8-errors", _ERROR, "7", "Errors are a list of names."),
    ("8-generic-error", _ERROR, "7", "Names of errors describe the failure."),
)

RULES = {
    f"AGIS-P{name}": Rule(name=f"AGIS-P{name}", severity=severity, section=section, says=says)
    for name, severity, section, says in _TABLE
}
"""Rules by name."""
