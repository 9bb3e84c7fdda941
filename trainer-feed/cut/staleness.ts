/**
 * How old a row is. Batch n trains step n and starts from version n - 1; a row is as stale as its oldest sampled token: (n - 1) - version. Frozen sources have no
 * version and never go stale.
 */

/** Optimizer steps between a row's oldest token and batch `n`; null without a version. */
export function stalenessOf(n: number, minVersion: number | null): number | null {
  return minVersion === null ? null : n - 1 - minVersion;
}

/** Where the age of a rollout comes from: weights that changed while it ran, and time in the queue. `start` and `end`: versions of its first and last call. */
export function stalenessParts(
  n: number,
  start: number,
  end: number,
): { readonly total: number; readonly inFlight: number; readonly inQueue: number } {
  const total = Math.max(0, n - 1 - start);
  const inFlight = Math.min(total, Math.max(0, end - start));
  return { total, inFlight, inQueue: total - inFlight };
}

/**
 * Strategy `wait`: whether batch `n` must wait for a rollout that still runs since version `start`, because it would be too old for batch n + 1. Nothing is dropped under
 * `wait`; what arrives too old all the same is trained.
 */
export function mustWait(n: number, start: number, maxOffPolicySteps: number): boolean {
  return n - start > maxOffPolicySteps;
}

/** The oldest version that batch `n` trains under `maxOffPolicySteps`. */
export function oldestFresh(n: number, maxOffPolicySteps: number): number {
  return n - 1 - maxOffPolicySteps;
}
