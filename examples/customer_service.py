"""Customer service agent with a memory for each customer and shared house rules.

    python examples/customer_service.py ada

Needs `pip install 'anthropic>=2.11,<3'` and an API key in ANTHROPIC_API_KEY. Type the customer's messages; an empty
line or the end of the input ends the visit. In a later visit, also after a crash, Claude finds its notes. Each customer
has a separate memory store, so no customer sees the data of another. The house rules are a shared, read-only store.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

import retentive
from retentive import Mounts
from retentive.agent import Agent, AgentError, Budget, Finished, Text, ToolCall

SYSTEM = """You are the customer service of a small tea shop. In your memory are notes about the customer you talk to,
and in /memories/house the rules of the house, which you follow. Be brief and friendly. Never promise what the rules do
not allow. Do not write down card numbers or passwords."""
RULES = """# Rules of the house
- Tea can be sent back within 30 days, opened or not.
- Refunds go to where the money came from, within 5 days.
- Shipping is free from 40 euros.
"""


def serve(customer: str, messages: Iterable[str], *, location: str, model: str) -> None:
    """Answer the messages of one customer."""
    with retentive.open(location) as connection:
        house = connection.store("house")
        if not house.usage().memories:
            house.create("/memories/rules.md", RULES, actor="job:setup")
        memory = Mounts(
            {
                "/memories": connection.store(f"customer-{customer}", name=customer),
                "/memories/house": house.read_only(),
            }
        )
        agent = Agent(
            memory=memory,
            model=model,
            system=SYSTEM,
            topic="this customer",
            budget=Budget(max_turns=20, max_tokens=2_000),
            stream=True,
        )
        with agent:
            for text in messages:
                answer(agent, text)


def answer(agent: Agent, text: str) -> None:
    """Send a message to Claude and print the answer as it streams in."""
    try:
        for event in agent.run(text):
            if isinstance(event, Text):
                print(event.text, end="", flush=True)
            elif isinstance(event, ToolCall):
                print(" ...")
            elif isinstance(event, Finished):
                print("" if event.reason == "end_turn" else f"\n[{event.reason}]")
    except AgentError as error:
        hint = " Please try again." if error.retryable else ""
        print(f"\nSorry, that did not work ({error.code}).{hint}")


def input_lines() -> Iterable[str]:
    """Read lines from standard input up to the first empty line."""
    for line in sys.stdin:
        if not line.strip():
            return
        yield line.strip()


def main() -> None:
    """Serve one customer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("customer", help="name of the customer, used in the key of the memory store")
    parser.add_argument("--at", default="./memory", help="location of the memories, default ./memory")
    parser.add_argument("--model", default="claude-sonnet-5-5")
    options = parser.parse_args()
    serve(options.customer, input_lines(), location=options.at, model=options.model)


if __name__ == "__main__":
    main()
