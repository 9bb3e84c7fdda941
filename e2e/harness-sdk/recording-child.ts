/**
 * A harness that records until it is killed. It writes a line to its ledger for every node only after it was told that the node is durable: by the return of the call (sync),
 * by `persist`, or by `flush`. What a node holds follows from its trace and index, so that whoever finds it can tell whether it is whole.
 */
import { openSync, writeSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { seededRandom } from '../../base/random.ts';
import { createRecorder, type Message, type Recorder } from '../../harness-sdk/index.ts';

export type ChildOptions = {
  readonly url: string;
  readonly spool: string;
  readonly ledger: string;
  readonly seed: number;
  /** What tells that a node is durable; `drain` records nothing and ends when the spool is empty. */
  readonly mode: 'sync' | 'persist' | 'flush' | 'drain';
};

export function nodeOf(trace: string, index: number): { message: Message; ids: number[]; logprobs: number[] } {
  const random = seededRandom(Buffer.from(`${trace}#${index}`).reduce((sum, byte) => (sum * 31 + byte) >>> 0, 7));
  const ids = Array.from({ length: 5 + Math.floor(random.next() * 60) }, () => Math.floor(random.next() * 150_000));
  return {
    message: { role: 'assistant', content: `${trace} says ${index} \u{1F4FC} ${'word '.repeat(ids.length)}` },
    ids,
    logprobs: ids.map(() => Math.fround(-random.next() * 4)),
  };
}

function reconciled({ counters }: Recorder): void {
  const { produced, acked, rejected, spooled, queued } = counters;
  if (produced !== acked + rejected + spooled + queued || rejected > 0) throw new Error(`counters: ${JSON.stringify(counters)}`);
}

async function main({ url, spool, ledger, seed, mode }: ChildOptions): Promise<void> {
  const fd = openSync(ledger, 'a');
  const say = (lines: readonly string[]): void => void writeSync(fd, lines.map((line) => `${line}\n`).join(''));
  const recorder = createRecorder({ url, spool: { folder: spool, delayMs: 5, segmentBytes: 50_000, sync: mode === 'sync' }, closeMs: 60_000, memoryBytes: 200_000 }); // prettier-ignore
  if (mode === 'drain') {
    const { readdirSync } = await import('node:fs');
    while (readdirSync(spool).some((name) => /^[0-9a-f-]{36}(~|$)/.test(name))) await sleep(50);
    await recorder.close();
    process.stdout.write(JSON.stringify(recorder.drained));
    return;
  }
  const random = seededRandom(seed);
  for (let n = 0; ; n++) {
    const rollout = recorder.rollout({ id: `${seed}-${n}`, env: 'chaos' });
    const trace = rollout.trace({ id: `${seed}-${n}-trace`, agent: 'killed' });
    const told: string[] = [];
    for (let left = 1 + Math.floor(random.next() * 12); left > 0; left--) {
      const { message, ids, logprobs } = nodeOf(trace.id, trace.nodes);
      const index = trace.message(message, { sampled: true, tokens: { ids, logprobs } });
      if (mode === 'sync') say([`${trace.id} ${index}`]);
      else told.push(`${trace.id} ${index}`);
    }
    rollout.end();
    reconciled(recorder);
    if (mode === 'persist') await recorder.persist();
    if (mode === 'flush') await recorder.flush({ timeoutMs: 600_000 });
    say(told);
    reconciled(recorder);
    await recorder.ready();
    await sleep(random.next() * 4);
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(JSON.parse(process.argv[2] as string) as ChildOptions);
