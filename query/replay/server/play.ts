/** Gives a recorded answer again: status, headers, the same bytes in the same pieces, and the same end. */
import type { ServerResponse } from 'node:http';
import type { Clock } from '../../../base/clock.ts';
import type { RecordedAnswer } from '../tape/recorded-call.ts';

export type Timing = {
  /** 1 = as recorded, 2 = twice as fast; null = at once. */
  readonly speed: number | null;
  /** An answer that the harness left while it came is kept open this long for it to leave again. */
  readonly holdMs: number;
};

export type Played = 'complete' | 'broken' | 'left' | 'client_stayed' | 'client_left';

/** They belong to the connection that was. */
const OF_CONNECTION: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'transfer-encoding',
  'content-length',
  'date',
  'content-encoding',
]);

/** Resolves when the answer is over, however. `marks` are headers of the replay. */
export async function playAnswer(
  response: ServerResponse,
  answer: RecordedAnswer,
  marks: Readonly<Record<string, string>>,
  { speed, holdMs }: Timing,
  clock: Clock,
): Promise<Played> {
  const gone = new AbortController();
  response.once('close', () => gone.abort(GONE));
  try {
    const began = clock.monotonicMs();
    let isBegun = false;
    for (const { atMicros, bytes } of answer.pieces) {
      if (speed !== null) await until(clock, began + atMicros / 1000 / speed, gone.signal);
      if (gone.signal.aborted) return 'client_left';
      if (!isBegun) begin(response, answer, marks);
      isBegun = true;
      if (!response.write(bytes)) await drained(response, gone.signal);
    }
    if (answer.ending === 'left') return await hold(response, answer, marks, isBegun, holdMs, clock, gone.signal);
    if (!isBegun) begin(response, answer, marks);
    if (answer.ending === 'broken') {
      response.socket?.destroySoon();
      return 'broken';
    }
    response.end();
    return 'complete';
  } catch (error) {
    if (error === GONE) return 'client_left';
    throw error;
  }
}

const GONE = new Error('the client went away');

function begin(response: ServerResponse, answer: RecordedAnswer, marks: Readonly<Record<string, string>>): void {
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(answer.headers)) {
    if (!OF_CONNECTION.has(name)) headers[name] = typeof value === 'string' ? value : [...value];
  }
  // what came in one piece had a length
  const [only] = answer.pieces;
  const isWhole = answer.pieces.length === 1 && answer.ending === 'complete' && !isStream(answer);
  if (isWhole && only !== undefined) headers['content-length'] = String(only.bytes.length);
  response.writeHead(answer.status, { ...headers, ...marks });
  if (!isWhole) response.flushHeaders();
}

function isStream({ headers }: RecordedAnswer): boolean {
  const type = headers['content-type'];
  return typeof type === 'string' && type.startsWith('text/event-stream');
}

async function until(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  const wait = ms - clock.monotonicMs();
  if (wait > 0.5) await clock.sleep(wait, signal);
}

/** The harness went first when this was recorded; now it is waited for. */
async function hold(
  response: ServerResponse,
  answer: RecordedAnswer,
  marks: Readonly<Record<string, string>>,
  isBegun: boolean,
  holdMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<Played> {
  // a head that was never sent must not be sent now, unless a stream had begun
  if (!isBegun && answer.headers['content-type'] !== undefined) begin(response, answer, marks);
  try {
    await clock.sleep(holdMs, signal);
  } catch (error) {
    if (error === GONE) return 'left';
    throw error;
  }
  response.destroy();
  return 'client_stayed';
}

async function drained(response: ServerResponse, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onGone = (): void => reject(GONE);
  response.once('drain', resolve);
  signal.addEventListener('abort', onGone, { once: true });
  try {
    if (signal.aborted) throw GONE;
    await promise;
  } finally {
    response.off('drain', resolve);
    signal.removeEventListener('abort', onGone);
  }
}
