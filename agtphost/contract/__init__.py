"""
What a host offers and how it decides what a request means: AGTP-API.

- :mod:`.binding`: one thing that can be called, and what calling it needs
- :mod:`.carried`: the EXECUTE that calls a hosted tool, and where it is sent
- :mod:`.endpoint`, :mod:`.semantic`: the operator's endpoints
- :mod:`.loading`, :mod:`.declaration`: endpoints from TOML, with every problem's file and line
- :mod:`.schemas`, :mod:`.schema_rules`, :mod:`.schema_references`: JSON Schemas: what they may contain, what their
  references lead to; compiled once
- :mod:`.table`: which binding a method and path select
- :mod:`.policy`: which methods are accepted, under which other names
- :mod:`.examples`: what to write for a member of a file, where a finding has no better answer
- :mod:`.hints`: what a handler's own type hints and docstring say of its endpoint, where its TOML says nothing
- :mod:`.input_shape`: what a record keeps of an input: which members were there, and of which type
- :mod:`.manifest`: the server manifest; :mod:`.manifest_parts`: one of thousands of endpoints in several documents
- :mod:`.built_in_contracts`: the contracts of the host's own endpoints, by the rules that operators' are held to
- :mod:`.catalog_diff`: what changes between two versions of the method catalog, and what of a deployment it breaks
- :mod:`.definitions`: definitions that the schemas of many endpoints share, in a file beside them
- :mod:`.grantable`: what a grant can name here
- :mod:`.grants`: one grant: what it names, how long it holds, and who said so
- :mod:`.rights`: what the host lets an agent do: grants, which narrow what document and certificate give
- :mod:`.handler_reference`: the ``handler`` table of an endpoint: one of three binding kinds
- :mod:`.manifest_rules`: the rules that a server manifest is held to, each with its name
- :mod:`.manifest_validation`: whether a document is a server manifest: every fault, with a JSON pointer
- :mod:`.metaschema`: where a schema breaks its dialect, and whether it refers to nothing outside
- :mod:`.method_parameters`: parameters without which no endpoint of some methods may exist
- :mod:`.pattern_automaton`: how large the deterministic automaton of a regular expression becomes: what decides what
  a match costs
- :mod:`.pattern_syntax`: regular expressions read as far as :mod:`.pattern_automaton` follows them
- :mod:`.prices`: what calls take, as endpoints declare it and the operator estimates it
- :mod:`.request_format`: how the input of an external service becomes its HTTP request
- :mod:`.reserved`: methods and paths that the host itself is bound to; no endpoint may be declared there
- :mod:`.schema_check`: whether schemas that share definitions can be compiled, without compiling them
- :mod:`.schema_cost`: what checking a value against a schema may cost, told beforehand
- :mod:`.schema_keywords`: the keywords of JSON Schema that a schema here may have, by what stands in them
- :mod:`.schema_places`: where the schemas of one document lead, and how many apply at one place of an instance
- :mod:`.schema_pool`: equal schemas of many endpoints, compiled once and kept once
- :mod:`.service`: the external service of an endpoint: what is called over HTTPS, and how
- :mod:`.tool_names`: how an endpoint looks as an MCP tool
- :mod:`.openapi`: OpenAPI documents to endpoints and back
- :mod:`.recipes`: recipes: chains of calls, as data
"""
