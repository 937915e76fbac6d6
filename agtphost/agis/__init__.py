'''
AGIS: documents that describe a service in verbs, paths and statements (AGIS v01).

``validate`` examines a text of YAML or JSON in the draft's eight passes and
tells every finding with its rule, its line and what to write instead;
:mod:`.normal` writes a document in its canonical form. Nothing here needs a
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
    9: AGIS-P3-http-method: GET is a method of HTTP, which an agent takes for HTTP's; try: FETCH /user
    9: AGIS-P4-case: 'getUser' is not in lower case with hyphens between its words; try: get-user
    9: AGIS-P4-method-in-path: 'getUser' repeats the method GET; try: /user

- :mod:`.reading`, :mod:`.document`: a text as values with their places; the endpoints of either shape
- :mod:`.words`: verbs, their forms and what they do; ``words.toml`` has the lists
- :mod:`.acts`: classes of acts, opposites and phrases; ``acts.toml`` has the lists
- :mod:`.clauses`: the acts that a statement says; :mod:`.conflicts`: whether they contradict a method
- :mod:`.confusables`: letters that look like ASCII letters
- :mod:`.findings`, :mod:`.rules`: what can be found, and how much it counts
- :mod:`.shorthand`: the draft's way of writing contracts, as JSON Schemas
- :mod:`.illustrative`: the notation of the draft's examples, as the values that it stands for
- :mod:`.passes`: the eight passes; :mod:`.validation`: all of them, and the verdict
- :mod:`.drafting`: documents that are made from something else, with what a person has to look at
- :mod:`.to_mcp`, :mod:`.from_mcp`: tools of a document, and a document of tools
- :mod:`.goal_values`: values for the parameters of an endpoint that a goal names
- :mod:`.matching`: what a service can do, and what of it somebody's words mean; ``synonyms.toml`` has the lists
- :mod:`.to_openapi`, :mod:`.from_openapi`: the same of operations of HTTP
- :mod:`.splitting`: documents with more endpoints than one may hold, written as several
- :mod:`.suppression`: warnings that a document leaves out, for a reason
- :mod:`.normal`: the canonical form; :mod:`.comments`: the comments in it; :mod:`.mending`: what is mechanical, mended
- :mod:`.report`: findings as text, JSON, JUnit and SARIF
- :mod:`.endpoints`: endpoints of AGTP-API as those of AGIS, and the way back
- :mod:`.service`: a service's own document, which conforms; :mod:`.summary`: ``/.well-known/agis.json``
'''

from agtphost.agis.findings import Finding, Rule, Severity
from agtphost.agis.validation import Verdict, validate, validate_value

__all__ = ["Finding", "Rule", "Severity", "Verdict", "validate", "validate_value"]
