"""HTTP server with the API of the hosted memory stores and with our own routes. Needs the extra `server`.

The table in `table/` lists every route. A handler translates a request into operations of the library and renders their
results. Handlers contain no rules about memories.
"""
