"""First request of the memory tool documentation, with two kinds of tool loop.

    python examples/basic.py loop        your own loop: messages.create, and tool_result for each tool call
    python examples/basic.py runner      the SDK's tool runner with MemoryTool

Needs `pip install 'anthropic>=2.11,<3'` and an API key in ANTHROPIC_API_KEY. Run it twice: the second time Claude
finds its notes from the first run. The notes are plain files in ./memory.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from anthropic import Anthropic

import retentive
from retentive import MemoryTool, tool_result

QUESTION = """I'm working on a Python web scraper that keeps crashing with a timeout error. \
Here's the problematic function:

```python
def fetch_page(url, retries=3):
    for i in range(retries):
        try:
            response = requests.get(url, timeout=5)
            return response.text
        except requests.exceptions.Timeout:
            if i == retries - 1:
                raise
            time.sleep(1)
```

Please help me debug this."""


def own_loop(client: Anthropic, *, model: str, location: str) -> None:
    """Send requests and run Claude's tool calls until a reply has no tool call."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    tools: list[Any] = [retentive.TOOL]
    with retentive.open(location) as memory:
        store = memory.store()
        while True:
            reply = client.messages.create(model=model, max_tokens=2048, messages=messages, tools=tools)
            show(reply)
            results = [tool_result(store, block) for block in reply.content if block.type == "tool_use"]
            if not results:
                return
            messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]


def runner(client: Anthropic, *, model: str, location: str) -> None:
    """Run the same conversation with the SDK's tool runner."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    tools = [MemoryTool(location)]
    for reply in client.beta.messages.tool_runner(model=model, max_tokens=2048, messages=messages, tools=tools):
        show(reply)


def show(reply: Any) -> None:
    """Print Claude's texts and memory commands."""
    for block in reply.content:
        if block.type == "text":
            print(block.text)
        elif block.type == "tool_use":
            print(f"[{block.name}] {json.dumps(block.input, ensure_ascii=False)}")


def main() -> None:
    """Run the conversation with one of the two loops."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loop", choices=["loop", "runner"], nargs="?", default="runner")
    parser.add_argument("--at", default="./memory", help="location of the memory, default ./memory")
    parser.add_argument("--model", default="claude-sonnet-5-5")
    options = parser.parse_args()
    with Anthropic() as client:
        converse = own_loop if options.loop == "loop" else runner
        converse(client, model=options.model, location=options.at)


if __name__ == "__main__":
    main()
