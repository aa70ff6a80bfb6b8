// Runs the call of each line of standard input, and prints its result as a line.
import { createInterface } from "node:readline";
import { memoryTool } from "./memory.mts";

for await (const line of createInterface({ input: process.stdin })) {
  const { url, key, store, timeout, block, by_sdk } = JSON.parse(line);
  const tool = memoryTool({ url, key, store, timeoutMs: timeout * 1000 });
  let result;
  try {
    const content = await tool.run(block.input, by_sdk ? undefined : { toolUse: block });
    result = { content, is_error: false };
  } catch (error) {
    result = error.name === "ToolError" ? { content: error.content, is_error: true } : { failed: error.message };
  }
  console.log(JSON.stringify(result));
}
