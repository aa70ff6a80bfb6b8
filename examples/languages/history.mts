// The hosted-API client of the SDK on a retentive server: list memories, edit one, and read its history.
import Anthropic from "@anthropic-ai/sdk";

const { MEMORY_URL, MEMORY_KEY, STORE } = process.env;
const { memories, memoryVersions } = new Anthropic({ baseURL: MEMORY_URL, apiKey: MEMORY_KEY }).beta.memoryStores;
for await (const found of memories.list(STORE!, { view: "full" })) {
  if (found.type !== "memory") continue;
  const content = `${found.content}- likes tea\n`;
  const precondition = { type: "content_sha256" as const, content_sha256: found.content_sha256 };
  await memories.update(found.id, { memory_store_id: STORE!, content, precondition });
  for await (const version of memoryVersions.list(STORE!, { memory_id: found.id })) {
    console.log(found.path, version.operation, version.content_size_bytes);
  }
}
