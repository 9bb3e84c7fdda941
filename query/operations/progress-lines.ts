import { isTapedeckError } from '../../base/errors.ts';

/**
 * Runs long work and yields its progress as JSON lines while it goes on: what `tell` is given, then `{"done": true}` or `{"error": {code, message}}`. The status was
 * sent with the first line, so a reader must look at the last one.
 */
export async function* progressLines<T>(work: (tell: (progress: T) => void) => Promise<void>): AsyncGenerator<string> {
  const waiting: T[] = [];
  let wake = Promise.withResolvers<void>();
  let ended: { readonly error: unknown } | 'done' | null = null;
  const tell = (progress: T): void => {
    waiting.push(progress);
    wake.resolve();
  };
  void work(tell).then(
    () => {
      ended = 'done';
      wake.resolve();
    },
    (error: unknown) => {
      ended = { error };
      wake.resolve();
    },
  );
  for (;;) {
    for (const progress of waiting.splice(0)) yield `${JSON.stringify(progress)}\n`;
    if (ended !== null && waiting.length === 0) break;
    await wake.promise;
    wake = Promise.withResolvers<void>();
  }
  yield `${JSON.stringify(ending(ended))}\n`;
}

function ending(ended: { readonly error: unknown } | 'done'): object {
  if (ended === 'done') return { done: true };
  const { error } = ended;
  return {
    error: isTapedeckError(error)
      ? { code: error.code, message: error.message }
      : { code: 'internal', message: 'the work failed; the server log has it' },
  };
}
