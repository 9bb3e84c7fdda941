/** Where an answer tells the policy version that sampled it, when the engine is set to tell. */
import type { Engine } from './engine-state.ts';
import type { Generation } from './generation.ts';

/** The version when the answer began. */
export function versionHeaders(engine: Engine, generation: Generation): Readonly<Record<string, string>> {
  if (engine.tellVersion !== 'header' && engine.tellVersion !== 'both') return {};
  return { 'x-policy-version': String(versionAt(generation, 0, 0)) };
}

/** SGLang always says it, in whole answers only. */
export function sglangVersion(generation: Generation): Readonly<Record<string, unknown>> {
  return { metadata: { weight_version: String(versionAt(generation, 0, Infinity)) } };
}

/** In a body: the version of the last id. In a chunk: that of its first id. */
export function versionFields(engine: Engine, generation: Generation, choice = 0, place = Infinity): Readonly<Record<string, unknown>> {
  if (engine.tellVersion !== 'body' && engine.tellVersion !== 'both') return {};
  return { policy_version: versionAt(generation, choice, place) };
}

function versionAt({ completions }: Generation, choice: number, place: number): number | null {
  const runs = completions[choice]?.policyRuns ?? [];
  let end = 0;
  return runs.find((run) => (end += run.length) > place)?.version ?? runs.at(-1)?.version ?? null;
}
