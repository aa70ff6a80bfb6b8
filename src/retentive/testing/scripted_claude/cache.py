"""Simulates prompt caching: computes how many tokens of a prompt are read from the cache and written to it.

The API has these rules (source: "Prompt caching"). A block with `cache_control` is a breakpoint. If the request itself
has a field `cache_control`, the last block of the prompt is a breakpoint too. The API stores the prompt up to each
breakpoint, if this prefix has at least 1,024 tokens. A later request reads the longest stored prefix that ends at a
breakpoint of this request, or at most 20 blocks before such a breakpoint. The API deletes stored prefixes after 5
minutes without use; this module keeps them.
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
    """Number of tokens of a prompt that were read from the cache, and number of tokens that were written to it."""

    read: int = 0
    written: int = 0


UNCACHED = CacheUse()


class PromptCache:
    """Cache of prompt prefixes, stored as digests. Not thread-safe."""

    def __init__(self) -> None:
        self._stored: set[str] = set()

    def use(self, conversation: Conversation, cache_control: object) -> CacheUse:
        """Look up a prompt, store its prefixes, and return how many tokens were read and how many were written."""
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
    """Yield each block with the digest and the size of the prompt up to this block.

    The order of a prompt is: tools, system prompt, messages.
    """
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
