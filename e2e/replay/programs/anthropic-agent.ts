/** A program over the `@anthropic-ai/sdk` package: tools, parallel calls, streams, errors and retries. Knows nothing of records. */
import { writeFileSync } from 'node:fs';
import Anthropic from '@anthropic-ai/sdk';
import type { MessageParam, Tool } from '@anthropic-ai/sdk/resources/messages';
import { listeningFetch, type Heard } from './heard.ts';

const [target] = process.argv.slice(2);
const heard: Heard[] = [];
const client = new Anthropic({ fetch: listeningFetch(heard), maxRetries: 2 });
const results: Record<string, unknown> = {};
const ask = { model: 'toy', max_tokens: 300 };
const user = (content: string): MessageParam => ({ role: 'user', content });

const FACTS: Tool = {
  name: 'facts_lookup',
  input_schema: { type: 'object', properties: { entity: { type: 'string' } }, required: ['entity'] },
};

async function attempt(name: string, work: () => Promise<unknown>): Promise<void> {
  try {
    results[name] = await work();
  } catch (error) {
    const { status, message, name: kind } = error as Error & { status?: number };
    results[name] = { error: kind, status, message };
  }
}

await attempt('greeting', async () => client.messages.create({ ...ask, messages: [user('What is 2 + 3?')] }));
await attempt('tools', async () => {
  const messages: MessageParam[] = [user('Look up "iron" and "tin".')];
  for (let turn = 0; turn < 4; turn++) {
    const answer = await client.messages.stream({ ...ask, system: 'Be brief.', messages, tools: [FACTS] }).finalMessage();
    messages.push({ role: 'assistant', content: answer.content });
    const uses = answer.content.filter((block) => block.type === 'tool_use');
    if (uses.length === 0) break;
    messages.push({
      role: 'user',
      content: uses.map(({ id, input }) => ({ type: 'tool_result', tool_use_id: id, content: `fact for ${JSON.stringify(input)}` })),
    });
  }
  return messages;
});
await attempt('parallel', async () =>
  Promise.all([1, 2, 3, 4].map(async (i) => client.messages.create({ ...ask, messages: [user(`count to ${i}`)] }))),
);
await attempt('stream', async () => {
  const events = [];
  for await (const event of await client.messages.create({ ...ask, messages: [user('count to 9')], stream: true })) events.push(event);
  return events;
});
await attempt('retried', async () => client.messages.create({ ...ask, messages: [user('4 + 4 (first fails)')] }));
await attempt('refused', async () => client.messages.create({ ...ask, messages: [user('6 + 6 (refused)')] }, { maxRetries: 0 }));
await attempt('broken', async () =>
  client.messages.stream({ ...ask, messages: [user('count to 60 (breaks)')] }, { maxRetries: 0 }).finalMessage(),
);

writeFileSync(target as string, JSON.stringify({ results, heard }));
