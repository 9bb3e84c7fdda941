/** Live updates over a real log: order, resumption, slow readers, many followers. No engine is needed: they come from the log. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Fastify, { type FastifyInstance } from 'fastify';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { uuidV7 } from '../../base/uuid.ts';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { PackedArray } from '../../events/packed-array.ts';
import { partitionKey } from '../../events/partition-key.ts';
import { openEmbeddedLog } from '../../store/log/embedded-log.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { partitionOf } from '../../store/log/partitioner.ts';
import { liveRoutes } from '../routes/live.ts';
import { LiveHub } from './live-hub.ts';

const WAIT_MS = 60_000;
let directory: string;
let log: EventLog;
let feeds: EventLog;
let hub: LiveHub;
let app: FastifyInstance;
let url: string;

before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'tapedeck-live-'));
  const open = (topic: 'events' | 'feeds'): Promise<EventLog> =>
    openEmbeddedLog({ directory: join(directory, topic), topic, partitions: 3, mode: 'write', maxRecordBytes: 1 << 20, compression: 'none', clock: systemClock });
  log = await open('events');
  feeds = await open('feeds');
  hub = new LiveHub({ logs: { events: log, feeds }, clock: systemClock, followerBytes: 64 * 1024 });
  app = Fastify({ forceCloseConnections: true });
  await app.register(liveRoutes, { hub });
  await app.listen({ host: '127.0.0.1', port: 0 });
  url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/v1/live`;
}); // prettier-ignore
after(async () => {
  await hub?.close();
  await app?.close();
  await log?.close();
  await feeds?.close();
  rmSync(directory, { recursive: true, force: true });
});

type Message = { id: string; event: string; data: { changes?: Change[]; from?: string; to?: string; reason?: string } };
type Change = { topic: string; events: number; rollouts?: { rollout: string; state?: string; rewards?: object[]; traces?: { trace: string; nodes?: { index: number }[]; counts: Record<string, number> }[] }[]; others?: object[]; state?: object; runs?: object[] }; // prettier-ignore

class Listener {
  readonly messages: Message[] = [];
  #text = '';
  #response: IncomingMessage | null = null;
  #woken = Promise.withResolvers<void>();

  static async open(query: string, headers: Record<string, string> = {}): Promise<Listener> {
    const listener = new Listener();
    const request = httpRequest(`${url}?${query}`, { headers, agent: false });
    request.end();
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    assert.equal(response.statusCode, 200);
    listener.#response = response;
    response.setEncoding('utf8');
    response.on('error', () => {});
    response.on('data', (text: string) => listener.#take(text));
    return listener;
  }

  #take(text: string): void {
    const parts = (this.#text + text).split('\n\n');
    this.#text = parts.pop() as string;
    for (const part of parts) {
      const field = (name: string): string => new RegExp(`^${name}: (.*)$`, 'm').exec(part)?.[1] ?? '';
      this.messages.push({ id: field('id'), event: field('event'), data: JSON.parse(field('data')) as Message['data'] });
    }
    this.#woken.resolve();
    this.#woken = Promise.withResolvers();
  }

  pause(): void {
    this.#response?.pause();
  }
  resume(): void {
    this.#response?.resume();
  }

  async until<T>(find: (messages: readonly Message[]) => T | undefined): Promise<T> {
    const end = Date.now() + WAIT_MS;
    for (;;) {
      const found = find(this.messages);
      if (found !== undefined) return found;
      if (Date.now() > end) throw new Error(`not told in time: ${JSON.stringify(this.messages).slice(0, 2_000)}`);
      await Promise.race([this.#woken.promise, new Promise((resolve) => setTimeout(resolve, 250).unref())]);
    }
  }

  nodes(): number[] {
    return this.messages.flatMap((each) => each.data.changes ?? []).flatMap((change) => change.rollouts ?? []).flatMap((rollout) => rollout.traces ?? []).flatMap((trace) => trace.nodes ?? []).map((node) => node.index); // prettier-ignore
  }

  close(): void {
    this.#response?.destroy();
  }
}

async function append(draft: { type: string; run?: string; rollout?: string; trace?: string; data: object }, topic: 'events' | 'feeds' = 'events'): Promise<void> {
  const event = { v: 1, id: uuidV7(systemClock, systemRandom), time: 1_700_000_000_000_000, ...draft };
  const to = topic === 'events' ? log : feeds;
  await to.append(partitionOf(partitionKey(event, topic), to.partitions), [{ key: Buffer.from('k'), value: encodeEvent(event) }]);
} // prettier-ignore

function node(trace: string, index: number, content = 'x'): { type: string; run: string; rollout: string; trace: string; data: object } {
  const tokens = { ids: PackedArray.of(Uint32Array.of(1, 2, 3)), mask: PackedArray.of(Uint8Array.of(0, 1, 1)), logprobs: PackedArray.of(Float32Array.of(-1, -2)) };
  return { type: 'node.appended', run: 'run-1', rollout: `o-${trace}`, trace, data: { index, parent: index === 0 ? null : index - 1, role: 'assistant', sampled: true, message: { role: 'assistant', content }, tokens } };
} // prettier-ignore

test('a run, a rollout, a trace and a feed are told what concerns them, and nothing else', async () => {
  const all = await Listener.open('topic=run:run-1&topic=rollout:o-t1&topic=trace:t1&topic=feed:f:1&topic=runs');
  await append({ type: 'run.started', run: 'run-1', data: { kind: 'train' } });
  await append({ type: 'rollout.started', run: 'run-1', rollout: 'o-t1', data: {} });
  await append(node('t1', 0));
  await append(node('other', 0));
  await append({ type: 'reward.assigned', run: 'run-1', rollout: 'o-t1', trace: 't1', data: { scope: 'trace', name: 'exact', score: NaN } });
  await append({ type: 'call.recorded', run: 'run-1', rollout: 'o-t1', trace: 't1', data: { index: 0, node: 0, error: { type: 'timeout', message: 'x' } } });
  await append({ type: 'feed.deleted', data: { feed: 'f:1', timeline: 0, reason: 'over' } }, 'feeds');
  const told = (name: string): ((messages: readonly Message[]) => Change[] | undefined) => (messages) => {
    const changes = messages.flatMap((each) => each.data.changes ?? []).filter((change) => change.topic === name);
    return changes.length === 0 ? undefined : changes;
  };
  await all.until((messages) => {
    const changes = told('trace:t1')(messages) ?? [];
    return changes.reduce((sum, change) => sum + change.events, 0) === 3 ? true : undefined;
  });
  const run = await all.until(told('run:run-1'));
  assert.ok(run.flatMap((change) => change.rollouts ?? []).some((rollout) => rollout.rollout === 'o-other'));
  assert.ok(run.some((change) => change.state !== undefined));
  const trace = await all.until(told('trace:t1'));
  const rollouts = trace.flatMap((change) => change.rollouts ?? []);
  assert.deepEqual([...new Set(rollouts.map((rollout) => rollout.rollout))], ['o-t1']);
  assert.deepEqual(rollouts.flatMap((rollout) => rollout.traces ?? []).flatMap((each) => each.nodes ?? []), [{ index: 0, parent: null, role: 'assistant', sampled: true, tokens: 3, sampledTokens: 2, call: null, forkReason: null }]);
  assert.deepEqual(rollouts.flatMap((rollout) => rollout.rewards ?? []), [{ scope: 'trace', trace: 't1', node: null, name: 'exact', score: { $float: 'NaN' }, weight: 1 }]);
  assert.deepEqual((await all.until(told('feed:f:1'))).flatMap((change) => change.others ?? []), [{ type: 'feed.deleted', feed: 'f:1', timeline: 0, reason: 'over' }]);
  assert.deepEqual((await all.until(told('runs'))).flatMap((change) => change.runs ?? []), [{ run: 'run-1', type: 'run.started' }]);
  all.close();
}); // prettier-ignore

test('a client that comes back with its last id misses nothing and hears nothing twice', async () => {
  const first = await Listener.open('topic=trace:resumed');
  await append(node('resumed', 0));
  await append(node('resumed', 1));
  await first.until(() => (first.nodes().length === 2 ? true : undefined));
  const last = first.messages.at(-1)?.id ?? '';
  first.close();
  for (let index = 2; index < 30; index++) await append(node('resumed', index));
  const second = await Listener.open('topic=trace:resumed', { 'last-event-id': last });
  for (let index = 30; index < 40; index++) await append(node('resumed', index));
  await second.until(() => (second.nodes().length >= 38 ? true : undefined));
  assert.deepEqual(
    second.nodes(),
    Array.from({ length: 38 }, (_, at) => at + 2),
  );
  second.close();
});

test('a slow reader is told what it missed, and reads it again from there', async () => {
  const slow = await Listener.open('topic=run:slow');
  const quick = await Listener.open('topic=run:slow&topic=run:unused');
  const count = (listener: Listener): number => listener.messages.flatMap((each) => each.data.changes ?? []).reduce((sum, change) => sum + change.events, 0); // prettier-ignore
  slow.pause();
  const rounds = 60;
  const each = 1_000;
  for (let round = 1; round <= rounds; round++) {
    const note = (): object => ({ v: 1, id: uuidV7(systemClock, systemRandom), time: 1_700_000_000_000_000, type: 'note.added', run: 'slow', data: { scope: 'run', label: 'x'.repeat(256) } }); // prettier-ignore
    await log.append(partitionOf('slow', 3), Array.from({ length: each }, () => ({ key: Buffer.from('k'), value: encodeEvent(note()) }))); // prettier-ignore
    await quick.until(() => (count(quick) === round * each ? true : undefined)); // a message a round: more than the sockets hold
  }
  const many = rounds * each;
  slow.resume();
  const skipped = await slow.until((messages) => messages.find((one) => one.event === 'skipped'));
  assert.equal(skipped.data.reason, 'slow');
  assert.equal(skipped.id, skipped.data.to);
  const at = slow.messages.indexOf(skipped);
  assert.equal(slow.messages[at - 1]?.id, skipped.data.from);
  const again = await Listener.open(`topic=run:slow&from=${skipped.data.from ?? ''}`);
  const before = slow.messages.slice(0, at).flatMap((one) => one.data.changes ?? []).reduce((sum, change) => sum + change.events, 0); // prettier-ignore
  await again.until(() => (count(again) >= many - before ? true : undefined));
  assert.equal(count(again), many - before);
  for (const listener of [slow, quick, again]) listener.close();
});

test('a position that was never, and a topic that is none, are said', async () => {
  const strange = await Listener.open('topic=trace:t1&from=999999999~');
  assert.equal((await strange.until((messages) => messages.find((each) => each.event === 'skipped'))).data.reason, 'unknown position');
  strange.close();
  for (const query of ['topic=nothing:1', 'topic=run:', '', 'topic=run:x&from=abc', 'topic=run:x&more=1'])
    assert.equal((await fetch(`${url}?${query}`)).status, 400, query);
}); // prettier-ignore

test('500 followers of one run are served by one reader, each with every event', async () => {
  const followers = await Promise.all(Array.from({ length: 500 }, () => Listener.open('topic=run:crowd')));
  assert.ok(hub.followers >= 500);
  for (let index = 0; index < 50; index++) await append({ ...node(`c${index % 5}`, Math.floor(index / 5)), run: 'crowd' });
  const events = (listener: Listener): number => listener.messages.flatMap((each) => each.data.changes ?? []).reduce((sum, change) => sum + change.events, 0); // prettier-ignore
  for (const follower of followers) await follower.until(() => (events(follower) === 50 ? true : undefined));
  for (const follower of followers) follower.close();
  const end = Date.now() + WAIT_MS;
  while (hub.followers > 0 && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 50));
  assert.equal(hub.followers, 0);
});

test('who joins while events come, with topics that others follow too, hears everything behind its position once in each topic', async () => {
  const first = await Listener.open('topic=run:overlap');
  const from = (await first.until((messages) => messages[0])).id;
  const listeners: Listener[] = [];
  const many = 40;
  for (let index = 0; index < many; index++) {
    await append({ ...node('overlap-t', index), run: 'overlap' });
    if (index % 4 === 0) listeners.push(await Listener.open(`topic=run:overlap${index % 8 === 0 ? '&topic=trace:overlap-t' : ''}&from=${from}`));
  }
  const heard = (listener: Listener, topic: string): number => listener.messages.flatMap((each) => each.data.changes ?? []).filter((change) => change.topic === topic).reduce((sum, change) => sum + change.events, 0);
  for (const [at, listener] of [first, ...listeners].entries()) {
    await listener.until(() => (heard(listener, 'run:overlap') >= many && (at % 2 === 0 || heard(listener, 'trace:overlap-t') >= many) ? true : undefined));
    assert.equal(heard(listener, 'run:overlap'), many);
    assert.deepEqual(listener.nodes(), at % 2 === 0 ? [] : Array.from({ length: many }, (_, index) => index));
    listener.close();
  }
}); // prettier-ignore
