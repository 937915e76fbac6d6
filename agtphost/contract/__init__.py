"""
What a host offers and how it decides what a request means: AGTP-API.

- :mod:`.binding`: a method on a path with its handler and requirements
- :mod:`.interfaces`: what the host asks of an adapter
- :mod:`.carried_call`: the EXECUTE that calls a hosted tool, and the path it is sent to
- :mod:`.endpoint`, :mod:`.semantic`: the operator's endpoints
- :mod:`.endpoint_loading`, :mod:`.declaration`: endpoints from TOML, with file and line of every problem
- :mod:`.schemas`, :mod:`.schema_rules`, :mod:`.schema_references`: JSON Schemas: what they may contain, what their
  references lead to; compiled once
- :mod:`.endpoint_table`: which binding a method and path select
- :mod:`.policy`: which methods are accepted, and their aliases
- :mod:`.examples`: samples of members of a file, for findings without a better hint
- :mod:`.handler_hints`: what a handler's type hints and docstring add to its endpoint's TOML
- :mod:`.input_shape`: what a record keeps of an input: its members and their types
- :mod:`.manifest`: the server manifest; :mod:`.manifest_parts`: manifests that are split into several documents
- :mod:`.built_in_contracts`: the contracts of the host's own endpoints
- :mod:`.declared_names`: names in the operator's files, which the cures of faulty ones propose
- :mod:`.catalog_diff`: differences between two versions of the method catalog, and what they break in a deployment
- :mod:`.definitions`: definitions that the schemas of many endpoints share, in a separate file
- :mod:`.grant_check`: what a grant can name here
- :mod:`.grants`: a grant: what it names, how long it holds, and who issued it
- :mod:`.rights`: what the host lets an agent do: grants, which narrow what document and certificate give
- :mod:`.handler_reference`: the ``handler`` table of an endpoint: one of three binding kinds
- :mod:`.manifest_rules`: the named rules for server manifests
- :mod:`.manifest_validation`: validation of server manifests: every fault with a JSON pointer
- :mod:`.metaschema`: every place where a schema breaks its dialect
- :mod:`.schema_violations`: what a value breaks of its schema, and a schema of its dialect, in sentences
- :mod:`.method_parameters`: parameters that endpoints of some methods must have
- :mod:`.negotiable`: whether anything can be negotiated
- :mod:`.path_parameters`: parameters in the path of an endpoint
- :mod:`.pattern_automaton`: the size of a regular expression's deterministic automaton, which decides what
  a match costs
- :mod:`.pattern_syntax`: a parser of regular expressions for :mod:`.pattern_automaton`
- :mod:`.prices`: prices of calls, declared by endpoints or estimated by the operator
- :mod:`.request_format`: how the input of an external service becomes its HTTP request
- :mod:`.reserved`: methods and paths that the host itself is bound to; no endpoint may be declared there
- :mod:`.schema_check`: whether schemas that share definitions can be compiled, without compiling them
- :mod:`.schema_cost`: an estimate of what validation by a schema may cost
- :mod:`.schema_keywords`: the keywords of JSON Schema that a schema here may have, by the kind of their values
- :mod:`.schema_places`: which schemas of a document apply at one place of an instance
- :mod:`.schema_pool`: equal schemas of many endpoints, compiled and stored once
- :mod:`.service`: the external service of an endpoint: what is called over HTTPS, and how
- :mod:`.tool_names`: the names of endpoints as MCP tools
- :mod:`.openapi`: OpenAPI documents to endpoints and back
- :mod:`.recipes`: recipes: chains of calls, as data
"""
