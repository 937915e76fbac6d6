"""
What a host offers and how it decides what a request means: AGTP-API.

- :mod:`.binding`: one thing that can be called, and what calling it needs
- :mod:`.endpoint`, :mod:`.semantic`: the operator's endpoints
- :mod:`.loading`, :mod:`.declaration`: endpoints from TOML, with every problem's file and line
- :mod:`.schemas`, :mod:`.schema_rules`, :mod:`.schema_references`: JSON Schemas: what they may contain, what their
  references lead to; compiled once
- :mod:`.table`: which binding a method and path select
- :mod:`.policy`: which methods are accepted, under which other names
- :mod:`.manifest`: the server manifest
- :mod:`.built_in_contracts`: the contracts of the host's own endpoints, by the rules that operators' are held to
- :mod:`.catalog_diff`: what changes between two versions of the method catalog, and what of a deployment it breaks
- :mod:`.expression`: the expressions of recipes: JMESPath, compiled when a recipe is read
- :mod:`.foreign_schemas`: whether what other hosts publish is JSON Schema 2020-12, and refers to nothing outside
- :mod:`.handler_reference`: the ``handler`` table of an endpoint: one of three binding kinds
- :mod:`.manifest_rules`: the rules that a server manifest is held to, each with its name
- :mod:`.manifest_validation`: whether a document is a server manifest: every fault, with a JSON pointer
- :mod:`.metaschema`: where a schema breaks its dialect: every place, with a readable path
- :mod:`.method_parameters`: parameters without which no endpoint of some methods may exist
- :mod:`.openapi_export`: a manifest's endpoints as OpenAPI 3.1, for readers who do not speak AGTP yet
- :mod:`.openapi_import`: OpenAPI 3.0 and 3.1 to endpoint declarations with external_service handlers
- :mod:`.openapi_names`: methods and paths for the operations of an OpenAPI document
- :mod:`.openapi_operation`: one operation of an OpenAPI document: its input, its output, its errors and its upstream
- :mod:`.openapi_schemas`: schemas of an OpenAPI document as this host takes them: JSON Schema 2020-12, closed,
  nothing fetched
- :mod:`.openapi_stubs`: function stubs for imported operations: a service that moves in, instead of being called
- :mod:`.openapi_text`: reading a large document from outside, JSON or YAML, into plain values
- :mod:`.openapi_upstream`: what an imported endpoint calls: address, headers, and the upstream's names of its input
- :mod:`.pattern_automaton`: how large the deterministic automaton of a regular expression becomes: what decides what
  a match costs
- :mod:`.pattern_syntax`: regular expressions read as far as :mod:`.pattern_automaton` follows them
- :mod:`.recipe`: the recipe: a named, versioned chain of calls to endpoints of the same host
- :mod:`.recipe_book`: the recipes of a host, as everybody but the composition handler looks at them
- :mod:`.recipe_graph`: what the steps of recipes lead to: endpoints, and through them other recipes
- :mod:`.recipe_loading`: recipes from one TOML file: every problem, with file and line, and whatever is sound besides
- :mod:`.recipe_settling`: recipes settled with endpoints: what is left is callable in every step
- :mod:`.reserved`: methods and paths that the host itself is bound to; no endpoint may be declared there
- :mod:`.schema_cost`: what checking a value against a schema may cost, told beforehand
- :mod:`.schema_keywords`: the keywords of JSON Schema that a schema here may have, by what stands in them
- :mod:`.schema_places`: where the schemas of one document lead, and how many apply at one place of an instance
- :mod:`.service`: the external service of an endpoint: what is called over HTTPS, and how
- :mod:`.toml_file`: from a TOML file to its document, or to the one problem that stands in the way
- :mod:`.toml_lines`: where the keys of a TOML document stand: what its own parser does not tell
- :mod:`.toml_text`: writing TOML: tables as headers, everything inside a list on one line
- :mod:`.tool_names`: how an endpoint looks as an MCP tool
"""
