// The memory tool for agents in TypeScript: each call of the model goes to a retentive server.
import { ToolError } from "@anthropic-ai/sdk/lib/tools/ToolError";
import { betaMemoryTool } from "@anthropic-ai/sdk/helpers/beta/memory";

type Tool = ReturnType<typeof betaMemoryTool>;
type Server = { url: string; key: string; store: string; timeoutMs?: number };

/** The tool, for `toolRunner({ tools: [memoryTool(...)] })`. A call that is sent again is carried out once. */
export function memoryTool(server: Server): Tool {
  const newId = () => `toolu_${crypto.randomUUID().replaceAll("-", "")}`;
  const send = (input: object) => forward(server, newId(), input);
  const tool = betaMemoryTool({ view: send, create: send, str_replace: send, insert: send, delete: send, rename: send });
  return { ...tool, run: (input, context) => forward(server, context?.toolUse.id ?? newId(), input) };
}

async function forward(server: Server, id: string, input: object, mayRepeat = true): Promise<string> {
  const answer = await post(server, JSON.stringify({ type: "tool_use", id, name: "memory", input }));
  if (answer?.status === 200 && answer.body.is_error) throw new ToolError(answer.body.content);
  if (answer?.status === 200) return answer.body.content;
  if (mayRepeat && (!answer || [429, 502, 503, 504].includes(answer.status))) {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return forward(server, id, input, false);
  }
  if (!answer) throw new Error("no memory server answers at the URL");
  throw new Error(`the memory server answered ${answer.status}: ${answer.body?.error?.message}`);
}

/** The answer, or undefined without an answer of such a server. */
async function post({ url, key, store, timeoutMs = 30_000 }: Server, body: string) {
  try {
    const answer = await fetch(`${url}/v1/memory_stores/${encodeURIComponent(store)}/tool`, {
      method: "POST",
      redirect: "manual", // the key is for this server only
      headers: { "x-api-key": key, "content-type": "application/json" },
      body,
      signal: AbortSignal.timeout(timeoutMs),
    });
    const found = await answer.json();
    return answer.ok && typeof found.content !== "string" ? undefined : { status: answer.status, body: found };
  } catch {
    return undefined;
  }
}
