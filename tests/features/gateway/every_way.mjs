// The official SDK through the gateway: create, stream and beta, two questions each, with a tool of the app.
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({
  apiKey: "sk",
  baseURL: process.env.GATEWAY,
  maxRetries: 0,
  defaultHeaders: { "x-retentive-key": process.env.KEY },
});
const weather = { name: "weather", input_schema: { type: "object", properties: { city: { type: "string" } } } };
const asked = (messages) => ({
  model: "claude-test",
  max_tokens: 999,
  tools: [weather, { type: "memory_20250818", name: "memory" }],
  messages,
});
const ways = {
  create: (messages) => client.messages.create(asked(messages)),
  stream: (messages) => client.messages.stream(asked(messages)).finalMessage(),
  beta: (messages) => client.beta.messages.create(asked(messages)),
  "beta stream": (messages) => client.beta.messages.stream(asked(messages)).finalMessage(),
};
for (const [name, ask] of Object.entries(ways)) {
  const messages = [];
  for (const question of [`hello ${name}`, "bye"]) {
    messages.push({ role: "user", content: question });
    for (;;) {
      const answer = await ask(messages);
      messages.push({ role: "assistant", content: answer.content });
      if (answer.stop_reason !== "tool_use") {
        console.log(name, answer.content.map((block) => block.text ?? "").join(""));
        break;
      }
      const calls = answer.content.filter((block) => block.type === "tool_use");
      const results = calls.map((call) => ({ type: "tool_result", tool_use_id: call.id, content: "sunny" }));
      messages.push({ role: "user", content: results });
    }
  }
}
