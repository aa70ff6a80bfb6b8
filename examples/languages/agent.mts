// An agent that remembers: node agent.mts "Please remember: ..."
import Anthropic from "@anthropic-ai/sdk";
import { memoryTool } from "./memory.mts";

const { MEMORY_URL, MEMORY_KEY, STORE } = process.env;
const memory = memoryTool({ url: MEMORY_URL!, key: MEMORY_KEY!, store: STORE! });
const runner = new Anthropic().beta.messages.toolRunner({
  model: "claude-sonnet-5-5",
  max_tokens: 2048,
  messages: [{ role: "user", content: process.argv[2]! }],
  tools: [memory],
  betas: ["context-management-2025-06-27"],
});
const answer = await runner.runUntilDone();
for (const block of answer.content) if (block.type === "text") console.log(block.text);
