// The npm clients talk to tests/models/model_server.py, so that the server is judged, and send again
// what eratos sent: argv[2] is the server's origin, argv[3] a file with eratos's bodies.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";

const [origin, file] = process.argv.slice(2);
const bodies = JSON.parse(readFileSync(file, "utf8"));
const openai = new OpenAI({ baseURL: origin + "/v1", apiKey: "sk-judge-judge", maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: origin, apiKey: "sk-judge-judge", maxRetries: 0 });

for (const body of bodies.openai) {
  // The client's own accumulator puts the deltas of parallel calls together.
  const runner = openai.chat.completions.stream(body);
  const streamed = (await runner.finalChatCompletion()).choices[0];
  const { stream, stream_options, ...plain } = body;
  const whole = (await openai.chat.completions.create(plain)).choices[0];
  for (const choice of [streamed, whole]) {
    assert.equal(choice.finish_reason, "tool_calls");
    assert.deepEqual(
      choice.message.tool_calls.map((c) => [c.function.name, JSON.parse(c.function.arguments)]),
      [["project", { change: { tp: 4, note: "é<&>\n" } }], ["best", {}]],
    );
  }
}
for (const body of bodies.anthropic) {
  const streamed = await anthropic.messages.stream(body).finalMessage();
  const whole = await anthropic.messages.create({ ...body, stream: false });
  for (const message of [streamed, whole]) {
    assert.equal(message.stop_reason, "tool_use");
    assert.deepEqual(
      message.content.filter((b) => b.type === "tool_use").map((b) => [b.name, b.input]),
      [["project", { change: { tp: 4, note: "é<&>\n" } }], ["best", {}]],
    );
  }
}
console.log(`${bodies.openai.length} and ${bodies.anthropic.length} requests`);
