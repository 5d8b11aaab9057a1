import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { ask } from "./app.ts";

const base = process.env.OPENAI_BASE_URL; // where strictreply serve-script serves
const options = { apiKey: "none", maxRetries: 0 };

const script = async (script: object) =>
  assert.equal((await fetch(`${base}/script`, { method: "POST", body: JSON.stringify(script) })).status, 200);
const get = async (path: string) => (await fetch(`${base}${path}`)).json() as Promise<any>;

test("one correction is enough", async () => {
  await script({ steps: ["missing_required"], then: { call: "search", args: { query: "tea" } } });
  assert.equal((await ask(new OpenAI(options), "Find tea.")).query, "tea");
  const { requests } = await get("/journal");
  assert.equal(requests.length, 2);
  assert.equal(requests[0].served.code, "args.required");
  assert.match(requests[1].correction, /query must be a string/);
});

test("no bad arguments get through", async () => {
  await script({ steps: [], then: "good" });
  for (const { name, kind } of await get("/faults")) {
    if (kind !== "args") continue;
    const client = new OpenAI({ ...options, defaultHeaders: { "x-strictreply-fault": name } });
    await assert.rejects(ask(client, "Find tea."), name);
  }
  const { requests } = await get("/journal");
  assert.ok(requests.filter((request: any) => request.served).length > 40); // the others are no faults of this tool
});
