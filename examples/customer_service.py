"""A customer service that remembers each customer, and knows the rules of the house.

    python examples/customer_service.py ada

It needs `pip install 'retentive[anthropic]'` and a key in ANTHROPIC_API_KEY. What you type is what the customer says;
an empty line or the end of the input ends the visit. Come again later, or after a crash: Claude finds what it wrote
down. Each customer has a memory store of their own, so nothing of one can show up with another; the rules of the house
are a store that everybody reads and nobody here can change.
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


def serve(customer: str, said: Iterable[str], *, at: str, model: str) -> None:
    """Talk to one customer until there is nothing more to say."""
    with retentive.open(at) as place:
        house = place.store("house")
        if not house.usage().memories:
            house.execute({"command": "create", "path": "/memories/rules.md", "file_text": RULES}, actor="job:setup")
        memory = Mounts(
            {
                "/memories": place.store(f"customer-{customer}", name=customer),
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
            for text in said:
                answer(agent, text)


def answer(agent: Agent, text: str) -> None:
    """Say something to Claude and show what it answers, as it comes."""
    try:
        for event in agent.run(text):
            if isinstance(event, Text):
                print(event.text, end="", flush=True)
            elif isinstance(event, ToolCall):
                print(" ...")
            elif isinstance(event, Finished):
                print("" if event.reason == "end_turn" else f"\n[{event.reason}]")
    except AgentError as error:
        hint = " Please say it again." if error.retryable else ""
        print(f"\nSorry, that did not work ({error.code}).{hint}")


def typed() -> Iterable[str]:
    """The lines a customer types, until an empty one."""
    for line in sys.stdin:
        if not line.strip():
            return
        yield line.strip()


def main() -> None:
    """Serve one customer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("customer", help="who it is: the name of a memory store")
    parser.add_argument("--at", default="./memory", help="where the memory lies, default ./memory")
    parser.add_argument("--model", default="claude-sonnet-5-5")
    options = parser.parse_args()
    serve(options.customer, typed(), at=options.at, model=options.model)


if __name__ == "__main__":
    main()
