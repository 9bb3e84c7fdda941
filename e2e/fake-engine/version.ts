/** Where an answer tells the policy version that sampled it, when the engine is set to tell. */
import type { Engine } from './engine-state.ts';
import type { Generation } from './generation.ts';

/** The version when the answer began. */
export function versionHeaders(engine: Engine, generation: Generation): Readonly<Record<string, string>> {
  if (engine.tellVersion !== 'header' && engine.tellVersion !== 'both') return {};
  return { 'x-policy-version': String(versionAt(generation, 0, 0)) };
}

/** In a body: the version of the last id. In a chunk: that of its first id. SGLang says it under `metadata`, vLLM's fork under its own name. */
export function versionFields(engine: Engine, generation: Generation, choice = 0, place = Infinity): Readonly<Record<string, unknown>> {
  if (engine.tellVersion !== 'body' && engine.tellVersion !== 'both') return {};
  const version = versionAt(generation, choice, place);
  return engine.kind === 'sglang' ? { metadata: { weight_version: String(version) } } : { policy_version: version };
}

function versionAt({ completions }: Generation, choice: number, place: number): number | null {
  const runs = completions[choice]?.policyRuns ?? [];
  let end = 0;
  return runs.find((run) => (end += run.length) > place)?.version ?? runs.at(-1)?.version ?? null;
}
