// Drives every hosted route with the official TypeScript SDK: node every_route.mjs, with MEMORY_URL and MEMORY_KEY.
// Prints each request that it sent: method, path and status.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import Anthropic from "@anthropic-ai/sdk";

const requests = [];
async function recorded(url, init) {
  const response = await fetch(url, init);
  requests.push(`${init.method.toUpperCase()} ${new URL(url).pathname} ${response.status}`);
  return response;
}
const client = new Anthropic({ baseURL: process.env.MEMORY_URL, apiKey: process.env.MEMORY_KEY, fetch: recorded });
const stores = client.beta.memoryStores;
const { memories, memoryVersions: versions } = stores;
const keys = client.organization.apiKeys;
const unknown = `memstore_${"f".repeat(32)}`;
const sha256 = (text) => createHash("sha256").update(text).digest("hex");
const precondition = (text) => ({ type: "content_sha256", content_sha256: sha256(text) });

async function all(page) {
  const found = [];
  for await (const each of page) found.push(each);
  return found;
}

// The error of a call. The SDK sends a refused request once.
async function refused(kind, status, type, call) {
  const before = requests.length;
  const error = await call().then(() => assert.fail(`no ${type}`), (raised) => raised);
  assert.ok(error instanceof kind, error);
  assert.deepEqual([error.status, error.type], [status, type]);
  assert.match(error.requestID, /^req_/);
  assert.equal(error.error.request_id, error.requestID);
  assert.equal(error.workspaceID, "wrkspc_default");
  assert.equal(requests.length, before + 1);
  return error;
}
const missing = (call) => refused(Anthropic.NotFoundError, 404, "not_found_error", call);
const invalid = (call) => refused(Anthropic.BadRequestError, 400, "invalid_request_error", call);

async function drivesStores() {
  const made = await stores.create({ name: "Team", description: "What we know", metadata: { a: "1", b: "2" } });
  assert.deepEqual([made.type, made.name, made.description], ["memory_store", "Team", "What we know"]);
  assert.deepEqual([made.metadata, made.archived_at], [{ a: "1", b: "2" }, null]);
  assert.ok(made.created_at.endsWith("Z"));
  assert.deepEqual(await stores.retrieve(made.id), made);
  const changed = await stores.update(made.id, { name: "Us", description: "", metadata: { a: null } });
  assert.deepEqual([changed.name, changed.description, changed.metadata], ["Us", "", { b: "2" }]);
  const other = await stores.create({ name: "Us" });
  assert.notEqual(other.id, made.id);
  assert.deepEqual((await all(stores.list({ limit: 1 }))).map((each) => each.id), [other.id, made.id]);
  const since = { "created_at[gte]": other.created_at, "created_at[lte]": other.created_at };
  assert.ok((await all(stores.list(since))).some((each) => each.id === other.id));
  await missing(() => stores.retrieve(unknown));
  await missing(() => stores.update(unknown, { name: "x" }));
  await invalid(() => stores.create({ name: "" }));
  await invalid(() => stores.create({ name: "x", colour: "red" }));
  return [made.id, other.id];
}

async function drivesMemories(store) {
  const made = await memories.create(store, { path: "/x/a.md", content: "one\r\né", view: "full" });
  assert.deepEqual([made.type, made.path, made.content], ["memory", "/x/a.md", "one\r\né"]);
  assert.deepEqual([made.content_size_bytes, made.content_sha256], [7, sha256("one\r\né")]);
  assert.equal(made.memory_store_id, store);
  const basic = await memories.create(store, { path: "/y.md", content: "y" });
  assert.equal(basic.content, null);
  const at = { memory_store_id: store };
  assert.deepEqual(await memories.retrieve(made.id, at), made);
  assert.equal((await memories.retrieve(made.id, { ...at, view: "basic" })).content, null);
  const listed = await all(memories.list(store, { limit: 1, view: "full" }));
  assert.deepEqual(listed.map((each) => [each.path, each.content]), [["/x/a.md", "one\r\né"], ["/y.md", "y"]]);
  const level = await all(memories.list(store, { depth: 1, path_prefix: "/" }));
  assert.deepEqual(level.map((each) => [each.type, each.path]), [["memory_prefix", "/x/"], ["memory", "/y.md"]]);

  const edited = await memories.update(made.id, { ...at, content: "two", precondition: precondition("one\r\né") });
  assert.deepEqual([edited.id, edited.content_sha256], [made.id, sha256("two")]);
  const moved = await memories.update(made.id, { ...at, content: "three", path: "/z.md", view: "full" });
  assert.deepEqual([moved.id, moved.path, moved.content], [made.id, "/z.md", "three"]);
  const again = { ...at, content: "three", path: "/z.md", view: "full", precondition: precondition("two") };
  assert.deepEqual(await memories.update(made.id, again), moved);
  return [moved, basic];
}

async function refusesMemories(store, memory, other) {
  const at = { memory_store_id: store };
  const taken = (call) => refused(Anthropic.ConflictError, 409, "memory_path_conflict_error", call);
  const calls = [
    () => memories.create(store, { path: "/z.md", content: "" }),
    () => memories.create(store, { path: "/z.md/below", content: "" }),
    () => memories.update(other.id, { ...at, path: "/z.md" }),
  ];
  for (const call of calls) {
    const { error } = (await taken(call)).error;
    assert.deepEqual([error.conflicting_memory_id, error.conflicting_path], [memory.id, "/z.md"]);
  }
  const differs = (call) => refused(Anthropic.ConflictError, 409, "memory_precondition_failed_error", call);
  await differs(() => memories.update(memory.id, { ...at, content: "x", precondition: precondition("two") }));
  await differs(() => memories.delete(memory.id, { ...at, expected_content_sha256: sha256("two") }));
  assert.equal((await invalid(() => memories.update(memory.id, at))).errorCode, "invalid_input");
  for (const path of ["x", "/", "/a//b", "/a/", "/../x", "/\u{200b}"]) {
    await invalid(() => memories.create(store, { path, content: "" }));
  }
  await invalid(() => memories.create(store, { path: "/big", content: "x".repeat(102_401) }));
  await invalid(() => memories.create(store, { path: "/n", content: null }));
  await invalid(() => memories.list(store, { limit: 101 }));
  await invalid(() => memories.list(store, { page: "page_x" }));
  await invalid(() => memories.list(store, { path_prefix: "x" }));
  await missing(() => memories.retrieve(`mem_${"f".repeat(32)}`, at));
  await missing(() => memories.retrieve(memory.id, { memory_store_id: unknown }));
}

async function drivesVersions(store, memory, other) {
  const at = { memory_store_id: store };
  const removed = await memories.delete(other.id, { ...at, expected_content_sha256: sha256("y") });
  assert.deepEqual(removed, { id: other.id, type: "memory_deleted" });
  await missing(() => memories.delete(other.id, at));
  const operations = (await all(versions.list(store, { limit: 2 }))).map((each) => each.operation);
  assert.deepEqual(operations, ["deleted", "modified", "modified", "created", "created"]);
  const [current, edited, first] = await all(versions.list(store, { memory_id: memory.id, view: "full" }));
  assert.equal(current.id, memory.memory_version_id);
  assert.deepEqual([edited.content, first.content, first.path], ["two", "one\r\né", "/x/a.md"]);
  assert.equal(first.created_by.type, "api_actor");
  assert.equal((await all(versions.list(store, { api_key_id: first.created_by.api_key_id }))).length, 5);
  assert.deepEqual(await all(versions.list(store, { session_id: "sesn_none" })), []);
  const [deleted] = await all(versions.list(store, { operation: "deleted" }));
  assert.deepEqual([deleted.content_sha256, deleted.content_size_bytes, deleted.path], [null, null, "/y.md"]);
  assert.deepEqual(await versions.retrieve(first.id, at), first);
  const redacted = await versions.redact(first.id, at);
  assert.deepEqual([redacted.content, redacted.path, redacted.content_sha256], [null, null, null]);
  assert.ok(redacted.redacted_at.endsWith("Z"));
  assert.equal(redacted.redacted_by.type, "api_actor");
  assert.deepEqual(await versions.redact(first.id, at), redacted);
  await invalid(() => versions.redact(current.id, at));
  await missing(() => versions.retrieve(`memver_${"f".repeat(32)}`, at));
}

async function endsStores(store, other, memory) {
  const archived = await stores.archive(store);
  assert.ok(archived.archived_at.endsWith("Z"));
  assert.deepEqual(await stores.archive(store), archived);
  assert.deepEqual((await all(stores.list())).map((each) => each.id), [other]);
  assert.equal((await all(stores.list({ include_archived: true }))).length, 2);
  await invalid(() => stores.update(store, { name: "x" }));
  await invalid(() => memories.create(store, { path: "/new", content: "" }));
  await invalid(() => memories.update(memory.id, { memory_store_id: store, content: "x" }));
  assert.equal((await memories.delete(memory.id, { memory_store_id: store })).type, "memory_deleted");
  assert.deepEqual(await stores.delete(store), { id: store, type: "memory_store_deleted" });
  await missing(() => stores.retrieve(store));
}

async function drivesKeys() {
  const [key] = await all(keys.list());
  assert.deepEqual([key.type, key.status], ["api_key", "active"]);
  assert.deepEqual(key.scope, { type: "workspace", workspace_id: "wrkspc_default" });
  const { last_used_at, ...retrieved } = await keys.retrieve(key.id);
  assert.equal(retrieved.id, key.id);
  assert.equal((await keys.update(key.id, { name: "renamed" })).name, "renamed");
  await missing(() => keys.retrieve("apikey_unknown00000"));
  const wrong = client.withOptions({ apiKey: "wrong" });
  const call = () => wrong.beta.memoryStores.list();
  const error = await call().then(() => assert.fail(), (raised) => raised);
  assert.ok(error instanceof Anthropic.AuthenticationError, error);
  const elsewhere = () => stores.list({ workspace_id: "wrkspc_other" });
  await refused(Anthropic.PermissionDeniedError, 403, "permission_error", elsewhere);
}

const [store, other] = await drivesStores();
const [memory, second] = await drivesMemories(store);
await refusesMemories(store, memory, second);
await drivesVersions(store, memory, second);
await endsStores(store, other, memory);
await drivesKeys();
console.log(requests.join("\n"));
