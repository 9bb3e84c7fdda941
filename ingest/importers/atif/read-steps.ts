/** The steps of an ATIF trajectory as nodes and calls in one line: each step is a node, each of its results one below it. Pure. */
import type { Warning } from '../event-list.ts';
import { boolOf, compact, countOf, isRecord, itemsOf, nameOf, numberOf, recordOf, textOf, type Json, type JsonRecord } from '../json-value.ts'; // prettier-ignore
import { microsOfIso } from '../micros.ts';
import { messageFrom, ownExtra } from './messages.ts';
import { noTokens, PromptTokens } from './prompt-tokens.ts';

export type StepNode = {
  /** Which step it is of, from 0. */
  readonly step: number;
  /** The step itself, not one of its results. */
  readonly isStep: boolean;
  readonly time: number;
  /** The data of `node.appended`. */
  readonly data: JsonRecord;
};
export type StepCall = { readonly time: number; readonly data: JsonRecord };
export type ReadSteps = { readonly nodes: readonly StepNode[]; readonly calls: readonly StepCall[]; readonly warnings: readonly Warning[] };

/** `base`: microseconds, for steps before the first that has a time. A step without one has that of the step before it. */
export function readSteps(steps: readonly JsonRecord[], base: number): ReadSteps {
  const reading = new Reading(base);
  for (const [i, step] of steps.entries()) reading.add(step, i);
  return reading;
}

class Reading implements ReadSteps {
  readonly nodes: { step: number; isStep: boolean; time: number; data: JsonRecord }[] = [];
  readonly calls: StepCall[] = [];
  readonly warnings: Warning[] = [];
  readonly #prompts = new PromptTokens();
  #time: number;
  /** Nodes that are known to have no ids once a later prompt is on the path. */
  #bare: JsonRecord[] = [];

  constructor(base: number) {
    this.#time = base;
  }

  add(step: JsonRecord, i: number): void {
    this.#time = microsOfIso(textOf(step['timestamp']) ?? '') ?? this.#time;
    const isAgent = step['source'] === 'agent';
    const sampled = isAgent && boolOf(step['is_copied_context']) !== true && step['llm_call_count'] !== 0;
    const call = sampled ? callOf(step, this.nodes.length, this.calls.length) : null;
    if (call !== null) this.calls.push({ time: this.#time, data: call });
    this.#append(i, true, this.#time, messageFrom(step, false), { sampled, call: countOf(call?.['index']) });
    if (isAgent) this.#addTokens(recordOf(step['metrics']) ?? {}, sampled);
    if (!['system', 'user', 'agent'].includes(textOf(step['source']) ?? '')) this.#warn('steps.source', 'none of system, user and agent: taken as user');
    for (const result of itemsOf(recordOf(step['observation'])?.['results'])) {
      if (!isRecord(result)) this.#warn('steps.observation', 'a result that is no object: kept in extra');
      else this.#append(i, false, microsOfIso(textOf(ownExtra(result)['timestamp']) ?? '') ?? this.#time, messageFrom(result, true), { sampled: false, call: null });
    }
  } // prettier-ignore

  #append(step: number, isStep: boolean, time: number, message: JsonRecord, { sampled, call }: { sampled: boolean; call: number | null }): void {
    const index = this.nodes.length;
    const role = nameOf(message['role'], 64) ?? 'unknown';
    const data = compact({ index, parent: index > 0 ? index - 1 : undefined, role, message, sampled, call: call ?? undefined });
    this.nodes.push({ step, isStep, time, data });
    if (!sampled) this.#bare.push(data);
  } // prettier-ignore

  /** Puts the streams on the node of this step, and says of the messages before it that they have none. */
  #addTokens(metrics: JsonRecord, sampled: boolean): void {
    const { tokens, isOnPath, problem } = this.#prompts.take(metrics, sampled);
    if (problem !== null) this.#warn('steps.metrics.prompt_token_ids', `${problem}: kept in extra, not mapped to nodes`);
    const node = this.nodes.at(-1) as (typeof this.nodes)[number];
    if (isOnPath) {
      const bare = new Set(this.#bare);
      for (const each of this.nodes) if (bare.has(each.data) && each !== node) each.data = { ...each.data, tokens: noTokens() };
      this.#bare = [];
    }
    if (tokens === null) return;
    this.#bare = this.#bare.filter((data) => data !== node.data);
    node.data = { ...node.data, tokens };
  }

  #warn(field: string, message: string): void {
    this.warnings.push({ field, message });
  }
}

/** The call behind an answer; null where the step says nothing of one. */
function callOf(step: JsonRecord, node: number, index: number): JsonRecord | null {
  const usage = usageOf(recordOf(step['metrics']) ?? {});
  const isUsed = Object.keys(usage).length > 0;
  const model = nameOf(step['model_name']);
  const effort: Json | undefined = step['reasoning_effort'] ?? undefined;
  if (!isUsed && model === null && effort === undefined && countOf(step['llm_call_count']) === null) return null;
  const sampling = typeof effort === 'string' || numberOf(effort) !== null ? compact({ reasoning_effort: effort }) : undefined;
  return compact({ index, node, model: model ?? undefined, sampling, usage: isUsed ? usage : undefined });
}

/** Cached tokens are among those of the prompt there, and not here. Counts that contradict each other are left where they are. */
function usageOf(metrics: JsonRecord): JsonRecord {
  const [prompt, cached] = [countOf(metrics['prompt_tokens']), countOf(metrics['cached_tokens'])];
  const own = prompt === null || prompt < (cached ?? 0) ? null : prompt - (cached ?? 0);
  const cost = metrics['cost_usd'];
  return compact({
    promptTokens: own ?? undefined,
    completionTokens: countOf(metrics['completion_tokens']) ?? undefined,
    cachedTokens: cached ?? undefined,
    reasoningTokens: countOf(recordOf(metrics['extra'])?.['reasoning_tokens']) ?? undefined,
    cost: numberOf(cost) !== null && typeof cost !== 'bigint' ? cost : undefined,
  });
}
