/**
 * A feed on a long log: how long it takes to fold it while a trainer commits, what memory a backlog of many batches takes, and how long a restart takes from its
 * checkpoint, stopped and killed. The limit beside it: reading the same log without a feed. `--fill` only makes the log, in the folder that `--store` names.
 *
 *   npm run bench -- feed-restart [--events 1000000] [--backlog 10] [--groups 250] [--store <folder> [--fill]]
 */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { systemClock } from '../base/clock.ts';
import { startServer, temporaryFolder } from '../e2e/server.ts';
import { encodeEvent } from '../events/codec/cbor-encode.ts';
import { partitionKey } from '../events/partition-key.ts';
import { openEmbeddedLog } from '../store/log/embedded-log.ts';
import type { EventLog, LogRecord } from '../store/log/event-log.ts';
import { partitionOf } from '../store/log/partitioner.ts';
import { world } from '../trainer-feed/feed/feed-world.ts';

const { values } = parseArgs({ options: { events: { type: 'string', default: '1000000' }, backlog: { type: 'string', default: '10' }, groups: { type: 'string', default: '250' }, store: { type: 'string' }, fill: { type: 'boolean', default: false } } }); // prettier-ignore
const EVENTS = Number(values.events);
const BACKLOG = Number(values.backlog);
/** Groups of a batch. */
const BATCH = Number(values.groups);
const PARTITIONS = 4;
const SIZE = 8;
/** Groups made at once, and written again and again under other names. */
const GROUPS = 500;
const PLAN = { world: 1, maxTokens: 8192 };

const runName = (part: number): string => `run-${String(part).padStart(6, '0')}`;

const temporary = values.store === undefined ? temporaryFolder('bench-restart') : null;
const folder = values.store ?? temporary?.path ?? '';
const env = { TAPEDECK_DATA: folder, TAPEDECK_ROLES: 'feed', TAPEDECK_LOG_LEVEL: 'warn' };
try {
  mkdirSync(folder, { recursive: true });
  if (!readdirSync(folder).includes('log')) await fill();
  if (!values.fill) await measure();
} finally {
  temporary?.remove();
}

function openLog(): Promise<EventLog> {
  return openEmbeddedLog({ directory: join(folder, 'log'), topic: 'events', partitions: PARTITIONS, mode: 'write', maxRecordBytes: 1_000_000, compression: 'fast', clock: systemClock }); // prettier-ignore
}

/** A record and where its run and the end of its event id stand in it. */
type Template = {
  readonly partition: number;
  readonly record: LogRecord;
  readonly runs: readonly [Uint8Array, number][];
  readonly id: number;
};

/** Finished groups straight into the log: the same ones, each time as another run with other event ids. */
async function fill(): Promise<void> {
  const log = await openLog();
  const templates = templatesOf(runName(0));
  for (let part = 0, events = 0; events < EVENTS; part++, events += templates.length) {
    const byPartition: LogRecord[][] = Array.from({ length: PARTITIONS }, () => []);
    for (const { partition, record, runs, id } of templates) {
      for (const [bytes, at] of runs) Buffer.from(bytes.buffer, bytes.byteOffset).write(runName(part), at, 'latin1');
      Buffer.from(record.value.buffer, record.value.byteOffset).write(part.toString(16).padStart(6, '0'), id, 'latin1');
      byPartition[partition]?.push(record);
    }
    await Promise.all(byPartition.map(async (records, partition) => {
      for (let at = 0; at < records.length; at += 2000) await log.append(partition, records.slice(at, at + 2000));
    })); // prettier-ignore
  }
  await log.close();
}

function templatesOf(run: string): Template[] {
  const made = world({ seed: 1, groups: GROUPS, size: SIZE, partitions: PARTITIONS, turns: 2, tokensPerTurn: 8, run }).flat();
  return made.map((event) => {
    const key = Buffer.from(partitionKey(event));
    const value = Buffer.from(encodeEvent(event));
    const places = (bytes: Buffer): [Uint8Array, number][] => {
      const found: [Uint8Array, number][] = [];
      for (let at = bytes.indexOf(run); at >= 0; at = bytes.indexOf(run, at + 1)) found.push([bytes, at]);
      return found;
    };
    const id = value.indexOf(event.id) + 30; // the last six digits
    return {
      partition: partitionOf(partitionKey(event), PARTITIONS),
      record: { key, value },
      runs: [...places(key), ...places(value)],
      id,
    };
  });
}

/** Events in the log, and what reading it alone takes. */
async function readAlone(): Promise<number> {
  const log = await openLog();
  const started = performance.now();
  let events = 0;
  for (let partition = 0; partition < PARTITIONS; partition++) {
    for (let from = 0; ;) {
      const chunk = await log.read(partition, from, { maxBytes: 4 * 1024 * 1024 });
      from = chunk.next;
      events += chunk.records.length;
      chunk.release?.();
      if (chunk.next >= chunk.end) break;
    }
  }
  console.log(`log of ${events} events, ${(((await log.sizeBytes()) ?? 0) / 2 ** 20).toFixed(0)} MiB; reading it alone: ${((performance.now() - started) / 1000).toFixed(1)} s`); // prettier-ignore
  await log.close();
  return events;
}

type Status = {
  readonly committed: number;
  readonly cut: number;
  readonly frontier: { readonly positions: readonly number[]; readonly caughtUp: boolean; readonly paused: boolean };
};

async function measure(): Promise<void> {
  const events = await readAlone();
  let server = await startServer(env, { listenMs: 300_000 });
  try {
    const spec = { maxRowTokens: 4096, batch: { by: 'groups', size: BATCH }, dropZeroAdvantage: false, staleness: { maxOffPolicySteps: null }, cutAhead: 2 }; // prettier-ignore
    await post(`${server.url}/v1/feeds`, { feed: 'f', spec });
    const started = performance.now();
    let most = 0;
    const total = Math.floor(events / eventsPerGroup() / BATCH);
    for (let n = 1; n <= total - BACKLOG; n++) {
      const lease = await post<{ batchId: string; token: number }>(`${server.url}/v1/feeds/f/leases`, { holder: 't', step: n, ...PLAN, wait: 30 }); // prettier-ignore
      await post(`${server.url}/v1/feeds/f/commits`, { n, batchId: lease.batchId, token: lease.token, step: n });
      most = Math.max(most, memoryOf(server.pid));
    }
    const { status } = await settled(server.url);
    most = Math.max(most, memoryOf(server.pid));
    const read = status.frontier.positions.reduce((a, b) => a + b, 0);
    console.log(`folded ${read} of ${events} events and trained ${status.committed} of ${total} batches of ${BATCH} groups in ${((performance.now() - started) / 1000).toFixed(1)} s; ${status.frontier.paused ? 'reading pauses until the next commit' : 'all was read'}`); // prettier-ignore
    console.log(`anonymous memory with a backlog of ${total - status.committed} batches: ${memoryOf(server.pid).toFixed(0)} MiB, at most ${most.toFixed(0)} MiB`); // prettier-ignore
    for (const how of ['stopped', 'killed'] as const) {
      await (how === 'stopped' ? server.stop() : server.kill());
      server = await startServer(env, { listenMs: 300_000 });
      const { seconds } = await settled(server.url);
      console.log(`${how} and started again: ${seconds.toFixed(1)} s after it listens the feed is where it was; checkpoint of ${checkpointMiB().toFixed(1)} MiB`); // prettier-ignore
    }
  } finally {
    await server.stop();
  }
}

function eventsPerGroup(): number {
  return world({ seed: 1, groups: 1, size: SIZE, partitions: 1, turns: 2, tokensPerTurn: 8 }).flat().length;
}

async function post<T>(url: string, body: object): Promise<T> {
  for (;;) {
    const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    const text = await answer.text();
    if (answer.status === 202 || answer.status === 503) continue; // not cut yet
    if (!answer.ok) throw new Error(`${url} answered ${answer.status}: ${text}`);
    return JSON.parse(text) as T;
  }
}

/** Waits until the feed has read all it will read before the next commit. */
async function settled(url: string): Promise<{ seconds: number; status: Status }> {
  const started = performance.now();
  for (;;) {
    const answer = await fetch(`${url}/v1/feeds/f/status`);
    const status = (await answer.json()) as Status;
    if (answer.ok && status.cut >= 1 && (status.frontier.caughtUp || status.frontier.paused)) {
      return { seconds: (performance.now() - started) / 1000, status };
    }
    await systemClock.sleep(50);
  }
}

/** MiB of anonymous memory: the log's mapped file is not ours. */
function memoryOf(pid: number): number {
  return Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
}

/** Of the newest. */
function checkpointMiB(): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(({ name }) => name.endsWith('.checkpoint'));
  const [newest] = files.map(({ parentPath, name }) => join(parentPath, name)).toSorted().toReversed(); // prettier-ignore
  return newest === undefined ? 0 : readFileSync(newest).length / 2 ** 20;
}
