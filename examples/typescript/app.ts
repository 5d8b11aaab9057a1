import OpenAI from "openai";
import type { ChatCompletionMessageParam, ChatCompletionTool } from "openai/resources/chat/completions";

export type Search = { query: string; limit?: number };

const parameters = {
  type: "object",
  properties: { query: { type: "string" }, limit: { type: "integer", minimum: 1, maximum: 20 } },
  required: ["query"],
  additionalProperties: false,
};
const search: ChatCompletionTool = { type: "function", function: { name: "search", parameters } };

/** Asks the model for a search, and once more when its call does not fit. */
export async function ask(client: OpenAI, question: string): Promise<Search> {
  const messages: ChatCompletionMessageParam[] = [{ role: "user", content: question }];
  for (let left = 1; ; left--) {
    const completion = await client.chat.completions.create({ model: "any", messages, tools: [search] });
    const call = completion.choices[0]?.message.tool_calls?.[0];
    try {
      return read(call?.type === "function" ? call.function.arguments : "");
    } catch (error) {
      if (left === 0) throw error;
      messages.push({ role: "user", content: `Call search again: ${error}` });
    }
  }
}

function read(text: string): Search {
  const { query, limit, ...others } = JSON.parse(text);
  if (typeof query !== "string") throw new TypeError("query must be a string");
  if (limit !== undefined && !(Number.isInteger(limit) && 1 <= limit && limit <= 20))
    throw new RangeError("limit must be an integer from 1 to 20");
  if (Object.keys(others).length > 0) throw new TypeError("allowed keys: query, limit");
  return { query, limit };
}
