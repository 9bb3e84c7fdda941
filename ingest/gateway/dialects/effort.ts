/** How much a model shall reason, where one dialect gives a budget and the other a word. */
import type { JsonObject } from './dialect.ts';
import { isObject } from './json.ts';

/** Thinking budgets (tokens) below these are these efforts; any larger one is high. */
const EFFORTS = [
  [4096, 'low'],
  [16_384, 'medium'],
] as const;

/** The effort that stands for the thinking that Messages asks for. An effort that is given wins; no thinking, and adaptive thinking, ask for none. */
export function effortOf(sampling: JsonObject): JsonObject {
  const { thinking } = sampling;
  const budget = isObject(thinking) && thinking['type'] === 'enabled' ? thinking['budget_tokens'] : undefined;
  if (typeof budget !== 'number' || (sampling['reasoning_effort'] ?? null) !== null) return {};
  return { reasoning_effort: EFFORTS.find(([below]) => budget < below)?.[1] ?? 'high' };
}
