/** A captured trace and the record that is uploaded later of the same work: which of the two the views show and count. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { systemClock } from '../../../base/clock.ts';
import { migrate } from '../../../migrations/migrate.ts';
import type { ColumnStore } from '../column-store.ts';
import { deleteRun } from '../deletion.ts';
import { insertEvents, storedWorld, summarise, type Draft } from '../projections/test-world.ts';
import { openTestStore, type TestStore } from '../test-store.ts';
import { ensureProject } from './ensure-project.ts';
import { calls } from './trace-views.ts';

const OPTIONS = { database: 'store', cluster: null };
let engine: TestStore;
let store: ColumnStore;
let view: ColumnStore;

before(async () => {
  engine = await openTestStore();
  store = engine.connect('store');
  await migrate(engine.connect('default'), { ...OPTIONS, clock: systemClock });
  view = engine.connect(await ensureProject(store, 'default', OPTIONS));
});
after(() => engine.close());

type Ids = { readonly run: string; readonly rollout: string; readonly trace: string };

function work({ run, rollout, trace }: Ids, session: string, reward: number, mirrorOf: { rollout?: string; trace?: string }): Draft[] {
  const group = { id: session, size: 2 };
  return [
    { type: 'rollout.started', run, rollout, data: { group, ...(mirrorOf.rollout !== undefined && { mirrorOf: mirrorOf.rollout }) } },
    { type: 'trace.started', run, rollout, trace, data: { agent: {}, ...(mirrorOf.trace !== undefined && { mirrorOf: mirrorOf.trace }) } },
    { type: 'reward.assigned', run, rollout, trace, data: { scope: 'trace', name: 'r', score: reward } },
  ];
}

/** What a gateway captures: it knows the session, which is the id of the upload's trace, but mostly not the upload's rollout. */
function captured(session: string, rollout = session): Draft[] {
  const id = `wire:${session}`;
  return work({ run: `capture-${session}`, rollout: id, trace: id }, session, 0.5, { rollout, trace: session });
}

function uploaded(session: string): Draft[] {
  return work({ run: `upload-${session}`, rollout: `episode-${session}`, trace: session }, session, 1, {});
}

let stored = 0;

/** Stores drafts as one block behind all that is stored, with its summaries. */
async function take(drafts: readonly Draft[], project = 'default'): Promise<void> {
  const events = storedWorld(project, drafts).map((event) => ({ ...event, offset: event.offset + stored }));
  stored += drafts.length;
  const block = await insertEvents(store, events);
  await summarise(store, block.touched);
}

/** Rollouts, traces and groups (run, rollouts, mean reward) that belong to a session. */
async function shown(session: string): Promise<unknown> {
  const params = { group: session };
  const rollouts = await view.rows<{ rollout: string }>('SELECT rollout FROM rollouts WHERE group = {group:String} ORDER BY rollout', {
    params,
  });
  const traces = await view.rows<{ trace: string }>('SELECT trace FROM traces WHERE group = {group:String} ORDER BY trace', { params });
  const groups = await view.rows<{ run: string; n: string; mean: number | null }>(
    'SELECT run, toString(rollouts) AS n, reward_mean AS mean FROM groups WHERE group = {group:String} ORDER BY run',
    { params },
  );
  return {
    rollouts: rollouts.map(({ rollout }) => rollout).join(' '),
    traces: traces.map(({ trace }) => trace).join(' '),
    groups: groups.map(({ run, n, mean }) => `${run} ${n} ${mean}`).join(', '),
  };
}

const mirrorOnly = (session: string): object => ({
  rollouts: `wire:${session}`,
  traces: `wire:${session}`,
  groups: `capture-${session} 1 0.5`,
});
const originalOnly = (session: string): object => ({
  rollouts: `episode-${session}`,
  traces: session,
  groups: `capture-${session} 0 null, upload-${session} 1 1`,
});

test('a mirror counts like any other until its original is there, and says of what it is one', async () => {
  await take(captured('s1'));
  assert.deepEqual(await shown('s1'), mirrorOnly('s1'));
  const params = { id: 'wire:s1' };
  assert.deepEqual(await view.rows('SELECT mirror_of FROM rollouts WHERE rollout = {id:String}', { params }), [{ mirror_of: 's1' }]);
  assert.deepEqual(await view.rows('SELECT mirror_of FROM traces WHERE trace = {id:String}', { params }), [{ mirror_of: 's1' }]);

  await take(uploaded('s1'), 'another project');
  await take(uploaded('s2'));
  assert.deepEqual(await shown('s1'), mirrorOnly('s1'));
  await take(uploaded('s1'));
  assert.deepEqual(await shown('s1'), originalOnly('s1'));
  assert.deepEqual(await view.rows("SELECT trace, mirror_of FROM traces WHERE trace = 's1'"), [{ trace: 's1', mirror_of: null }]);
});

test('the original may come first, or both in one block', async () => {
  await take(uploaded('first'));
  await take(captured('first'));
  assert.deepEqual(await shown('first'), originalOnly('first'));
  await take([...captured('both'), ...uploaded('both')]);
  assert.deepEqual(await shown('both'), originalOnly('both'));
});

test('the mirror stays readable: its place is found by the id of the original, its facts by its own; a deleted original gives it back', async () => {
  await take([...captured('kept'), ...uploaded('kept')]);
  assert.deepEqual(await view.rows("SELECT kind, run, rollout FROM ids WHERE id = 'kept' AND kind != 'group' ORDER BY kind"), [
    { kind: 'rollout_mirror', run: 'capture-kept', rollout: 'wire:kept' },
    { kind: 'trace', run: 'upload-kept', rollout: 'episode-kept' },
    { kind: 'trace_mirror', run: 'capture-kept', rollout: 'wire:kept' },
  ]);
  assert.deepEqual(await view.rows("SELECT score FROM rewards WHERE trace = 'wire:kept'"), [{ score: 0.5 }]);
  await deleteRun(store, 'default', 'upload-kept');
  assert.deepEqual(await shown('kept'), mirrorOnly('kept'));
});

test('a rollout that mirrors a rollout is left out by that one’s id', async () => {
  await take(captured('by-rollout', 'episode-by-rollout'));
  await take(uploaded('by-rollout'));
  assert.deepEqual(await shown('by-rollout'), originalOnly('by-rollout'));
});

test('extension and drift of calls per model and harness', async () => {
  const inTrace = (trace: string) => ({ run: 'calls', rollout: trace, trace });
  const call = (trace: string, index: number, data: object): Draft => ({
    type: 'call.recorded',
    ...inTrace(trace),
    data: { index, ...data },
  });
  const started = (trace: string, harness: string): Draft => ({
    type: 'trace.started',
    ...inTrace(trace),
    data: { agent: {}, runtime: { harness } },
  });
  await take([
    started('t1', 'bash-agent'),
    started('t2', 'verifiers'),
    call('t1', 0, { model: 'm', drift: [] }),
    call('t1', 1, { model: 'm', extends: false, drift: ['tool_calls.id', 'content'] }),
    call('t1', 2, { model: 'm', extends: true, drift: ['tool_calls.id'] }),
    call('t2', 0, { model: 'm' }),
    { type: 'trace.started', ...inTrace('t3'), data: { agent: { name: 'solver' } } },
    call('t3', 0, { model: 'm', extends: false }),
  ]);
  const bash = { extension_rate: 0.5, later_calls: '2', drifted_calls: '2', drifted_fields: ['content', 'tool_calls.id'] };
  const verifiers = { extension_rate: null, later_calls: '0', drifted_calls: '0', drifted_fields: [] };
  assert.deepEqual(await view.rows(calls.questions?.[0]?.sql ?? ''), [
    { model: 'm', harness: 'bash-agent', ...bash },
    { model: 'm', harness: 'solver', ...verifiers, extension_rate: 0, later_calls: '1' },
    { model: 'm', harness: 'verifiers', ...verifiers },
  ]);
  assert.deepEqual(await view.rows('SELECT trace, index, extends, drift FROM calls ORDER BY trace, index'), [
    { trace: 't1', index: 0, extends: null, drift: '[]' },
    { trace: 't1', index: 1, extends: false, drift: '["tool_calls.id","content"]' },
    { trace: 't1', index: 2, extends: true, drift: '["tool_calls.id"]' },
    { trace: 't2', index: 0, extends: null, drift: null },
    { trace: 't3', index: 0, extends: false, drift: null },
  ]);
});
