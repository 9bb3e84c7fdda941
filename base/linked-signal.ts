/**
 * Runs `work` with a signal that aborts as soon as one of `sources` does, with the same reason, and lets go of the sources when the work has settled.
 * In place of `AbortSignal.any`, whose signals live as long as their longest-lived source: a leak per call where one of them lives as long as the process.
 */
export async function withLinkedSignal<T>(
  sources: readonly (AbortSignal | undefined)[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const linked = new AbortController();
  const follow = (event: Event): void => linked.abort((event.target as AbortSignal).reason);
  const aborted = sources.find((source) => source?.aborted === true);
  if (aborted !== undefined) linked.abort(aborted.reason);
  for (const source of sources) source?.addEventListener('abort', follow, { once: true });
  try {
    return await work(linked.signal);
  } finally {
    for (const source of sources) source?.removeEventListener('abort', follow);
  }
}
