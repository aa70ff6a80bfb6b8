"""Loop over the Gemini API with a memory: `python gemini_loop.py "Who am I asking about?"`."""

import sys
from typing import Any

from google import genai
from google.genai import types

from retentive.agent import FunctionTool, function_tool


def ask(client: genai.Client, tool: FunctionTool, question: str, model: str = "gemini-3.8-flash") -> str:
    """Return the answer to a question. The model reads and changes the memory on the way."""
    declared = {"name": tool.name, "description": tool.description, "parameters_json_schema": tool.parameters}
    config: Any = {"tools": [{"function_declarations": [declared]}]}
    contents: list[Any] = [types.UserContent(question)]
    while True:
        response: Any = client.models.generate_content(model=model, contents=contents, config=config)
        contents.append(response.candidates[0].content)  # with its thought signatures
        if not response.function_calls:
            return str(response.text)
        results = []
        for call in response.function_calls:
            reply = tool.reply(call.args, call_id=call.id, run=response.response_id)
            said = {"error" if reply.is_error else "output": reply.text}
            results.append(types.FunctionResponse(id=call.id, name=call.name, response=said))
        contents.append(types.UserContent([types.Part(function_response=result) for result in results]))


if __name__ == "__main__":
    print(ask(genai.Client(), function_tool("./memory", actor="user:ada"), sys.argv[1]))
