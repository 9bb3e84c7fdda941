/** An agent that hands work to sub-agents: each has a trace of its own, linked to the call that sent it and to the result that came back. */
import type OpenAI from 'openai';
import type { Rollout, Trace } from '../harness-sdk/index.ts';
import { openWorld } from './example-world.ts';

type Message = OpenAI.ChatCompletionMessageParam;

const DELEGATE: OpenAI.ChatCompletionFunctionTool = {
  type: 'function',
  function: { name: 'delegate', description: 'Has a helper answer a question.', parameters: { type: 'object', properties: { question: { type: 'string' } }, required: ['question'] } },
}; // prettier-ignore

await using world = await openWorld();
const { recorder, client, model, withTokens } = world;

/** A helper's whole life: its trace begins with the call of `parent` and ends with its answer. */
async function helper(rollout: Rollout, parent: Trace, callNode: number, question: string): Promise<{ trace: Trace; text: string }> {
  const trace = rollout.trace({ agent: { name: 'helper', model, trainable: true } });
  const answer = await trace.run(() =>
    client.chat.completions.create({ model, messages: [{ role: 'user', content: question }], ...withTokens }),
  );
  parent.link('subagent_call', trace.at(0), callNode);
  trace.end({ stopCondition: 'agent_completed' });
  return { trace, text: answer.choices[0]?.message.content ?? '' };
}

await recorder.run({ kind: 'eval', name: 'sub-agents', model }, async (run) => {
  await run.rollout({ env: 'delegation', task: 'two sums' }, async (rollout) => {
    await rollout.trace({ agent: { name: 'lead', model, trainable: true } }, async (lead) => {
      const messages: Message[] = [{ role: 'user', content: 'Find out: "What is 17 + 25?" and "What is 9 + 33?"' }];
      const first = (await client.chat.completions.create({ model, messages, tools: [DELEGATE], ...withTokens })).choices[0]?.message;
      const calls = (first?.tool_calls ?? []).filter((call) => call.type === 'function');
      const callNode = lead.nodes - 1;
      const tools = calls.map((call) => lead.tool({ name: 'delegate', id: call.id, node: callNode }));
      // both at once: each call is recorded into the trace that it was made in
      const results = await Promise.all(
        calls.map((call) => helper(rollout, lead, callNode, (JSON.parse(call.function.arguments) as { question: string }).question)),
      );
      messages.push(first as Message);
      for (const [i, { text }] of results.entries()) messages.push({ role: 'tool', tool_call_id: calls[i]?.id ?? '', content: text });
      const last =
        (await client.chat.completions.create({ model, messages, tools: [DELEGATE], ...withTokens })).choices[0]?.message.content ?? '';
      for (const [i, { trace }] of results.entries()) {
        const resultNode = callNode + 1 + i;
        tools[i]?.end({ resultNode });
        rollout.link('subagent_return', trace.at(trace.nodes - 1), lead.at(resultNode));
      }
      lead.reward('both found', last.split('= 42').length - 1 === 2 ? 1 : 0, 1, 'code');
      console.log(`${results.length} helpers: ${last}`);
    });
  });
});
