/** What a reader of a number should know before trusting it. */
import type { OutcomeCounts, Task } from './outcome.ts';

export type Warning = { readonly code: WarningCode; readonly message: string };

export type WarningCode =
  | 'no_rollouts'
  | 'no_scores'
  | 'nan_scores'
  | 'left_out'
  | 'scored_though_failed'
  | 'running'
  | 'few_tasks'
  | 'no_identity'
  | 'mixed_versions'
  | 'unsettled'
  | 'settings_differ'
  | 'tasks_differ'
  | 'cut';

/** Below this many tasks an interval says little. */
const FEW_TASKS = 10;

export function warningsOf(tasks: readonly Task[], counts: OutcomeCounts): Warning[] {
  const warnings: Warning[] = [];
  const say = (code: WarningCode, message: string): void => void warnings.push({ code, message });
  if (counts.rollouts === 0) say('no_rollouts', 'no rollout matches: nothing was estimated');
  else if (counts.scored === 0) say('no_scores', 'no rollout has a score yet: nothing was estimated, which is not the same as 0');
  const without = counts.failed + counts.unscored + counts.missing;
  if (without > 0 && counts.scored > 0) {
    say('left_out', `${without} rollouts have no score (${counts.failed} failed, ${counts.unscored} ended without one, ${counts.missing} never started): compare the policies "excluded" and "zero"`);
  }
  if (counts.nan > 0) say('nan_scores', `${counts.nan} rollouts have a score that is NaN or infinite: they are left out as having none`);
  if (counts.scoredThoughFailed > 0) say('scored_though_failed', `${counts.scoredThoughFailed} rollouts ended badly and have a score all the same: it counts`);
  if (counts.running > 0) say('running', `${counts.running} rollouts are still running: they count under no policy`);
  const judged = tasks.filter((task) => task.judged.length > 0).length;
  if (judged > 0 && judged < FEW_TASKS) say('few_tasks', `only ${judged} ${judged === 1 ? 'task has' : 'tasks have'} scores: the task is the unit, so the interval is wide${judged === 1 ? ' or missing' : ''}`);
  const unnamed = tasks.filter((task) => !task.hasIdentity).length;
  if (unnamed > 0) say('no_identity', `${unnamed} tasks have neither hash nor key: each group (or rollout) of them counts as a task of its own and no other run can be compared on them`);
  return warnings;
} // prettier-ignore
