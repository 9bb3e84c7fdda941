/** A program with a tool of its own: it looks up what the model asks for, and goes on until there is an answer. The task comes from its environment. */
import OpenAI from 'openai';
import type { ChatCompletionMessageParam } from 'openai/resources/chat/completions';

const [prefix = '', suffix = ''] = process.argv.slice(2);
const { key } = JSON.parse(process.env['REPLAY_TASK'] ?? '{"key":"iron"}') as { key: string };
const client = new OpenAI({ maxRetries: 0 });
const messages: ChatCompletionMessageParam[] = [
  { role: 'system', content: `${prefix}Be brief. Today is ${new Date().toISOString()}. Work in /tmp/agent-${process.pid}.` },
  { role: 'user', content: `Look up "${key}".${suffix}` },
];
const tools = [
  {
    type: 'function' as const,
    function: { name: 'facts_lookup', parameters: { type: 'object', properties: { entity: { type: 'string' } }, required: ['entity'] } },
  },
];
for (let turn = 0; turn < 4; turn++) {
  const { message } = (await client.chat.completions.create({ model: 'toy', messages, tools })).choices[0]!;
  messages.push(message);
  if (!message.tool_calls?.length) break;
  for (const call of message.tool_calls) messages.push({ role: 'tool', tool_call_id: call.id, content: process.env['FACT'] ?? 'a metal' });
}
const content = messages.at(-1)?.content;
process.stdout.write(`${typeof content === 'string' ? content : JSON.stringify(content)}\n`);
