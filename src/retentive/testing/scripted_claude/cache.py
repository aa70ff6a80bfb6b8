"""Prompt caching: which part of a prompt is read from the cache, and which part is written to it.

Rules of the API, as in "Prompt caching": a breakpoint is a block with `cache_control`. The field `cache_control` of the
request makes the last block a breakpoint. The prompt up to a breakpoint is stored. A later request reads the longest
stored prefix that ends at one of its breakpoints or at most 20 blocks before it. A prefix below 1,024 tokens is not
stored. Entries do not expire here; in the API they do after 5 minutes without use.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from retentive.testing.scripted_claude.messages import Block, Conversation
from retentive.testing.scripted_claude.tokens import (
    MESSAGE_TOKENS,
    block_tokens,
    prompt_tokens,
    system_tokens,
    tools_tokens,
)

MIN_TOKENS = 1_024
LOOK_BACK = 20
_JSON = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class CacheUse:
    """Tokens of a prompt that were read from the cache and written to it. All other tokens have the full price."""

    read: int = 0
    written: int = 0


UNCACHED = CacheUse()


class PromptCache:
    """Stored prefixes of one server, as digests. `use` is not thread-safe."""

    def __init__(self) -> None:
        self._stored: set[str] = set()

    def use(self, conversation: Conversation, cache_control: object) -> CacheUse:
        """Look up a prompt and store its prefixes."""
        positions = list(_positions(conversation))
        marked = [at for at, (_, _, block) in enumerate(positions) if block.get("cache_control")]
        if cache_control and positions:
            marked = sorted({*marked, len(positions) - 1})
        reachable = {at for mark in marked for at in range(max(0, mark - LOOK_BACK), mark + 1)}
        read = max((positions[at][1] for at in reachable if positions[at][0] in self._stored), default=0)
        large = [at for at in marked if positions[at][1] >= MIN_TOKENS]
        self._stored.update(positions[at][0] for at in large)
        return CacheUse(read, max(0, max((positions[at][1] for at in large), default=0) - read))


def _positions(conversation: Conversation) -> Iterator[tuple[str, int, Block]]:
    """Digest and size of the prompt up to each block, in the order tools, system prompt, messages."""
    digest, tokens, whole = hashlib.sha256(), 0, prompt_tokens(conversation)
    for block, size in _blocks(conversation):
        digest.update(_JSON.encode({name: value for name, value in block.items() if name != "cache_control"}).encode())
        tokens = min(tokens + size, whole)
        yield digest.hexdigest(), tokens, block


def _blocks(conversation: Conversation) -> Iterator[tuple[Block, int]]:
    before = 0
    for count, tool in enumerate(conversation.tools, 1):
        size = tools_tokens(conversation.tools[:count])
        yield tool, size - before
        before = size
    system = conversation.system
    parts = system if isinstance(system, list) else [{"type": "text", "text": system}] if system else []
    before = 0
    for count, part in enumerate(parts, 1):
        size = system_tokens(parts[:count])
        yield part if isinstance(part, Mapping) else {}, size - before
        before = size
    for message in conversation.messages:
        for count, block in enumerate(message.blocks):
            yield {"role": message.role, **block}, block_tokens(block) + (0 if count else MESSAGE_TOKENS)
