'''
AGIS: documents that describe a service in verbs, paths and statements (AGIS v01).

``validate`` checks a text of YAML or JSON in the draft's eight passes and
returns every finding with its rule, its line and a replacement;
:mod:`.normal` writes a document in its canonical form. This package does not need a
host or a reactor::

    >>> from agtphost.agis import validate
    >>> verdict = validate(b"""
    ... agis: "1.0"
    ... service: Users
    ... agtp: agtp://users.example.com
    ... description: Who is who.
    ... version: 1.0.0
    ... vocabulary: {declared_verbs: [GET], domain: directory}
    ... endpoints:
    ...   GET /getUser:
    ...     semantic: {intent: Gets a user, actor: agent, outcome: The user is returned}
    ...     input: {type: object}
    ...     output: {type: object}
    ...     errors: [user_not_found]
    ... """)
    >>> verdict.conforms
    False
    >>> for finding in verdict.findings:
    ...     print(f"{finding.line}: {finding.rule.name}: {finding.message}; try: {finding.fix}")
    9: AGIS-P3-http-method: GET is an HTTP method, and agents would read it as such; try: FETCH /user
    9: AGIS-P4-case: 'getUser' is not in lower case with hyphens between its words; try: get-user
    9: AGIS-P4-method-in-path: 'getUser' repeats the method GET; try: /user

- :mod:`.document_reader`, :mod:`.document`: parsed values with their places; the endpoints of both shapes
- :mod:`.words`: verbs, their forms and effects; ``words.toml`` has the lists
- :mod:`.acts`: classes of acts, opposites and phrases; ``acts.toml`` has the lists
- :mod:`.clause_split`: the clauses of a statement; :mod:`.clauses`: the acts that it names
- :mod:`.exchanges`: what changes hands: money, a right or a thing
- :mod:`.families`: acts that few methods have; ``families.toml`` has the lists
- :mod:`.conflicts`: contradictions to the method;
  :mod:`.second_readings`: readings under which such a contradiction is a doubt
- :mod:`.confusables`: letters that look like ASCII letters
- :mod:`.findings`, :mod:`.rules`: rules, findings, and their severity
- :mod:`.shorthand`: the draft's shorthand for contracts, as JSON Schemas
- :mod:`.illustrative`: a parser of the notation of the draft's examples
- :mod:`.passes`: the eight passes; :mod:`.validation`: validation by all passes, and the verdict
- :mod:`.drafts`: generated documents, with notes for a person to review
- :mod:`.to_mcp`, :mod:`.from_mcp`: tools of a document, and a document of tools
- :mod:`.goal_values`: values for the parameters of an endpoint that a goal names
- :mod:`.endpoint_matching`: endpoints that match an instruction; ``synonyms.toml`` has the lists
- :mod:`.to_openapi`, :mod:`.from_openapi`: conversion from and to OpenAPI
- :mod:`.document_split`: splitting of documents with too many endpoints
- :mod:`.suppression`: warnings that a document leaves out, for a reason
- :mod:`.normal`: the canonical form; :mod:`.comments`: the comments in it; :mod:`.autofix`: automatic corrections
- :mod:`.report`: findings as text, JSON, JUnit and SARIF
- :mod:`.endpoints`: endpoints of AGTP-API as those of AGIS, and back
- :mod:`.service`: a service's own document, which conforms; :mod:`.summary`: ``/.well-known/agis.json``
'''

from agtphost.agis.findings import Finding, Rule, Severity
from agtphost.agis.validation import Verdict, validate, validate_value

__all__ = ["Finding", "Rule", "Severity", "Verdict", "validate", "validate_value"]
