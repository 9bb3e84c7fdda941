/**
 * A producer that keeps a ledger: it sends batches with retries until each is acknowledged, whatever happens to the server meanwhile, and knows afterwards
 * exactly what was acknowledged. The proof of "nothing acknowledged is lost or doubled" compares this ledger with what SQL answers.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { encodeEvent } from '../events/codec/cbor-encode.ts';
import type { WorkEvent } from './workload.ts';

export type LedgerEntry = { readonly event: WorkEvent; state: 'sent' | 'acked' };

/** One CBOR body: an array of events. */
export function cborBody(events: readonly object[]): Buffer {
  const parts = events.map((event) => encodeEvent(event));
  return Buffer.concat([arrayHead(parts.length), ...parts]);
}

function arrayHead(length: number): Buffer {
  if (length < 24) return Buffer.from([0x80 | length]);
  const head = Buffer.alloc(5);
  head[0] = 0x9a;
  head.writeUInt32BE(length, 1);
  return head;
}

export class LedgerClient {
  readonly entries = new Map<string, LedgerEntry>();
  retries = 0;
  #url: () => string;

  constructor(url: () => string) {
    this.#url = url;
  }

  get acked(): WorkEvent[] {
    return [...this.entries.values()].filter((e) => e.state === 'acked').map((e) => e.event);
  }

  /** Sends one batch until it is acknowledged or the signal aborts. Returns true when acknowledged. */
  async send(events: readonly WorkEvent[], signal: AbortSignal): Promise<boolean> {
    for (const event of events) if (!this.entries.has(event.id)) this.entries.set(event.id, { event, state: 'sent' });
    const body = cborBody(events);
    while (!signal.aborted) {
      try {
        const answer = await fetch(`${this.#url()}/v1/events`, {
          method: 'POST',
          headers: { 'content-type': 'application/cbor' },
          body: new Uint8Array(body),
          signal: AbortSignal.any([signal, AbortSignal.timeout(20_000)]),
        });
        const said = (await answer.json()) as { rejected?: { id: string; code: string; message: string }[] };
        if (answer.status < 300 && (said.rejected?.length ?? 0) === 0) {
          for (const event of events) (this.entries.get(event.id) as LedgerEntry).state = 'acked';
          return true;
        }
        if (answer.status < 500 && answer.status !== 429 && answer.status !== 207)
          throw new Refused(`${answer.status}: ${JSON.stringify(said).slice(0, 2000)}`);
      } catch (error) {
        if (error instanceof Refused) throw error;
      }
      this.retries++;
      await sleep(100, undefined, { signal }).catch(() => {});
    }
    return false;
  }
}

/** The server refused what was sent: a fault of the test or of the server, never retried. */
export class Refused extends Error {}
