/**
 * A feed on a long log: how long it takes to fold it, to restart from its checkpoint, and what memory a backlog of many batches takes. The limit beside it: reading the same log without a feed.
 *
 *   npm run bench -- feed-restart [--events 1000000] [--backlog 10]
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { systemClock } from '../base/clock.ts';
import { startServer, temporaryFolder } from '../e2e/server.ts';
import { encodeEvent } from '../events/codec/cbor-encode.ts';
import { partitionKey } from '../events/partition-key.ts';
import { openEmbeddedLog } from '../store/log/embedded-log.ts';
import { partitionOf } from '../store/log/partitioner.ts';
import type { LogRecord } from '../store/log/event-log.ts';
import { world } from '../trainer-feed/feed/feed-world.ts';

const { values } = parseArgs({ options: { events: { type: 'string', default: '1000000' }, backlog: { type: 'string', default: '10' } } });
const EVENTS = Number(values.events);
const BACKLOG = Number(values.backlog);
const PARTITIONS = 4;
const SIZE = 8;
/** Groups made at once. */
const GROUPS = 500;

const folder = temporaryFolder('bench-restart');
const env = { TAPEDECK_DATA: folder.path, TAPEDECK_ROLES: 'ingest,feed', TAPEDECK_LOG_LEVEL: 'warn' };
try {
  const { events, groups } = await fill();
  await measure(events, groups);
} finally {
  folder.remove();
}

/** Finished groups straight into the log. */
async function fill(): Promise<{ events: number; groups: number }> {
  const log = await openEmbeddedLog({ directory: join(folder.path, 'log'), topic: 'events', partitions: PARTITIONS, mode: 'write', maxRecordBytes: 1_000_000, compression: 'fast', clock: systemClock }); // prettier-ignore
  let events = 0;
  let groups = 0;
  for (let part = 0; events < EVENTS; part++) {
    const made = world({
      seed: part + 1,
      groups: GROUPS,
      size: SIZE,
      partitions: PARTITIONS,
      turns: 2,
      tokensPerTurn: 8,
      run: `run-${part}`,
    }).flat();
    const byPartition: LogRecord[][] = Array.from({ length: PARTITIONS }, () => []);
    for (const event of made) {
      const key = partitionKey(event);
      byPartition[partitionOf(key, PARTITIONS)]?.push({ key: Buffer.from(key), value: encodeEvent(event) });
    }
    await Promise.all(byPartition.map(async (records, partition) => {
      for (let at = 0; at < records.length; at += 2000) await log.append(partition, records.slice(at, at + 2000));
    })); // prettier-ignore
    events += made.length;
    groups += GROUPS;
  }
  const started = performance.now();
  for (let partition = 0; partition < PARTITIONS; partition++) {
    for (let from = 0; ;) {
      const chunk = await log.read(partition, from, { maxBytes: 4 * 1024 * 1024 });
      from = chunk.next;
      if (chunk.records.length === 0 || chunk.next >= chunk.end) break;
    }
  }
  console.log(`log of ${events} events in ${groups} groups; reading it alone: ${((performance.now() - started) / 1000).toFixed(1)} s`);
  await log.close();
  return { events, groups };
}

type Status = { committed: number; cut: number; frontier: { behind: number; caughtUp: boolean; paused: boolean }; depth: { rows: number } };

async function measure(events: number, groups: number): Promise<void> {
  // one batch is a tenth of the log by default: the rest is the backlog
  const size = Math.max(1, Math.floor(groups / (BACKLOG + 1)));
  let server = await startServer(env, { listenMs: 300_000 });
  try {
    const spec = { maxRowTokens: 4096, batch: { by: 'groups', size }, dropZeroAdvantage: false, staleness: { maxOffPolicySteps: null } };
    const made = await fetch(`${server.url}/v1/feeds`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ feed: 'f', spec }),
    });
    if (!made.ok) throw new Error(await made.text());
    const first = await settled(server.url);
    console.log(
      `folded ${first.read} of ${events} events in ${first.seconds.toFixed(1)} s, batches of ${size} groups; ${first.paused ? 'reading pauses until the first commit' : 'all was read'}`,
    );
    console.log(`memory with a backlog of ${BACKLOG} batches: ${memoryOf(server.pid)}`);
    await fetch(`${server.url}/v1/feeds/f/batches/1/manifest?wait=30`).then((answer) => answer.arrayBuffer());
    await server.stop();
    server = await startServer(env, { listenMs: 300_000 });
    const again = await settled(server.url);
    console.log(`restart from the checkpoint: ${again.seconds.toFixed(1)} s after it listens`);
    await server.kill();
    server = await startServer(env, { listenMs: 300_000 });
    const killed = await settled(server.url);
    console.log(`after SIGKILL: ${killed.seconds.toFixed(1)} s after it listens`);
  } finally {
    await server.stop();
  }
}

async function settled(url: string): Promise<{ seconds: number; read: number; paused: boolean }> {
  const started = performance.now();
  for (;;) {
    const answer = await fetch(`${url}/v1/feeds/f/status`);
    const status = (await answer.json()) as Status & { frontier: { positions: number[] } };
    if (answer.ok && status.cut >= 1 && (status.frontier.caughtUp || status.frontier.paused)) {
      return {
        seconds: (performance.now() - started) / 1000,
        read: status.frontier.positions.reduce((a, b) => a + b, 0),
        paused: status.frontier.paused,
      };
    }
    await systemClock.sleep(50);
  }
}

/** Anonymous memory: the log's mapped file is not ours. */
function memoryOf(pid: number): string {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kib = (name: string): number => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0);
  return `${(kib('RssAnon') / 1024).toFixed(0)} MiB anonymous, ${(kib('VmHWM') / 1024).toFixed(0)} MiB at most with mapped files`;
}
