"""HTTP server: the API of the hosted memory stores and our own routes. Needs the extra `server`.

One table (`table/`) has every route. The handlers translate a request into operations of the library and render the
results; they contain no rules.
"""
