"""Models of the HTTP interface: each request and each answer, once for the server, its client and OpenAPI."""
