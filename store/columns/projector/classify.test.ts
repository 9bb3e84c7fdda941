import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { TapedeckEvent } from '../../../events/registry.ts';
import { classify, entityOf, factsOf, runKey, type Candidate, type KnownState } from './classify.ts';
import { nothingKnown, type KnownFacts } from './known-facts.ts';

function node(id: string, offset: number, index: number, content: string, run = 'r'): Candidate {
  const event = {
    v: 1,
    id,
    type: 'node.appended',
    project: 'p',
    run,
    rollout: 'o',
    trace: 't',
    time: 0,
    data: { index, role: 'user', sampled: false },
  };
  const entity = entityOf(event as TapedeckEvent);
  const envelope = { id, type: 'node.appended', project: 'p', run, rollout: 'o' } as const;
  return { ...envelope, partition: 0, offset, eventHash: `e${id}${content}`, dataHash: content, entity };
}

const NOTHING: KnownState = { facts: [], deletedRuns: new Set<string>() };

function statuses(candidates: Candidate[], known = NOTHING): string[] {
  return classify(candidates, known).decisions.map((d) => d.status);
}

test('the same id again is a duplicate with equal content and a conflict with other content', () => {
  assert.deepEqual(statuses([node('a', 1, 0, 'x'), node('a', 2, 0, 'x'), node('a', 3, 0, 'y')]), ['stored', 'duplicate', 'conflict']);
  const facts = nothingKnown();
  facts.ids.set({ partition: 0, project: 'p', id: 'a' }, { offset: 1, hash: 'eax' });
  const known = { ...NOTHING, facts: [facts] };
  assert.deepEqual(statuses([node('a', 2, 0, 'x'), node('a', 3, 0, 'y')], known), ['duplicate', 'conflict']);
});

test('an id belongs to its project: the same id of another project is neither a duplicate nor a conflict', () => {
  const of = (project: string, offset: number, content: string): Candidate => ({ ...node('a', offset, 0, content), project, entity: null });
  assert.deepEqual(statuses([of('p', 1, 'x'), of('q', 2, 'y'), of('q', 3, 'y'), of('p', 4, 'y')]), ['stored', 'stored', 'duplicate', 'conflict']); // prettier-ignore
  const facts = nothingKnown();
  facts.ids.set({ partition: 0, project: 'p', id: 'a' }, { offset: 1, hash: 'eax' });
  const known = { ...NOTHING, facts: [facts] };
  assert.deepEqual(statuses([of('q', 2, 'y'), of('p', 3, 'y')], known), ['stored', 'conflict']);
});

test('an id that was stored without its project stands for every project', () => {
  const facts = nothingKnown();
  facts.ids.set({ partition: 0, project: '', id: 'a' }, { offset: 1, hash: 'eax' });
  assert.deepEqual(statuses([node('a', 2, 0, 'x'), node('a', 3, 0, 'y')], { ...NOTHING, facts: [facts] }), ['duplicate', 'conflict']);
});

test('the same position again is a redo, not a duplicate', () => {
  const event = node('a', 7, 0, 'x');
  const { entity } = event;
  assert.ok(entity !== null);
  const facts = nothingKnown();
  facts.ids.set({ partition: 0, project: 'p', id: 'a' }, { offset: 7, hash: 'eax' });
  facts.entities.set(entity, { offset: 7, hash: 'x' });
  assert.deepEqual(statuses([event], { ...NOTHING, facts: [facts] }), ['stored']);
});

test('an entity that exists is a duplicate or a conflict whatever the event id', () => {
  const { decisions } = classify([node('a', 1, 0, 'x'), node('b', 2, 0, 'x'), node('c', 3, 0, 'y'), node('d', 4, 1, 'y')], NOTHING);
  assert.deepEqual(decisions.map((d) => d.status), ['stored', 'duplicate', 'conflict', 'stored']); // prettier-ignore
  assert.deepEqual(decisions.map((d) => d.firstOffset), [null, 1, 1, null]); // prettier-ignore
  assert.equal(decisions[2]?.code, 'entity_conflict');
});

test('events of a deleted run are deleted, before and after the tombstone, but the tombstone itself is stored', () => {
  const known = { ...NOTHING, deletedRuns: new Set([runKey('p', 'r')]) };
  const tombstone: Candidate = { ...node('z', 2, 0, ''), type: 'run.deleted', entity: null };
  assert.deepEqual(statuses([node('a', 1, 0, 'x'), tombstone, node('b', 3, 1, 'y'), node('c', 4, 0, 'x', 'other')], known), [
    'deleted',
    'stored',
    'deleted',
    'stored',
  ]);
});

function learn(known: KnownFacts, { id, offset, eventHash, dataHash, entity }: Candidate): void {
  known.ids.set({ partition: 0, project: 'p', id }, { offset, hash: eventHash });
  if (entity !== null) known.entities.set(entity, { offset, hash: dataHash });
}

test('however a log is cut into blocks, and however often a block is redone, the decisions are those of one block', () => {
  const events = fc.array(fc.record({ id: fc.constantFrom('a', 'b', 'c', 'd'), index: fc.nat(2), content: fc.constantFrom('x', 'y') }), {
    maxLength: 20,
  });
  fc.assert(
    fc.property(events, fc.array(fc.nat(20)), fc.boolean(), fc.boolean(), (list, cuts, redo, early) => {
      const candidates = list.map((e, offset) => node(e.id, offset, e.index, e.content));
      const whole = statuses(candidates);
      const known = nothingKnown();
      let last = nothingKnown();
      let before: Candidate[] = [];
      const inBlocks: string[] = [];
      const bounds = [0, ...cuts.filter((c) => c < candidates.length).toSorted((a, b) => a - b), candidates.length];
      for (let b = 0; b + 1 < bounds.length; b++) {
        const block = candidates.slice(bounds[b], bounds[b + 1]);
        for (let times = redo ? 2 : 1; times > 0; times--) {
          const { decisions, stored } = classify(block, { facts: [last, known], deletedRuns: new Set<string>() });
          if (times === 1) inBlocks.push(...decisions.map((d) => d.status));
          const kept = block.filter((_, i) => decisions[i]?.status === 'stored');
          assert.deepEqual(factsOf(kept), stored);
          // the next block asks the store before this one is in it, or after
          for (const c of early ? kept : before) learn(known, c);
          before = kept;
          last = stored;
        }
      }
      assert.deepEqual(inBlocks, whole);
    }),
  );
});
