/** Token data that must not train: each fault by name. The message of such an answer is kept, its tokens are not. */
import type { Choice } from './exchange.ts';

/** What engines send where they have no log-probability; no sampled token is that unlikely. */
export const SENTINEL_LOGPROB = -9999;

export type TokenFault =
  | 'no_token_ids'
  | 'no_prompt_ids'
  | 'no_completion_ids'
  | 'token_id_range'
  | 'logprobs_length'
  | 'logprobs_not_finite'
  | 'logprobs_sentinel'
  | 'policy_runs_length';

/** The fault of one answer, or null. A fault that the adapter found wins. `promptFault`: that of the prompt, which spoils every answer to it. */
export function faultOf(choice: Choice, prompt: Uint32Array | null, promptFault: TokenFault | null): string | null {
  if (choice.tokenError !== null) return choice.tokenError;
  if (promptFault !== null) return promptFault;
  if (prompt === null) return choice.ids === null ? 'no_token_ids' : 'no_prompt_ids';
  if (choice.ids === null) return 'no_completion_ids';
  if (!idsFit(choice.ids, 0)) return 'token_id_range';
  return logprobsFault(choice.logprobs, choice.ids.length) ?? policyFault(choice, choice.ids.length);
}

/** True when all ids from `from` on fit an int32, which is what trainers hold. */
export function idsFit(ids: Uint32Array, from: number): boolean {
  let seen = 0;
  for (let i = from; i < ids.length; i++) seen |= ids[i] as number;
  return seen >= 0;
}

function logprobsFault(logprobs: Float32Array | null, count: number): TokenFault | null {
  if (logprobs === null) return null;
  if (logprobs.length !== count) return 'logprobs_length';
  if (!logprobs.every((value) => Number.isFinite(value))) return 'logprobs_not_finite';
  return logprobs.includes(SENTINEL_LOGPROB) ? 'logprobs_sentinel' : null;
}

function policyFault({ policyRuns }: Choice, count: number): TokenFault | null {
  if (policyRuns === null) return null;
  const whole = policyRuns.every((run) => run.length > 0);
  return whole && policyRuns.reduce((sum, run) => sum + run.length, 0) === count ? null : 'policy_runs_length';
}
