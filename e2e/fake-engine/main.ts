/** The fake engine as a program: `node e2e/fake-engine/main.ts --port 8000 [--kind vllm] [--seed 1] [--first-token-ms 50] [--token-ms 5]`. Runs until SIGTERM. */
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { defaultBehaviour } from './behaviour.ts';
import { startFakeEngine } from './engine.ts';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '8000' },
    kind: { type: 'string', default: 'vllm' },
    seed: { type: 'string', default: '1' },
    'first-token-ms': { type: 'string', default: '0' },
    'token-ms': { type: 'string', default: '0' },
    'stream-interval': { type: 'string', default: '1' },
    'tell-version': { type: 'string', default: 'none' },
    'policy-version': { type: 'string', default: '0' },
    'api-key': { type: 'string' },
    /** Share of sums that come out wrong. */
    mistakes: { type: 'string', default: '0' },
  },
});
const number = z.coerce.number().min(0);
const settings = z
  .object({
    port: number,
    kind: z.enum(['vllm', 'sglang', 'openai', 'anthropic']),
    seed: number,
    tellVersion: z.enum(['none', 'header', 'body', 'both']),
    policyVersion: number,
    mistakes: number,
    pace: z.object({ firstTokenMs: number, tokenMs: number, streamInterval: number }),
  })
  .parse({
    ...values,
    tellVersion: values['tell-version'],
    policyVersion: values['policy-version'],
    pace: { firstTokenMs: values['first-token-ms'], tokenMs: values['token-ms'], streamInterval: values['stream-interval'] },
  });
const engine = await startFakeEngine({
  ...settings,
  behaviour: defaultBehaviour(settings.mistakes),
  ...(values['api-key'] === undefined ? {} : { apiKey: values['api-key'] }),
});
console.log(`fake ${settings.kind} engine listening on ${engine.url}`);
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => {
    void engine.close().then(() => process.exit(0));
  });
}
