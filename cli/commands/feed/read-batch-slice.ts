/** One rank's slice of a batch from a server: waited for, and compared with its digest. */
import { createHash } from 'node:crypto';
import type { Clock } from '../../../base/clock.ts';
import { TapedeckError } from '../../../base/errors.ts';
import { askServer } from '../../render/ask-server.ts';

export type SliceRequest = {
  readonly url: string;
  readonly project: string;
  readonly feed: string;
  readonly n: number;
  /** `rank`, `world` and what else the request says of its plan. */
  readonly query: Readonly<Record<string, string>>;
  /** How long a batch that is not there is waited for, seconds. */
  readonly waitSeconds: number;
};

/** Seconds that one request waits. */
const POLL_SECONDS = 20;

/** Null when the stream ends before the batch. Errors: those of the server; `deadline_exceeded` with what it waits for; `digest_mismatch`. */
export async function readBatchSlice(
  { url, project, feed, n, query, waitSeconds }: SliceRequest,
  clock: Clock,
): Promise<Uint8Array | null> {
  const end = clock.monotonicMs() + waitSeconds * 1000;
  for (;;) {
    const left = Math.max(0, (end - clock.monotonicMs()) / 1000);
    const asked = new URLSearchParams({ project, ...query, wait: String(Math.floor(Math.min(POLL_SECONDS, left))) });
    const answer = await askServer(url, `/v1/feeds/${encodeURIComponent(feed)}/batches/${n}?${asked.toString()}`);
    if (answer.headers.get('x-feed-end') === 'true') return null;
    if (answer.status === 200) return checked(answer, feed, n);
    const { pending } = (await answer.json()) as { readonly pending: { readonly waitsFor: string } };
    if (clock.monotonicMs() >= end) {
      throw new TapedeckError(
        'deadline_exceeded',
        `batch ${n} of feed ${feed} is not there after ${waitSeconds} s: it waits for ${pending.waitsFor}`,
      );
    }
    await clock.sleep(Math.min(1000, Math.max(1, end - clock.monotonicMs())));
  }
}

async function checked(answer: Response, feed: string, n: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const told = answer.headers.get('repr-digest');
  const computed = `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`;
  if (told === computed) return bytes;
  throw new TapedeckError(
    'digest_mismatch',
    `batch ${n} of feed ${feed} came damaged: its digest is ${computed}, the server said ${told}; ask again`,
  );
}
