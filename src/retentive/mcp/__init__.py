"""MCP server: the memory tools, the memories as resources, and their changes, for clients of the protocol."""
