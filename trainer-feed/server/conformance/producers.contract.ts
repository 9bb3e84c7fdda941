/** What a feed tells producers and onlookers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { FeedClient, refuses, type Contract } from './conformance.ts';

type Capacity = { capacity: number | null; limit: number | null; queued: number; running: number; frees: string[] };

export const producersContract: Contract = (under) => {
  test('capacity is (maxOffPolicySteps + 1) x B less what is queued and running; a commit frees a batch; a wait ends when there is some', async () => {
    const client = new FeedClient(under, 'capacity');
    await client.produce({ seed: 21, groups: 8, size: 4 });
    await client.create({ staleness: { maxOffPolicySteps: 1, strategy: 'drop' }, dropZeroAdvantage: false });
    await client.slice(1);
    const ask = async (query = ''): Promise<Capacity> => (await client.get(`/capacity${query}`)).json();
    const full = await ask();
    assert.deepEqual([full.limit, full.queued, full.running, full.capacity], [16, 32, 0, 0]);
    assert.ok(
      full.frees.some((text) => /commit of batch 1 frees 8/.test(text)),
      full.frees.join(),
    );
    const waiting = ask('?wait=30&atLeast=1');
    await client.step(1);
    assert.equal((await waiting).capacity, 8, 'batch 2 holds 8; what is left is too old for batch 3, and no longer counts');
    await client.step(2);
    assert.equal((await ask()).capacity, 16);
    // what was acknowledged before the question counts: nobody starts the same room twice
    const started = {
      v: 1,
      id: `00000000-0000-8000-8001-${client.run.slice(-12)}`,
      type: 'rollout.started',
      time: 1_750_000_002_000_000,
      run: client.run,
      group: 'another',
      rollout: 'another-0',
      data: { group: { id: 'another', size: 4 }, work: { type: 'train' } },
    };
    await client.fetch('POST', '/v1/events', { body: Buffer.from(JSON.stringify([started])), type: 'application/json' });
    const running = await ask();
    assert.deepEqual([running.running, running.capacity], [1, 15]);
    const free = new FeedClient(under, 'unlimited');
    await free.produce({ seed: 22, groups: 1, size: 2 });
    await free.create({ staleness: { maxOffPolicySteps: null } });
    assert.equal(((await free.get('/capacity')).json() as Capacity).capacity, null);
  });

  test('cancelled rollouts are told to those that follow', async () => {
    const client = new FeedClient(under, 'cancel');
    await client.produce({ seed: 23, groups: 2, size: 2 });
    await client.create();
    const stop = new AbortController();
    const url = `${under.url()}/v1/feeds/${client.feed}/cancellations`;
    await client.get('/status'); // it is open
    const answer = await fetch(url, { signal: stop.signal });
    assert.equal(answer.headers.get('content-type')?.split(';')[0], 'text/event-stream');
    const ids = { run: client.run, group: 'late', rollout: 'to-be-stopped' };
    const base = { v: 1, project: 'default', time: 1_750_000_002_000_000, ...ids };
    const events = [
      {
        ...base,
        id: '00000000-0000-8000-8000-0000000000a1',
        type: 'rollout.started',
        data: { group: { id: 'late', size: 2 }, work: { type: 'train' } },
      },
      { ...base, id: '00000000-0000-8000-8000-0000000000a2', type: 'rollout.cancelled', data: { reason: 'user' } },
    ];
    await client.fetch('POST', '/v1/events', { body: Buffer.from(JSON.stringify(events)), type: 'application/json' });
    let text = '';
    for await (const chunk of answer.body as unknown as AsyncIterable<Uint8Array>) {
      text += Buffer.from(chunk).toString();
      if (/\n\n/.test(text.slice(text.indexOf('event: cancel') + 1)) && text.includes('event: cancel')) break;
    }
    stop.abort();
    const data = JSON.parse(/data: (.*)/.exec(text)?.[1] ?? '{}') as { run: string; rollout: string; reason: string };
    assert.deepEqual([data.run, data.rollout, data.reason], [client.run, 'to-be-stopped', 'user']);
  });

  test('what runs and is too old for every batch to come is cancelled as stale; what is fresh enough runs on', async () => {
    const client = new FeedClient(under, 'stale');
    await client.produce({ seed: 25, groups: 6, size: 4 });
    const starts = [0, 1].map((policyVersion) => ({
      v: 1,
      id: `00000000-0000-8000-8${policyVersion}00-${client.run.slice(-12)}`,
      type: 'rollout.started',
      time: 1_750_000_002_000_000,
      run: client.run,
      group: 'running',
      rollout: `by-version-${policyVersion}`,
      data: { group: { id: 'running', size: 8 }, work: { type: 'train' }, policyVersion },
    }));
    await client.fetch('POST', '/v1/events', { body: Buffer.from(JSON.stringify(starts)), type: 'application/json' });
    await client.create({ staleness: { maxOffPolicySteps: 1, strategy: 'drop' } });
    await client.slice(1);
    const stop = new AbortController();
    const answer = await fetch(`${under.url()}/v1/feeds/${client.feed}/cancellations`, { signal: stop.signal });
    let text = '';
    const reading = (async () => {
      for await (const chunk of answer.body as unknown as AsyncIterable<Uint8Array>) text += Buffer.from(chunk).toString();
    })().catch(() => {});
    const cancelled = (): string[] => [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => (JSON.parse(data as string) as { rollout: string; reason: string })).map(({ rollout, reason }) => `${rollout} ${reason}`); // prettier-ignore
    await sleep(300);
    assert.deepEqual(cancelled(), [], 'batch 2 may still hold it');
    await client.step(1);
    await client.slice(2);
    for (let i = 0; i < 100 && cancelled().length === 0; i++) await sleep(100);
    await sleep(300);
    stop.abort();
    await reading;
    assert.deepEqual(cancelled(), ['by-version-0 stale']);
  });

  test('producers that have died are named to whoever waits for their rollouts', async () => {
    const client = new FeedClient(under, 'silent');
    const ids = { run: client.run, group: 'g', rollout: 'never-ends' };
    const event = {
      v: 1,
      id: `00000000-0000-8000-8000-${client.run.slice(-12)}`,
      type: 'rollout.started',
      time: 1_750_000_002_000_000,
      ...ids,
      producer: { id: `worker-${client.run}`, epoch: 0, seq: 0 },
      data: { group: { id: 'g', size: 2 }, work: { type: 'train' } },
    };
    await client.fetch('POST', '/v1/events', { body: Buffer.from(JSON.stringify([event])), type: 'application/json' });
    await client.create({ rolloutExpirySeconds: 0.05 });
    type Silent = readonly { producer: string | null; run: string; rollouts: number; lastHeard: number }[];
    const pendingOf = async (): Promise<Silent> => {
      const answer = await client.get('/batches/1?rank=0&world=1&maxTokens=800&wait=1');
      assert.equal(answer.status, 202, answer.bytes.toString());
      return (answer.json() as { pending: { silentProducers?: Silent } }).pending.silentProducers ?? [];
    };
    let silent = await pendingOf();
    for (let i = 0; i < 30 && silent.length === 0; i++) silent = await pendingOf();
    assert.deepEqual(silent.map(({ producer, run, rollouts }) => [producer, run, rollouts]), [[`worker-${client.run}`, client.run, 1]]); // prettier-ignore
    assert.ok((silent[0]?.lastHeard ?? 0) > 0);
    const status = (await client.get('/status')).json() as { silentProducers: Silent };
    assert.equal(status.silentProducers[0]?.producer, `worker-${client.run}`);
  });

  test('published weights and status', async () => {
    const client = new FeedClient(under, 'status');
    await client.produce({ seed: 24, groups: 6, size: 4 });
    await client.create();
    await client.step(1);
    assert.deepEqual((await client.act('policy', { version: 1, uri: 'file:///w/1' })).json(), { version: 1, timeline: 0 });
    type Status = { readonly policyVersion: number | null; readonly committed: number };
    const ask = async (): Promise<Status> => (await client.get('/status')).json();
    let status = await ask();
    for (let i = 0; i < 500 && status.policyVersion !== 1; i++) status = await ask();
    assert.deepEqual([status.policyVersion, status.committed], [1, 1]);
    for (const name of [
      'timeline',
      'cut',
      'ended',
      'lease',
      'next',
      'depth',
      'groups',
      'oldestWaiting',
      'staleness',
      'frontier',
      'checkpoints',
      'left',
      'silentProducers',
    ])
      assert.ok(name in status, name);
    const all = new FeedClient(under, 'all-runs');
    await all.post('/v1/feeds', { feed: all.feed, spec: { maxRowTokens: 10, batch: { by: 'groups', size: 1e6 } } });
    refuses(await all.act('policy', { version: 1 }), 422, 'missing_field', /run is missing/);
  });
};
