"""
OpenAPI documents to endpoints, and endpoints to OpenAPI documents.

- :mod:`.responses`: responses: the envelope of results, refusals, and common header fields
- :mod:`.bodies`: request bodies and parameter styles, in the words of an external service's handler table
- :mod:`.components`: schemas as components of a document, one for each definition
- :mod:`.export`: export to OpenAPI 3.1 for HTTP clients: a whole manifest, or what one caller may call
- :mod:`.fields`: the fields of a request body, gathered from the parts and alternatives of its schema
- :mod:`.importer`: OpenAPI 3.0 and 3.1 to endpoint declarations with external_service handlers
- :mod:`.inputs`: the input of an operation: parameters and body as one closed object
- :mod:`.names`: methods and paths for the operations of an OpenAPI document
- :mod:`.operation`: one operation of an OpenAPI document: its input, its output, its errors and its upstream
- :mod:`.operations`: the operations of an exported document: endpoints and hosted tools
- :mod:`.http_methods`: the HTTP method and path that carry an operation
- :mod:`.prose`: texts without the HTML that descriptions have
- :mod:`.schemas`: schemas of an OpenAPI document as this host takes them: JSON Schema 2020-12, closed,
  nothing fetched
- :mod:`.shared_definitions`: definitions that many endpoints of one import share
- :mod:`.stubs`: function stubs for imported operations, to implement a service here instead of calling it
- :mod:`.document_text`: a bounded parser of large JSON or YAML documents
- :mod:`.upstream`: the upstream of an imported endpoint: address, headers, and its names of the input
"""
