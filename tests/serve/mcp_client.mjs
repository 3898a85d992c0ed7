// The MCP SDK's own client talks to `eratos mcp`: argv[2] is the program.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const transport = new StdioClientTransport({
  command: process.argv[2],
  args: ["mcp", "deepseek-v3", "--cluster", "h100-sxm-128x8", "--set", "batch.global=4096"],
});
const client = new Client({ name: "judge", version: "1.0.0" });
await client.connect(transport);
assert.equal(client.getServerVersion().name, "eratos");
assert.ok(client.getServerCapabilities().tools);
assert.match(client.getInstructions(), /list_axes/);
await client.ping();

const { tools } = await client.listTools();
assert.ok(tools.length >= 12, `${tools.length} tools`);
for (const tool of tools) assert.equal(tool.inputSchema.type, "object");

const axes = await client.callTool({ name: "list_axes", arguments: {} });
assert.ok(!axes.isError);
assert.ok("tp" in JSON.parse(axes.content[0].text).axes);
const refused = await client.callTool({ name: "project", arguments: { change: { tp: 3 } } });
assert.ok(refused.isError);
await assert.rejects(client.callTool({ name: "shell", arguments: {} }), /unknown tool/);

// Cancelled by the client: the server goes on with the next call.
const cancelled = new AbortController();
const long = client.callTool({ name: "search", arguments: { axes: {}, rest: "all" } }, undefined, {
  signal: cancelled.signal,
});
setTimeout(() => cancelled.abort("enough"), 200);
await assert.rejects(long);
const began = Date.now();
assert.ok(!(await client.callTool({ name: "best", arguments: {} })).isError);
assert.ok(Date.now() - began < 10000);
await client.close();
console.log(`${tools.length} tools`);
