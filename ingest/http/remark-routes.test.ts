/** Notes and rewards by people over a real edge and a real log. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openEdge } from './edge-under-test.ts';
import { registerRemarks } from './remark-routes.ts';

const ODD = 'a/b "c" \u0000💥';

test('a note and a reward are events once they are acknowledged; the narrowest id says what they are about', async () => {
  const edge = await openEdge({ routes: () => [registerRemarks] });
  const post = async (path: string, body: unknown): Promise<{ status: number; body: { id: string; error?: { code: string; message: string } } }> => {
    const answer = await fetch(`${edge.url}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    return { status: answer.status, body: (await answer.json()) as { id: string } };
  };
  try {
    const made = [
      await post('/v1/notes', { run: ODD, text: 'hm', label: 'x' }),
      await post('/v1/notes', { run: 'r', rollout: 'o', trace: 't', node: 3, label: 'good', author: 'me' }),
      await post('/v1/rewards', { run: 'r', rollout: 'o', name: 'taste', score: { $float: 'NaN' }, source: { kind: 'human', name: 'me' } }),
      await post('/v1/rewards', { run: 'r', rollout: 'o', trace: 't', name: 'taste', score: null, weight: 0 }),
    ];
    assert.deepEqual(made.map(({ status }) => status), [201, 201, 201, 201]);
    const stored = new Map((await edge.stored()).map(({ id, event }) => [id, event]));
    const events = made.map(({ body }) => stored.get(body.id) as { type: string; run: string; data: object });
    assert.deepEqual(events.map(({ data }) => data), [
      { scope: 'run', label: 'x', text: 'hm' },
      { scope: 'node', node: 3, label: 'good', author: 'me' },
      { scope: 'rollout', name: 'taste', source: { kind: 'human', name: 'me' }, score: NaN },
      { scope: 'trace', name: 'taste', weight: 0, source: { kind: 'human' }, score: null },
    ]);
    assert.equal(events[0]?.run, ODD);
  } finally {
    await edge.close();
  }
}); // prettier-ignore

test('what is not whole is refused by field, and a deleted run takes no remarks', async () => {
  const edge = await openEdge({ routes: () => [registerRemarks] });
  try {
    const cases: [string, object, number, RegExp][] = [
      ['/v1/notes', { run: 'r' }, 400, /text: label or text is needed/],
      ['/v1/notes', { run: 'r', trace: 't', text: 'x' }, 400, /rollout: is needed with trace/],
      ['/v1/notes', { run: 'r', rollout: 'o', node: 1, text: 'x' }, 400, /trace: is needed with node/],
      ['/v1/rewards', { run: 'r', rollout: 'o', name: 'x', score: 'high' }, 400, /score/],
      ['/v1/rewards', { run: 'r', rollout: 'o', name: 'x', score: 1, more: 1 }, 400, /more/],
      ['/v1/rewards', { run: 'r', name: 'x', score: 1 }, 400, /rollout/],
    ];
    for (const [path, body, status, message] of cases) {
      const answer = await fetch(`${edge.url}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
      assert.equal(answer.status, status, JSON.stringify(body));
      assert.match(((await answer.json()) as { error: { message: string } }).error.message, message);
    }
    assert.deepEqual(await edge.stored(), []);
  } finally {
    await edge.close();
  }
}); // prettier-ignore
