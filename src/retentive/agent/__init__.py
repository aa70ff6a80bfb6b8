"""Agents with a memory, and their parts: context management, prompts, a function tool, and long projects.

Importing this package does not import the SDK. Only `Agent` and `AsyncAgent` need the SDK. It is imported when one of
these classes is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retentive.agent.context import (
    ClearThinking,
    ClearToolUses,
    Compact,
    ContextManagement,
    InputTokens,
    ToolUses,
    memory_context,
)
from retentive.agent.errors import (
    AgentError,
    ApiFailed,
    ConnectionLost,
    NotAuthorized,
    Overloaded,
    RateLimited,
    RequestRefused,
    Stopped,
)
from retentive.agent.events import (
    Compaction,
    EditsApplied,
    Event,
    Finished,
    ServerToolCall,
    ServerToolResult,
    StreamRestarted,
    Text,
    ThinkingText,
    ToolCall,
    ToolReply,
    UsageReport,
)
from retentive.agent.prompts import LANGUAGES, memory_protocol, system_prompt, tidy_note, topic_guidance
from retentive.agent.responses import (
    AppliedEdit,
    ClearedThinking,
    ClearedToolUses,
    ConversationUsage,
    OtherEdit,
    TokenCount,
    TokenUsage,
    applied_edits,
    billed_tokens,
    compactions,
    iterations,
    token_count,
    usage,
)
from retentive.agent.tools import run_tools
from retentive.agent.turns import Budget
from retentive.integrations.function_tool import FunctionTool, function_tool

if TYPE_CHECKING:
    from retentive.agent.loop import Agent, AsyncAgent

__all__ = [
    "LANGUAGES",
    "Agent",
    "AgentError",
    "ApiFailed",
    "AppliedEdit",
    "AsyncAgent",
    "Budget",
    "ClearThinking",
    "ClearToolUses",
    "ClearedThinking",
    "ClearedToolUses",
    "Compact",
    "Compaction",
    "ConnectionLost",
    "ContextManagement",
    "ConversationUsage",
    "EditsApplied",
    "Event",
    "Finished",
    "FunctionTool",
    "InputTokens",
    "NotAuthorized",
    "OtherEdit",
    "Overloaded",
    "RateLimited",
    "RequestRefused",
    "ServerToolCall",
    "ServerToolResult",
    "Stopped",
    "StreamRestarted",
    "Text",
    "ThinkingText",
    "TokenCount",
    "TokenUsage",
    "ToolCall",
    "ToolReply",
    "ToolUses",
    "UsageReport",
    "applied_edits",
    "billed_tokens",
    "compactions",
    "function_tool",
    "iterations",
    "memory_context",
    "memory_protocol",
    "run_tools",
    "system_prompt",
    "tidy_note",
    "token_count",
    "topic_guidance",
    "usage",
]


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> object:
        """Import `Agent` and `AsyncAgent` on first access, because importing the SDK takes about a second."""
        if name in {"Agent", "AsyncAgent"}:
            from retentive.agent import loop  # noqa: PLC0415 - see above

            return getattr(loop, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
