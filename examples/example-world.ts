/**
 * What the three example environments share: a recorder, and a client for an OpenAI-compatible engine. Without --engine they bring a small fake one along, which does sums and
 * calls the tools it is offered, so that they run anywhere. Without --spool, events wait in memory only.
 *
 *   node examples/<name>.ts [--url http://127.0.0.1:7070] [--engine http://127.0.0.1:8000/v1 --model NAME --key KEY] [--spool DIR]
 */
import { parseArgs } from 'node:util';
import OpenAI from 'openai';
import { startFakeEngine } from '../e2e/fake-engine/engine.ts';
import { defaultBehaviour } from '../e2e/fake-engine/behaviour.ts';
// a program outside of this repository imports from '@tapedeck/harness'
import { createRecorder, wrapOpenAI, type Recorder } from '../harness-sdk/index.ts';

export type World = AsyncDisposable & {
  readonly recorder: Recorder;
  /** Its calls are recorded into the current trace. */
  readonly client: OpenAI;
  readonly model: string;
  /** Asks an engine such as vLLM for token ids and log-probabilities; others ignore or refuse it, so it is for the fake one only. */
  readonly withTokens: { readonly logprobs?: true };
};

export async function openWorld(): Promise<World> {
  const { values } = parseArgs({
    options: {
      url: { type: 'string', default: 'http://127.0.0.1:7070' },
      engine: { type: 'string' },
      model: { type: 'string', default: 'toy' },
      key: { type: 'string', default: 'none' },
      spool: { type: 'string' },
    },
  });
  const fake = values.engine === undefined ? await startFakeEngine({ seed: 11, behaviour: defaultBehaviour(0.3) }) : null;
  const recorder = createRecorder({
    url: values.url,
    spool: values.spool,
    producer: 'example',
    onProblem: (problem) => problem && console.error(problem.message),
  });
  const client = wrapOpenAI(new OpenAI({ baseURL: values.engine ?? `${fake?.url}/v1`, apiKey: values.key }));
  return {
    recorder,
    client,
    model: values.model,
    withTokens: fake === null ? {} : ({ logprobs: true, return_token_ids: true } as { logprobs: true }),
    [Symbol.asyncDispose]: async () => {
      await recorder.close();
      await fake?.close();
      const { acked, rejected } = recorder.counters;
      console.log(`${acked} events recorded${rejected > 0 ? `, ${rejected} rejected` : ''}`);
    },
  };
}
