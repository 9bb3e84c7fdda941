/** A program over the `openai` package: tools, parallel calls, streams, errors and retries. Knows nothing of records; writes what it got to the file it is given. */
import { writeFileSync } from 'node:fs';
import OpenAI from 'openai';
import type { ChatCompletionMessageParam, ChatCompletionTool } from 'openai/resources/chat/completions';
import { listeningFetch, type Heard } from './heard.ts';

const [target, greeting = 'What is 2 + 3?', mode = 'all'] = process.argv.slice(2);
const heard: Heard[] = [];
const client = new OpenAI({ fetch: listeningFetch(heard), maxRetries: 2 });
const results: Record<string, unknown> = {};
const model = 'toy';
const user = (content: string): ChatCompletionMessageParam => ({ role: 'user', content });

const FACTS: ChatCompletionTool = {
  type: 'function',
  function: { name: 'facts_lookup', parameters: { type: 'object', properties: { entity: { type: 'string' } }, required: ['entity'] } },
};

async function attempt(name: string, work: () => Promise<unknown>): Promise<void> {
  try {
    results[name] = await work();
  } catch (error) {
    const { status, message, name: kind } = error as Error & { status?: number };
    results[name] = { error: kind, status, message };
  }
}

await attempt('greeting', async () => (await client.chat.completions.create({ model, messages: [user(greeting)] })).choices[0]?.message);

if (mode === 'all') {
  await attempt('tools', async () => {
    const messages: ChatCompletionMessageParam[] = [{ role: 'system', content: 'Be brief.' }, user('Look up "iron" and "tin".')];
    for (let turn = 0; turn < 4; turn++) {
      const answer = await client.chat.completions.stream({ model, messages, tools: [FACTS] }).finalChatCompletion();
      const message = answer.choices[0]!.message;
      messages.push(message);
      if (!message.tool_calls?.length) break;
      for (const call of message.tool_calls)
        messages.push({ role: 'tool', tool_call_id: call.id, content: `${process.env['FACT'] ?? 'fact'} for ${call.type}` });
    }
    return messages;
  });
  await attempt('parallel', async () =>
    Promise.all(
      [1, 2, 3, 4, 5].map(
        async (i) => (await client.chat.completions.create({ model, messages: [user(`count to ${i}`)] })).choices[0]?.message.content,
      ),
    ),
  );
  await attempt('samples', async () =>
    Promise.all(
      [1, 2, 3].map(
        async () =>
          (await client.chat.completions.create({ model, messages: [user('How are you?')], temperature: 1 })).choices[0]?.message.content,
      ),
    ).then((texts) => texts.toSorted((a, b) => String(a).localeCompare(String(b)))),
  );
  await attempt('choices', async () => {
    const stream = await client.chat.completions.create({
      model,
      messages: [user('How are you?')],
      n: 2,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    return chunks;
  });
  await attempt(
    'retried',
    async () => (await client.chat.completions.create({ model, messages: [user('4 + 4 (first fails)')] })).choices[0]?.message.content,
  );
  await attempt(
    'timed out',
    async () =>
      (await client.chat.completions.create({ model, messages: [user('5 + 5 (slow)')] }, { timeout: 1000 })).choices[0]?.message.content,
  );
  await attempt('refused', async () => client.chat.completions.create({ model, messages: [user('6 + 6 (refused)')] }, { maxRetries: 0 }));
  await attempt('broken', async () => {
    const stream = await client.chat.completions.create(
      { model, messages: [user('count to 60 (breaks)')], stream: true },
      { maxRetries: 0 },
    );
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    return text;
  });
  await attempt('left', async () => {
    const stream = await client.chat.completions.create({ model, messages: [user('count to 400 (leaves)')], stream: true });
    let text = '';
    let chunks = 0;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      if (++chunks === 5) break;
    }
    return text;
  });
  await attempt('responses', async () => {
    const first = await client.responses.create({ model, input: 'What is 7 + 7?' });
    const second = await client.responses.create({ model, input: 'And 8 + 8?', previous_response_id: first.id });
    return [first, second];
  });
  await attempt('ids', async () =>
    client.chat.completions.create({ model, messages: [user('1 + 1')], logprobs: true, return_token_ids: true } as never),
  );
}

writeFileSync(target as string, JSON.stringify({ results, heard }));
