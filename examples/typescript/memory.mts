// The memory tool for agents in TypeScript: each call of the model goes to a retentive server.
import { ToolError } from "@anthropic-ai/sdk/lib/tools/ToolError";
import { betaMemoryTool } from "@anthropic-ai/sdk/helpers/beta/memory";

type Tool = ReturnType<typeof betaMemoryTool>;
type Server = { url: string; key: string; store: string };

/** The tool, for `toolRunner({ tools: [memoryTool(...)] })`. A call that is sent again is carried out once. */
export function memoryTool(server: Server): Tool {
  const send = (input: object) => forward(server, crypto.randomUUID(), input);
  const tool = betaMemoryTool({ view: send, create: send, str_replace: send, insert: send, delete: send, rename: send });
  return { ...tool, run: (input, context) => forward(server, context?.toolUse.id ?? crypto.randomUUID(), input) };
}

async function forward(server: Server, id: string, input: object, attempts = 4): Promise<string> {
  const body = JSON.stringify({ type: "tool_use", id, name: "memory", input });
  for (let attempt = 1; ; attempt++) {
    const answer = await fetch(`${server.url}/v1/memory_stores/${server.store}/tool`, {
      method: "POST",
      headers: { "x-api-key": server.key, "content-type": "application/json" },
      body,
    }).catch((error: unknown) => (attempt < attempts ? undefined : Promise.reject(error)));
    if (answer?.ok) {
      const result = (await answer.json()) as { content: string; is_error?: boolean };
      if (result.is_error) throw new ToolError(result.content);
      return result.content;
    }
    if (answer && (answer.status < 500 || attempt === attempts)) throw new Error(`the memory answered ${answer.status}`);
    await new Promise((resolve) => setTimeout(resolve, 250 * 2 ** attempt));
  }
}
