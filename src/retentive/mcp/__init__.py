"""MCP server with the memory tools, memories as resources, and notifications of changes."""
