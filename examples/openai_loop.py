"""Loop over OpenAI's Responses API with a memory: `python openai_loop.py "Who am I asking about?"`."""

import sys
from typing import Any

from openai import OpenAI

from retentive.agent import FunctionTool, function_tool


def ask(client: OpenAI, tool: FunctionTool, question: str, model: str = "gpt-6.2-sol") -> str:
    """Return the answer to a question. The model reads and changes the memory on the way."""
    conversation: list[Any] = [{"role": "user", "content": question}]
    while True:
        offered: list[Any] = [{"type": "function", **tool.definition}]
        response = client.responses.create(model=model, input=conversation, tools=offered)
        conversation += response.output
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return response.output_text
        for call in calls:
            reply = tool.reply(call.arguments, call_id=call.call_id, run=response.id)
            conversation.append({"type": "function_call_output", "call_id": call.call_id, "output": reply.text})


if __name__ == "__main__":
    print(ask(OpenAI(), function_tool("./memory", actor="user:ada", strict=True), sys.argv[1]))
