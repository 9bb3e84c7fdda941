/** Where a training run stands, as a file: what its trainer needs to go on after a restart. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { z } from 'zod';
import { startAdam, type Adam } from './adam.ts';
import type { Checkpoint } from './feed-client.ts';
import type { Policy } from './play.ts';
import { firstWeights, WEIGHTS } from './policy.ts';

export type Standing = {
  readonly policy: Policy;
  readonly adam: Adam;
  /** The feed's side of it; null = no step was taken. */
  readonly checkpoint: Checkpoint | null;
  readonly rollouts: number;
  /** How often the run was begun or gone on with: part of the ids of its groups, so that none is used twice. */
  readonly session: number;
  /** It has come to its end and is not gone on with. */
  readonly done: boolean;
};

export function firstStanding(): Standing {
  return {
    policy: { version: 0, weights: firstWeights() },
    adam: startAdam(WEIGHTS),
    checkpoint: null,
    rollouts: 0,
    session: 0,
    done: false,
  };
}

const numbers = z.base64().transform((text, context) => {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.byteLength !== WEIGHTS * Float64Array.BYTES_PER_ELEMENT) {
    context.addIssue({ code: 'custom', message: `must hold ${WEIGHTS} doubles` });
    return z.NEVER;
  }
  return new Float64Array(Uint8Array.from(bytes).buffer);
});
const standing = z.object({
  policy: z.object({ version: z.int().nonnegative(), weights: numbers }),
  adam: z.object({ mean: numbers, square: numbers, steps: z.int().nonnegative() }),
  checkpoint: z
    .object({ timeline: z.int(), n: z.int(), batchId: z.string().nullable(), metrics: z.record(z.string(), z.number()).optional() })
    .nullable(),
  rollouts: z.int().nonnegative(),
  session: z.int().nonnegative(),
  done: z.boolean(),
});

/** Null when there is none, or when it is of another program or version: then it cannot be gone on with. */
export function readStanding(path: string): Standing | null {
  try {
    return standing.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    return null;
  }
}

/** Whole or not at all. */
export function writeStanding(path: string, { policy, adam, ...rest }: Standing): void {
  const text = (values: Float64Array): string => Buffer.from(values.buffer).toString('base64');
  const whole = {
    ...rest,
    policy: { version: policy.version, weights: text(policy.weights) },
    adam: { mean: text(adam.mean), square: text(adam.square), steps: adam.steps },
  };
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.new`, JSON.stringify(whole));
  renameSync(`${path}.new`, path);
}
