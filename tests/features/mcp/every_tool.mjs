// Calls every tool with the official TypeScript client: node every_tool.mjs legacy|2026-07-28 URL|COMMAND [ARGUMENT...]
import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [revision, target, ...args] = process.argv.slice(2);
const mode = revision === "legacy" ? "legacy" : { pin: revision };
const client = new Client(
  { name: "test", version: "1" },
  { versionNegotiation: { mode }, capabilities: { elicitation: { form: {} } } },
);
const asked = [];
client.setRequestHandler("elicitation/create", async (request) => {
  asked.push(request.params.message);
  return { action: "accept", content: { confirm: true } };
});
const headers = { authorization: `Bearer ${process.env.MEMORY_KEY}` };
const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } })
  : new StdioClientTransport({ command: target, args, env: process.env });
await client.connect(transport);

const used = new Set();
async function call(name, given = {}) {
  used.add(name);
  const result = await client.callTool({ name, arguments: given });
  assert.ok(!result.isError, result.content[0].text);
  return result.content[0].text;
}

const path = "/memories/d/a.md";
await call("memory_create", { path, file_text: "tea\n" });
assert.match(await call("memory_view", { path }), /1\ttea/);
await call("memory_str_replace", { path, old_str: "tea", new_str: "coffee" });
await call("memory_insert", { path, insert_line: 0, insert_text: "drinks" });
assert.match(await call("memory_diff"), /\+drinks/);
assert.equal(await call("memory_undo"), `reverted ${path}`);
assert.match(await call("memory_search", { query: "coffee" }), /1 of 1 memories/);
assert.match(await call("memory_recall", { question: "coffee" }), /  coffee/);
const found = JSON.parse(await call("search", { query: "coffee" })).results[0];
assert.equal(JSON.parse(await call("fetch", { id: found.id })).text, "coffee\n");
assert.equal((await client.readResource({ uri: found.url })).contents[0].text, "coffee\n");
assert.equal((await client.listResources()).resources[0].uri, found.url);
await call("memory_rename", { old_path: path, new_path: "/memories/d/b.md" });
for (let n = 0; n < 5; n++) await call("memory_create", { path: `/memories/d/${n}`, file_text: "x" });
assert.equal(await call("memory_delete", { path: "/memories/d" }), "Successfully deleted /memories/d");
assert.deepEqual(asked, ["Delete 6 memories below /memories/d?"]);
assert.match(await call("memory_history", { limit: 1 }), /deleted/);
const missing = await client.callTool({ name: "memory_view", arguments: { path } });
assert.equal(missing.isError, true);
const { tools } = await client.listTools();
assert.deepEqual([...used].sort(), tools.map((tool) => tool.name).sort());
await client.close();
console.log("done");
