"""MCP server. It offers the memory tools, memories as resources, and notifications of changes."""
