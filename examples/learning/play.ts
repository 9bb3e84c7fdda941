/** Plays one task with one policy, recorded as any harness records: messages with the very token ids, masks and log-probabilities, calls, tools, rewards. */
import type { Clock } from '../../base/clock.ts';
import type { Random } from '../../base/random.ts';
// a program outside of this repository imports from '@tapedeck/harness'
import type { Run, Trace } from '../../harness-sdk/index.ts';
import type { Environment, Episode, Reply, Task, ToolCall } from './environment.ts';
import { sample, type Sampled } from './policy.ts';
import { decode, encode, END } from './vocabulary.ts';

export const MODEL = 'log-linear';

/** Weights after step `version`. */
export type Policy = { readonly version: number; readonly weights: Float64Array };

export type Attempt = {
  readonly env: Environment;
  readonly task: Task;
  readonly group: { readonly id: string; readonly size: number };
  readonly policy: Policy;
};

type Deps = { readonly clock: Clock; readonly random: Random };

/** Resolves with the reward: the sum of score x weight. */
export async function play(run: Run, { env, task, group, policy }: Attempt, deps: Deps): Promise<number> {
  const { key, data } = task;
  const started = { env: env.id, task: { key, data }, group, work: { type: 'train' }, policyVersion: policy.version } as const;
  return run.rollout(started, async (rollout) => {
    const agent = { name: 'policy', model: MODEL, trainable: true };
    const episode = env.open(task);
    await rollout.trace({ agent, tools: env.tools }, (trace) => converse(trace, episode, { env, task, policy }, deps));
    const scores = episode.scores();
    for (const { name, score, weight } of scores) rollout.reward(name, score, weight, { kind: 'code', name: env.id });
    return scores.reduce((sum, { score, weight }) => sum + score * weight, 0);
  });
}

/** Turns until the environment says no more. */
async function converse(trace: Trace, episode: Episode, { env, task, policy }: Pick<Attempt, 'env' | 'task' | 'policy'>, deps: Deps) {
  const context = encode(task.prompt);
  trace.message({ role: 'user', content: task.prompt }, { tokens: { ids: context } });
  for (let turn = 0; ; turn++) {
    await trace.ready();
    const start = deps.clock.nowMicros();
    const said = sample(policy.weights, context, END, env.turnTokens, deps.random);
    const text = decode(said.ids);
    const { call, reply } = episode.answer(text);
    const node = recordAnswer(trace, { text, call, turn, said, version: policy.version });
    const finishReason = said.ids.at(-1) !== END ? 'length' : call === null ? 'stop' : 'tool_calls';
    trace.call({
      node,
      model: MODEL,
      sampling: { temperature: 1, max_tokens: env.turnTokens },
      finishReason,
      usage: { promptTokens: context.length, completionTokens: said.ids.length },
      time: { start, end: deps.clock.nowMicros() },
      policyVersion: policy.version,
      logprobsMode: 'raw',
    });
    if (reply === null) return;
    context.push(...said.ids, ...encode(reply.text));
    recordReply(trace, { reply, call, turn, node });
  }
}

type Answer = {
  readonly text: string;
  readonly call: ToolCall | null;
  readonly turn: number;
  readonly said: Sampled;
  readonly version: number;
};

function recordAnswer(trace: Trace, { text, call, turn, said, version }: Answer): number {
  const toolCalls =
    call === null
      ? {}
      : {
          tool_calls: [{ id: `call-${turn}`, type: 'function', function: { name: call.name, arguments: JSON.stringify(call.arguments) } }],
        };
  return trace.message(
    { role: 'assistant', content: text, ...toolCalls },
    { sampled: true, tokens: { ids: said.ids, logprobs: said.logprobs }, policyVersion: version, call: trace.calls },
  );
}

function recordReply(trace: Trace, of: { reply: NonNullable<Reply>; call: ToolCall | null; turn: number; node: number }): void {
  const { reply, call, turn, node } = of;
  const tokens = { ids: encode(reply.text) };
  if (call === null) return void trace.message({ role: reply.role, content: reply.text }, { tokens });
  const tool = trace.tool({ name: call.name, id: `call-${turn}`, node });
  const resultNode = trace.message({ role: reply.role, tool_call_id: `call-${turn}`, content: reply.text }, { tokens });
  tool.end(call.error === null ? { resultNode } : { resultNode, error: { type: 'bad_arguments', message: call.error } });
}
