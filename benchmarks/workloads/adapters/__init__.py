"""Adapters: one file for each package, with the systems it has. Peers are imported only when a store is opened."""

from __future__ import annotations

from workloads.adapters import agentfs, basic_memory, deepagents, langgraph, mcp_memory, mem0, retentive, sdk

SYSTEMS = tuple(
    system
    for module in (retentive, sdk, langgraph, deepagents, agentfs, mcp_memory, basic_memory, mem0)
    for system in module.SYSTEMS
)
