/** Rewards, metrics, errors and notes: what can be said of runs, rollouts, traces and nodes alike. */
import type { ScopeHead } from './encode-event.ts';
import { errorInfo } from './error-info.ts';
import type { Note, RewardOptions, RewardSource } from './record-types.ts';
import type { Scribe } from './scribe.ts';

type Kind = 'run' | 'group' | 'rollout' | 'trace';

export function recordReward(
  scribe: Scribe,
  head: ScopeHead,
  kind: 'rollout' | 'trace',
  name: string,
  score: number | null,
  weight: number | undefined,
  source: RewardSource | undefined,
  options: RewardOptions,
): string {
  return scribe.write(head, 'reward.assigned', {
    scope: options.node === undefined ? kind : 'node',
    node: options.node,
    name,
    score,
    weight,
    source: typeof source === 'string' ? { kind: source } : source,
    supersedes: options.supersedes,
    extra: options.extra,
  });
}

export function recordMetric(scribe: Scribe, head: ScopeHead, kind: Kind, name: string, value: number | null, node?: number): string {
  return scribe.write(head, 'metric.recorded', { scope: node === undefined ? kind : 'node', node, name, value });
}

export function recordError(scribe: Scribe, head: ScopeHead, kind: Kind, error: unknown, node?: number): string {
  const { type, message, statusCode, traceback } = errorInfo(error);
  return scribe.write(head, 'error.recorded', { scope: node === undefined ? kind : 'node', node, type, message, statusCode, traceback });
}

export function recordNote(scribe: Scribe, head: ScopeHead, kind: Kind, note: Note, node?: number): string {
  return scribe.write(head, 'note.added', { scope: node === undefined ? kind : 'node', node, ...note });
}
