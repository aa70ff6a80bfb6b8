"""The first request of the memory tool documentation, and the tool loop behind it, written in two ways.

    python examples/basic.py loop        your own loop: messages.create, and tool_result for what Claude asks
    python examples/basic.py runner      the SDK's tool runner, with MemoryTool among its tools

It needs `pip install 'retentive[anthropic]'` and a key in ANTHROPIC_API_KEY. Run it twice: the second time Claude
finds what it wrote down the first time. What that is lies in ./memory, as plain files.
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


def own_loop(client: Anthropic, *, model: str, at: str) -> None:
    """Ask, run what Claude calls, send the results back; until Claude calls nothing more."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    tools: list[Any] = [retentive.TOOL]
    with retentive.open(at) as memory:
        store = memory.store()
        while True:
            reply = client.messages.create(model=model, max_tokens=2048, messages=messages, tools=tools)
            show(reply)
            results = [tool_result(store, block) for block in reply.content if block.type == "tool_use"]
            if not results:
                return
            messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]


def runner(client: Anthropic, *, model: str, at: str) -> None:
    """The same, with the loop left to the SDK."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    replies = client.beta.messages.tool_runner(model=model, max_tokens=2048, messages=messages, tools=[MemoryTool(at)])
    for reply in replies:
        show(reply)


def show(reply: Any) -> None:
    """Print what Claude says and what it does with its memory."""
    for block in reply.content:
        if block.type == "text":
            print(block.text)
        elif block.type == "tool_use":
            print(f"[{block.name}] {json.dumps(block.input, ensure_ascii=False)}")


def main() -> None:
    """Run one of the two ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=["loop", "runner"], nargs="?", default="runner")
    parser.add_argument("--at", default="./memory", help="where the memory lies, default ./memory")
    parser.add_argument("--model", default="claude-sonnet-5-5")
    options = parser.parse_args()
    with Anthropic() as client:
        way = own_loop if options.way == "loop" else runner
        way(client, model=options.model, at=options.at)


if __name__ == "__main__":
    main()
