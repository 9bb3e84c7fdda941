/**
 * The fake engine as a program: `node e2e/fake-engine/main.ts --port 8000 [--kind vllm|sglang|openai|anthropic] [--seed 1] [--first-token-ms 50] [--token-ms 5]`.
 * Its answers come from `--rules FILE` (JSON, see rules.ts), from `--behaviour MODULE` (its default export is a `Behaviour`), or from the built-in one.
 * `--tokenizer FOLDER` takes a Hugging Face tokenizer instead of o200k. Runs until SIGTERM.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { defaultBehaviour, type Behaviour } from './behaviour.ts';
import { startFakeEngine } from './engine.ts';
import { hfTokenizer } from './hf-tokenizer.ts';
import { rulesBehaviour } from './rules.ts';

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
    rules: { type: 'string' },
    behaviour: { type: 'string' },
    tokenizer: { type: 'string' },
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

async function chosenBehaviour(): Promise<Behaviour> {
  const builtIn = defaultBehaviour(settings.mistakes);
  if (values.rules !== undefined) return rulesBehaviour(JSON.parse(readFileSync(values.rules, 'utf8')), builtIn);
  if (values.behaviour === undefined) return builtIn;
  const module = (await import(pathToFileURL(resolve(values.behaviour)).href)) as { default: Behaviour };
  return module.default;
}

const engine = await startFakeEngine({
  ...settings,
  behaviour: await chosenBehaviour(),
  ...(values.tokenizer === undefined ? {} : { tokenizer: hfTokenizer(values.tokenizer) }),
  ...(values['api-key'] === undefined ? {} : { apiKey: values['api-key'] }),
});
console.log(`fake ${settings.kind} engine listening on ${engine.url}`);
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => {
    void engine.close().then(() => process.exit(0));
  });
}
