"""How large the context of a conversation is, as the API counts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retentive.agent.context import ContextManagement
from retentive.agent.responses import TokenCount, token_count
from retentive.integrations.messages import TOOL

if TYPE_CHECKING:
    from anthropic import Anthropic

_NEXT = {"role": "user", "content": "?"}  # some models take no conversation that ends with the assistant


@dataclass(frozen=True, slots=True)
class Counting:
    """What goes along with each request of a conversation, and counting it by the API."""

    client: Anthropic
    model: str
    system: str
    context: ContextManagement | None

    def count(self, messages: Sequence[Mapping[str, Any]]) -> TokenCount:
        """The tokens of the next request, with a short message in it. Raises `AgentError`."""
        from retentive.agent import sdk  # noqa: PLC0415 - imports the SDK

        fields: dict[str, Any] = {"model": self.model, "messages": [*messages, _NEXT], "tools": [TOOL]}
        if self.system:
            fields["system"] = self.system
        if self.context is not None:
            fields |= {"context_management": self.context.request(), "betas": self.context.betas}
        with sdk.api_errors():
            return token_count(self.client.beta.messages.count_tokens(**fields))
