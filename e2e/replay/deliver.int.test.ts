/** What was recorded, delivered again: to files, as server-sent events, to another server, into another log. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import type { GatewayServer } from '../gateway/gateway-server.ts';
import { caughtUp, sql } from '../proof.ts';
import { startServer, temporaryFolder } from '../server.ts';
import { programCommand, tapedeck } from './recorded-program.ts';
import { startRecordedRun, type RecordedRun } from './recorded-run.ts';

type EventJson = { id: string; type: string; time: number; rollout?: string };
const countSql = "SELECT toUInt32(count()) AS n FROM events WHERE status = 'stored'";

describe('delivery of recorded events', () => {
  let run: RecordedRun;
  let gateway: GatewayServer;
  before(async () => {
    run = await startRecordedRun('replay-deliver');
    ({ gateway } = run);
  });
  after(() => run.close());

  const count = async (url: string): Promise<number> => (await sql<{ n: number }>(url, countSql))[0]!.n;

  describe('events', () => {
    test('a rollout as lines: its events in order, once each', async () => {
      const ran = await tapedeck(gateway.url, 'replay', 'events', run.first.rollout);
      assert.equal(ran.code, 0, ran.err);
      const events = ran.out.trimEnd().split('\n').map((line) => JSON.parse(line) as EventJson); // prettier-ignore
      assert.deepEqual([events[0]?.type, events.at(-1)?.type], ['rollout.started', 'rollout.ended']);
      const stored = await gateway.sql<{ id: string }>("SELECT toString(id) AS id FROM events WHERE rollout = {rollout:String} AND status = 'stored' ORDER BY offset", { rollout: run.first.rollout }); // prettier-ignore
      assert.deepEqual(events.map(({ id }) => id), stored.map(({ id }) => id)); // prettier-ignore
      assert.match(ran.err, new RegExp(`${events.length} events delivered`));
    });

    test('a run and a time range, to files', async () => {
      assert.equal((await tapedeck(gateway.url, 'replay', 'events', '--run', 'run-1', '--to', run.file('run.ndjson'))).code, 0);
      const lines = readFileSync(run.file('run.ndjson'), 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line) as EventJson); // prettier-ignore
      assert.equal(new Set(lines.map(({ id }) => id)).size, lines.length);
      for (const { rollout } of run.made) {
        const types = lines.filter((event) => event.rollout === rollout).map(({ type }) => type);
        assert.deepEqual([types[0], types.at(-1)], ['rollout.started', 'rollout.ended']);
      }
      const [from, until] = [lines[5]!.time, lines[20]!.time];
      assert.equal(
        (
          await tapedeck(
            gateway.url,
            'replay',
            'events',
            '--from',
            String(from),
            '--until',
            String(until),
            '--to',
            run.file('range.ndjson'),
          )
        ).code,
        0,
      );
      const range = readFileSync(run.file('range.ndjson'), 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line) as EventJson); // prettier-ignore
      assert.deepEqual(
        new Set(range.map(({ id }) => id)),
        new Set(lines.filter(({ time }) => time >= from && time < until).map(({ id }) => id)),
      );
    });

    test('server-sent events with their own times; a client that comes back goes on where it was', async () => {
      const url = `${gateway.url}/v1/replay/events?run=run-1&rollout=${run.first.rollout}&format=sse&speed=1000&maxPauseMs=50`;
      const read = async (last?: string): Promise<{ id: string; data: EventJson }[]> => {
        const answer = await fetch(url, { headers: last === undefined ? {} : { 'last-event-id': last } });
        assert.equal(answer.headers.get('content-type')?.split(';')[0], 'text/event-stream');
        const blocks = (await answer.text()).split('\n\n').filter((block) => block.startsWith('id: '));
        return blocks.map((block) => ({
          id: /^id: (.*)$/m.exec(block)![1]!,
          data: JSON.parse(/^data: (.*)$/m.exec(block)![1]!) as EventJson,
        }));
      };
      const all = await read();
      assert.ok(all.length > 5);
      assert.deepEqual((await read(all[3]!.id)).map(({ data }) => data.id), all.slice(4).map(({ data }) => data.id)); // prettier-ignore
      const bad = await fetch(url, { headers: { 'last-event-id': 'nonsense' } });
      assert.equal(bad.status, 400);
      assert.match(await bad.text(), /invalid_cursor/);
    });

    test('another server: the same events under the same ids; a second delivery adds nothing', async () => {
      const other = temporaryFolder('replay-other');
      const server = await startServer({ TAPEDECK_DATA: other.path, TAPEDECK_BLOCK_WAIT_MS: '50' });
      try {
        await server.ready();
        for (let i = 0; i < 2; i++) {
          const ran = await tapedeck(gateway.url, 'replay', 'events', '--run', 'run-1', '--to', server.url);
          assert.equal(ran.code, 0, ran.err);
          await caughtUp(server.url);
          assert.equal(await count(server.url), await count(gateway.url));
        }
        const nodes =
          'SELECT run, rollout, trace, index, role, message, token_ids, mask, logprobs FROM nodes ORDER BY rollout, trace, index';
        assert.deepEqual(await sql(server.url, nodes), await gateway.sql(nodes));
        const again = await tapedeck(server.url, 'replay', 'serve', run.first.rollout, '--', ...programCommand('tool-agent'));
        assert.equal(again.code, 0, again.out + again.err);
      } finally {
        await server.kill();
        other.remove();
      }
    });

    test('another log: a server over that folder has the run', async () => {
      const other = temporaryFolder('replay-log');
      const ran = await tapedeck(gateway.url, 'replay', 'events', '--run', 'run-1', '--to', `log:${other.path}`);
      assert.equal(ran.code, 0, ran.err);
      const server = await startServer({ TAPEDECK_DATA: other.path, TAPEDECK_BLOCK_WAIT_MS: '50' });
      try {
        await server.ready();
        await caughtUp(server.url);
        assert.equal(await count(server.url), await count(gateway.url));
        const locked = await tapedeck(gateway.url, 'replay', 'events', '--run', 'run-1', '--to', `log:${other.path}`);
        assert.equal(locked.code, 1);
        assert.match(locked.err, /log_locked/);
      } finally {
        await server.kill();
        other.remove();
      }
    });

    test('nothing that fits, and wrong use', async () => {
      const cases: [string[], number, RegExp][] = [
        [['--run', 'no-such-run'], 1, /no stored event fits run no-such-run/],
        [[], 1, /name a run, a rollout, or a time range/],
        [['--from', 'yesterday'], 2, /must be a time/],
        [['no-such-rollout'], 1, /no rollout or trace/],
        [['--run', 'run-1', '--to', '/no/such/folder/x.ndjson'], 1, /not_writable/],
      ];
      for (const [args, code, message] of cases) {
        const ran = await tapedeck(gateway.url, 'replay', 'events', ...args);
        assert.equal(ran.code, code, ran.err);
        assert.match(ran.err, message);
      }
    });
  });
});
