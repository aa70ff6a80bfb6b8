"""Agents with a memory, and their parts: context management, prompts, and a function tool.

Importing this package does not import the SDK. Only `Agent` and `AsyncAgent` need the SDK. It is imported when one of
these classes is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retentive.agent.events import (
    AgentError,
    Compaction,
    EditsApplied,
    Event,
    Finished,
    OtherBlock,
    Stopped,
    StreamRestarted,
    Text,
    TokenUsage,
    ToolCall,
    ToolReply,
    UsageReport,
)
from retentive.agent.prompts import LANGUAGES, memory_protocol, system_prompt, tidy_note, topic_guidance
from retentive.agent.request import Budget, betas_of, memory_context
from retentive.agent.tidy import Tidied, tidy_store, tidy_store_async
from retentive.agent.tools import run_tools
from retentive.integrations.function_tool import FunctionTool, function_tool

if TYPE_CHECKING:
    from retentive.agent.loop import Agent, AsyncAgent

__all__ = [
    "LANGUAGES",
    "Agent",
    "AgentError",
    "AsyncAgent",
    "Budget",
    "Compaction",
    "EditsApplied",
    "Event",
    "Finished",
    "FunctionTool",
    "OtherBlock",
    "Stopped",
    "StreamRestarted",
    "Text",
    "Tidied",
    "TokenUsage",
    "ToolCall",
    "ToolReply",
    "UsageReport",
    "betas_of",
    "function_tool",
    "memory_context",
    "memory_protocol",
    "run_tools",
    "system_prompt",
    "tidy_note",
    "tidy_store",
    "tidy_store_async",
    "topic_guidance",
]


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> object:
        """Import `Agent` and `AsyncAgent` on first access, because importing the SDK takes about a second."""
        if name in {"Agent", "AsyncAgent"}:
            from retentive.agent import loop  # noqa: PLC0415 - see above

            return getattr(loop, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
