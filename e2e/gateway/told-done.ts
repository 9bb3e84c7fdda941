/** Calls of a harness that saw the end, and the proof that each of them is recorded as it was told. */
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import type { GatewayServer, MadeTrace } from './gateway-server.ts';

/** A call whose end the client was told. */
export type Done = { readonly trace: string; readonly call: number; readonly text: string };

export function clientOf(made: MadeTrace, maxRetries = 0): OpenAI {
  return new OpenAI({ baseURL: made.baseUrls.openai, apiKey: made.key, maxRetries });
}

/** Reads a stream to its end. Throws unless the client sees a finish reason and a good end. */
export async function streamed(made: MadeTrace, content: string, headers: Record<string, string> = {}): Promise<Done> {
  const { data, response } = await clientOf(made)
    .chat.completions.create({ model: 'toy', messages: [{ role: 'user', content }], stream: true }, { headers })
    .withResponse();
  let text = '';
  let finish: string | null = null;
  for await (const chunk of data) {
    text += chunk.choices[0]?.delta.content ?? '';
    finish = chunk.choices[0]?.finish_reason ?? finish;
  }
  if (finish === null) throw new Error('the stream ended without a finish reason');
  return { trace: made.trace, call: callOf(response), text };
}

/** The answer in one piece. */
export async function answered(made: MadeTrace, content: string): Promise<Done> {
  const ask = { model: 'toy', messages: [{ role: 'user' as const, content }] };
  const { data, response } = await clientOf(made).chat.completions.create(ask).withResponse();
  return { trace: made.trace, call: callOf(response), text: data.choices[0]?.message.content ?? '' };
}

function callOf(response: Response): number {
  return Number(response.headers.get('x-tapedeck-call'));
}

/** Throws unless each of these calls is recorded, without an error and with the text that the client saw. */
export async function provesDone(gateway: GatewayServer, done: readonly Done[]): Promise<void> {
  type Row = { trace: string; index: number; node: number | null; error_type: string | null; text: string | null };
  const rows = await gateway.sql<Row>('SELECT c.trace AS trace, toUInt32(c.index) AS index, c.node AS node, c.error_type AS error_type, n.text AS text FROM calls AS c LEFT JOIN nodes AS n ON c.trace = n.trace AND c.node = n.index'); // prettier-ignore
  const byCall = new Map(rows.map((row) => [`${row.trace}#${row.index}`, row]));
  for (const { trace, call, text } of done) {
    const row = byCall.get(`${trace}#${call}`);
    assert.ok(row !== undefined, `the client saw the end of call ${call} of ${trace}, and it is not recorded`);
    assert.deepEqual([row.error_type, row.text], [null, text]);
  }
}
