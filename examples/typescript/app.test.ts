import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { ask } from "./app.ts";

const base = process.env.OPENAI_BASE_URL; // where strictreply serve-script serves
const options = { apiKey: "none", maxRetries: 0 };

const script = async (script: object) => {
  const body = JSON.stringify(script);
  const response = await fetch(`${base}/script`, { method: "POST", body });
  assert.equal(response.status, 200);
};
const get = async (path: string) => {
  const response = await fetch(`${base}${path}`);
  return response.json() as Promise<any>;
};

test("one correction is enough", async () => {
  const then = { call: "search", args: { query: "tea" } };
  await script({ steps: ["missing_required"], then });
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
    const defaultHeaders = { "x-strictreply-fault": name };
    const client = new OpenAI({ ...options, defaultHeaders });
    await assert.rejects(ask(client, "Find tea."), name);
  }
  const { requests } = await get("/journal");
  const served = requests.filter((request: any) => request.served);
  assert.ok(served.length > 40); // the others are not faults of this tool
});
