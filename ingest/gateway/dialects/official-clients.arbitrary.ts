/** What the unmodified official clients make of a stream: their own parsers, fed through their own `fetch` option. */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import type { JsonObject } from './dialect.ts';

/** One response with these bytes, in small chunks. */
function fetchOf(bytes: Uint8Array, type: string): typeof fetch {
  const body = (): ReadableStream<Uint8Array> =>
    new ReadableStream({
      start(controller) {
        for (let at = 0; at < bytes.length; at += 1000) controller.enqueue(bytes.slice(at, at + 1000));
        controller.close();
      },
    });
  return () => Promise.resolve(new Response(body(), { headers: { 'content-type': type } }));
}

const SSE = 'text/event-stream';
const openai = (bytes: Uint8Array, type = SSE): OpenAI =>
  new OpenAI({ apiKey: 'k', baseURL: 'http://engine/v1', fetch: fetchOf(bytes, type), maxRetries: 0 });
const plain = (value: unknown): JsonObject => JSON.parse(JSON.stringify(value)) as JsonObject;

export async function openaiChatStream(bytes: Uint8Array): Promise<JsonObject> {
  const stream = openai(bytes).chat.completions.stream({ model: 'm', messages: [], stream_options: { include_usage: true } });
  return plain(await stream.finalChatCompletion());
}

export async function openaiResponsesStream(bytes: Uint8Array): Promise<JsonObject> {
  return plain(await openai(bytes).responses.stream({ model: 'm', input: [] }).finalResponse());
}

export async function anthropicStream(bytes: Uint8Array): Promise<JsonObject> {
  const client = new Anthropic({ apiKey: 'k', baseURL: 'http://engine', fetch: fetchOf(bytes, SSE), maxRetries: 0 });
  return plain(await client.beta.messages.stream({ model: 'm', max_tokens: 1, messages: [] }).finalMessage());
}
