// Signs in with the official TypeScript client, lists and writes: node sign_in.mjs legacy|2026-07-28 URL PORT
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";

const [revision, target, port] = process.argv.slice(2);
const redirectUrl = `http://127.0.0.1:${port}/callback`;
const answered = new Promise((resolve) => {
  const server = createServer((request, response) => {
    response.end("done");
    server.close();
    server.closeAllConnections();
    resolve(new URL(request.url, redirectUrl).searchParams);
  }).listen(Number(port), "127.0.0.1");
});
const kept = {};
const authProvider = {
  redirectUrl,
  clientMetadata: { client_name: "TypeScript", redirect_uris: [redirectUrl] },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
  redirectToAuthorization: (url) => console.log(String(url)),
};
const mode = revision === "legacy" ? "legacy" : { pin: revision };
const connecting = () => {
  const transport = new StreamableHTTPClientTransport(new URL(target), { authProvider });
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
  return { transport, client, connected: client.connect(transport) };
};
const first = connecting();
await assert.rejects(first.connected, UnauthorizedError);
await first.transport.finishAuth(await answered);
const { client, connected } = connecting();
await connected;
assert.ok((await client.listTools()).tools.some((tool) => tool.name === "memory_create"));
const result = await client.callTool({ name: "memory_create", arguments: { path: "/memories/ts", file_text: "tea" } });
assert.ok(!result.isError, result.content[0].text);
await client.close();
console.log("done");
