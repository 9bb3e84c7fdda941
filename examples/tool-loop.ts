/** A multi-turn environment: a user that a model plays asks questions, the policy answers them with a tool, in as many turns as it needs. */
import type OpenAI from 'openai';
import type { Trace } from '../harness-sdk/index.ts';
import { openWorld } from './example-world.ts';

type Message = OpenAI.ChatCompletionMessageParam;

const ATLAS: Readonly<Record<string, string>> = { Oslo: '59.9 N', Quito: '0.2 S', Perth: '31.9 S', Nuuk: '64.2 N' };
const TOOL: OpenAI.ChatCompletionFunctionTool = {
  type: 'function',
  function: { name: 'latitude_of', description: 'The latitude of a city.', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } },
}; // prettier-ignore
const MAX_TURNS = 8;

await using world = await openWorld();
const { recorder, client, model, withTokens } = world;

/** The user's next words, in a trace of its own. */
async function userSays(user: Trace, cities: readonly string[]): Promise<string> {
  const wish = `What are the latitudes of ${cities.map((city) => `"${city}"`).join(' and ')}?`;
  const said = await user.run(() =>
    client.chat.completions.create({ model, messages: [{ role: 'user', content: `Say: ${wish}` }], ...withTokens }),
  );
  return said.choices[0]?.message.content ?? wish;
}

/** One question, until the policy answers without a tool. Returns the answer. */
async function policyAnswers(policy: Trace, messages: Message[]): Promise<string> {
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const answer = await policy.run(() => client.chat.completions.create({ model, messages, tools: [TOOL], ...withTokens }));
    const message = answer.choices[0]?.message;
    if (message === undefined) break;
    messages.push(message);
    if ((message.tool_calls ?? []).length === 0) return message.content ?? '';
    const node = policy.nodes - 1;
    for (const call of message.tool_calls ?? []) {
      if (call.type !== 'function') continue;
      const result = await policy.tool({ name: call.function.name, id: call.id, node }).run(() => {
        const { city } = JSON.parse(call.function.arguments) as { city: string };
        return ATLAS[city] ?? 'unknown';
      });
      messages.push({ role: 'tool', tool_call_id: call.id, content: result });
    }
  }
  return '';
}

await recorder.run({ kind: 'eval', name: 'tool loop', model }, async (run) => {
  for (const cities of [['Oslo', 'Quito'], ['Perth'], ['Nuuk', 'Atlantis']]) {
    const score = await run.rollout({ env: 'atlas', task: { key: cities.join('+'), data: { cities } } }, async (rollout) => {
      const user = rollout.trace({ agent: { name: 'user', model, trainable: false } });
      const policy = rollout.trace({ agent: { name: 'policy', model, trainable: true }, tools: [TOOL] as never });
      const messages: Message[] = [
        { role: 'system', content: 'Answer with the tool.' },
        { role: 'user', content: await userSays(user, cities) },
      ];
      const asked = user.nodes - 1;
      const answer = await policyAnswers(policy, messages);
      rollout.link('agent_message', user.at(asked), policy.at(1));
      const known = cities.filter((city) => city in ATLAS);
      const found = known.filter((city) => answer.includes(ATLAS[city] as string)).length / known.length;
      policy.reward('latitudes', found, 1, 'code');
      policy.end({ stopCondition: 'agent_completed' });
      return found;
    });
    console.log(`${cities.join(' and ')}: ${score}`);
  }
});
