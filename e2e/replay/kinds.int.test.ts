/** Live tools, forks, re-scoring and checks, from the command line, over rollouts that were recorded through the gateway. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import type { ReplayReport } from '../../query/replay/session/report.ts';
import type { GatewayServer } from '../gateway/gateway-server.ts';
import { caughtUp } from '../proof.ts';
import { programCommand, tapedeck } from './recorded-program.ts';
import { startRecordedRun, type RecordedRun } from './recorded-run.ts';

describe('replays from the command line', () => {
  let recorded: RecordedRun;
  let gateway: GatewayServer;
  before(async () => {
    recorded = await startRecordedRun('replay-kinds');
    ({ gateway } = recorded);
  });
  after(() => recorded.close());

  describe('drift and live tools', () => {
    test('dates, paths and process ids drift, and are listed with the rule that explains them', async () => {
      const ran = await tapedeck(gateway.url, 'replay', 'serve', recorded.first.rollout, '--json', '--', ...programCommand('tool-agent'));
      const report = JSON.parse(ran.out) as ReplayReport;
      assert.equal(ran.code, 0);
      assert.deepEqual([report.summary.drifts, report.summary.matches, report.summary.coverage], [2, 0, 1]);
      assert.deepEqual(
        report.calls[0]?.drifts.map(({ path, rules }) => [path, rules]),
        [['messages[0].content', ['dates', 'temporary-paths']]],
      );
      const strict = await tapedeck(
        gateway.url,
        'replay',
        'serve',
        recorded.first.rollout,
        '--only-normalisers',
        '--json',
        '--',
        ...programCommand('tool-agent'),
      );
      assert.equal((JSON.parse(strict.out) as ReplayReport).misses[0]?.difference?.path, 'messages[0].content');
    });

    test('tools run again, and their results are compared', async () => {
      const run = (fact: string, ...more: string[]) => tapedeck(gateway.url, 'replay', 'serve', recorded.first.rollout, ...more, '--json', '--', 'env', `FACT=${fact}`, ...programCommand('tool-agent')); // prettier-ignore
      const same = JSON.parse((await run('a metal', '--tools', 'live')).out) as ReplayReport;
      assert.deepEqual(same.summary.tools, { compared: 1, different: 0 });
      const other = JSON.parse((await run('a gas', '--tools', 'live')).out) as ReplayReport;
      assert.deepEqual([other.summary.tools, other.summary.coverage, other.summary.divergences], [{ compared: 1, different: 1 }, 1, 0]);
      assert.deepEqual(
        other.tools.map(({ name, call, difference }) => [name, call, difference?.recorded, difference?.live]),
        [['facts_lookup', 1, '"a metal"', '"a gas"']],
      );
      const strict = JSON.parse((await run('a gas')).out) as ReplayReport;
      assert.equal(strict.misses[0]?.difference?.path, 'messages[3].content');
    });
  });

  describe('check', () => {
    test('recent rollouts against the same code, and against changed code', async () => {
      const good = await tapedeck(
        gateway.url,
        'replay',
        '--check',
        'run-1',
        '--last',
        '2',
        '--report',
        recorded.file('check.md'),
        '--',
        ...programCommand('tool-agent'),
      );
      assert.equal(good.code, 0, good.out + good.err);
      assert.match(good.out, /^ok {3}\S+: 2 of 2 calls, 2 drifted\nok .*\n2 of 2 rollouts of run run-1 replay as they were recorded\n$/);
      assert.match(readFileSync(recorded.file('check.md'), 'utf8'), /# Replay of .*\| 2 \| 2 \| 0 \| 2 \|/s);
      const changed = await tapedeck(gateway.url, 'replay', '--check', 'run-1', '--', ...programCommand('tool-agent', 'Please! '));
      assert.equal(changed.code, 1);
      assert.match(changed.out, /FAIL .*at call 0 of .*messages\[0\]\.content at character 0: recorded "Be brief/);
      assert.match(changed.out, /0 of 3 rollouts/);
      const idle = await tapedeck(gateway.url, 'replay', '--check', 'run-1', '--', 'true');
      assert.match(idle.out, /FAIL .*2 not asked for/);
      const none = await tapedeck(gateway.url, 'replay', '--check', 'empty-run', '--', 'true');
      assert.match(none.err, /no rollout that has ended/);
      assert.equal((await tapedeck(gateway.url, 'replay')).code, 2);
    });
  });

  describe('fork', () => {
    test('three forks at call 1 as a group, with other sampling and an edited prompt; the parent stays as it was', async () => {
      const before = await tapedeck(gateway.url, 'replay', 'events', recorded.first.rollout);
      const seen = recorded.engine.requests().length;
      const ran = await tapedeck(
        gateway.url,
        'replay',
        'fork',
        recorded.first.rollout,
        '--at',
        '1',
        '-n',
        '3',
        '--sampling',
        '{"temperature":0.5}',
        '--edit',
        'messages[1].content=Tell me of "iron".',
        '--json',
        '--',
        ...programCommand('tool-agent'),
      );
      assert.equal(ran.code, 0, ran.out + ran.err);
      const { group, parent, forks } = JSON.parse(ran.out) as {
        group: string;
        parent: string;
        forks: { rollout: string; trace: string; report: ReplayReport }[];
      };
      assert.equal(parent, recorded.first.rollout);
      assert.ok(forks.length === 3 && forks.every(({ report }) => report.summary.served === 1 && report.summary.live === 1));
      const sent = recorded.engine.requests(seen).map(({ body }) => body as { temperature: number; messages: { content: string }[] });
      assert.deepEqual(sent.map(({ temperature, messages }) => [temperature, messages[1]?.content]), Array.from({ length: 3 }, () => [0.5, 'Tell me of "iron".'])); // prettier-ignore
      const rows = await gateway.sql<Record<string, unknown>>(
        'SELECT rollout, group, parent_rollout, fork_trace, fork_node, task_key, ok FROM rollouts WHERE parent_rollout = {parent:String} ORDER BY rollout',
        { parent },
      );
      assert.equal(rows.length, 3);
      for (const row of rows) {
        assert.deepEqual(
          [row['group'], row['fork_trace'], row['task_key'], Boolean(row['ok'])],
          [group, recorded.first.trace, 'iron', true],
        );
        assert.equal(Number(row['fork_node']), 3);
      }
      const after = await tapedeck(gateway.url, 'replay', 'events', recorded.first.rollout);
      assert.equal(after.out, before.out);
    });

    test('live-on-miss goes to the model and is recorded as a fork', async () => {
      const ran = await tapedeck(gateway.url, 'replay', 'serve', recorded.first.rollout, '--policy', 'live-on-miss', '--json', '--', ...programCommand('tool-agent', '', ' Twice.')); // prettier-ignore
      const report = JSON.parse(ran.out) as ReplayReport;
      assert.ok(report.summary.live >= 1, ran.out + ran.err);
      assert.match(report.notes[0] ?? '', /recorded as rollout/);
      const rollout = /rollout (\S+)$/.exec(report.notes[0] ?? '')![1]!;
      const [row] = await gateway.sql<{ parent_rollout: string }>('SELECT parent_rollout FROM rollouts WHERE rollout = {rollout:String}', {
        rollout,
      });
      assert.equal(row?.parent_rollout, recorded.first.rollout);
    });

    test('what cannot be forked is refused by name', async () => {
      for (const [args, message] of [
        [['--at', '7'], /has no call 7: it has 2, counted from 0/],
        [['--at', '1', '--sampling', '[1]'], /must be a JSON object/],
        [['--at', '1', '--edit', 'messages[*]=x'], /an edit names one place/],
        [['--at', '1', '-n', '0'], /at least 1/],
      ] as const) {
        const ran = await tapedeck(gateway.url, 'replay', 'fork', recorded.first.rollout, ...args, '--', 'true');
        assert.equal(ran.code, 2, ran.err);
        assert.match(ran.err, message);
      }
    });
  });

  describe('rescore', () => {
    test('new code: a table of before and after, new events that supersede; again: nothing new', async () => {
      const { rollout } = recorded.made[1]!;
      await gateway.post('/v1/events', [{ v: 1, id: '0198c0de-0000-7000-8000-0000000000f1', type: 'reward.assigned', run: 'run-1', rollout, time: Date.now() * 1000, data: { scope: 'rollout', name: 'brief', score: 0.25, weight: 2 } }]); // prettier-ignore
      await caughtUp(gateway.url);
      writeFileSync(recorded.file('judge.ts'), `
        export const version = 'v2';
        export default (rollout: { rollout: string; traces: { conversation: { role: string; content: string }[]; nodes: unknown[] }[] }) => [
          { name: 'brief', score: String(rollout.traces[0]!.conversation.at(-1)!.content).length < 40 ? 1 : 0 },
          { name: 'nodes', scope: 'trace', score: rollout.traces[0]!.nodes.length },
        ];
      `); // prettier-ignore
      const rescore = (...args: string[]) => tapedeck(gateway.url, 'replay', 'rescore', ...args, '--module', recorded.file('judge.ts'));
      const ids = recorded.made.map((each) => each.rollout);
      const dry = await rescore(...ids, '--dry-run');
      assert.match(dry.out, /nothing is written/);
      const ran = await rescore(...ids);
      assert.equal(ran.code, 0, ran.out + ran.err);
      assert.match(ran.out, /scored by judge, version v2 \(code\)/);
      assert.match(ran.out, /\| brief \| 0\.25 \| – \| 1 \| \+0\.75 \|/);
      assert.match(ran.out, /brief: 3 scored, 2 new, 1 raised, 0 lowered, 0 as before; mean 0.25 -> 1 over 1/);
      assert.match(ran.out, /6 rewards written/);
      const rows = await gateway.sql<{ score: number; weight: number; source_version: string }>(
        "SELECT score, weight, source_version FROM rewards WHERE rollout = {rollout:String} AND name = 'brief'",
        { rollout },
      );
      assert.deepEqual(rows, [{ score: 1, weight: 2, source_version: 'v2' }]);
      const again = await rescore(...ids, '--json');
      const result = JSON.parse(again.out) as { written: number; rewards: { isSame: boolean }[] };
      assert.deepEqual([result.written, result.rewards.every(({ isSame }) => isSame)], [0, true]);
    });

    test('a module that throws, answers nonsense or is not there', async () => {
      const bad = async (source: string): Promise<Awaited<ReturnType<typeof tapedeck>>> => {
        writeFileSync(recorded.file('bad.mjs'), source);
        return tapedeck(gateway.url, 'replay', 'rescore', recorded.first.rollout, '--module', recorded.file('bad.mjs'));
      };
      assert.match((await bad('export default () => { throw new Error("no such field") }')).out, /not scored: .*no such field/);
      assert.match((await bad('export default () => ({ name: "x", score: "high" })')).out, /not scored: .*score/);
      assert.match((await bad('export default () => ({ name: "x", score: 1, scope: "node", node: 99 })')).out, /has no node 99/);
      assert.match((await bad('export default 5')).err, /must be a function/);
      const missing = await tapedeck(gateway.url, 'replay', 'rescore', recorded.first.rollout, '--module', recorded.file('none.mjs'));
      assert.deepEqual([missing.code, /cannot be loaded/.test(missing.err)], [2, true]);
      const nan = await bad('export default () => ({ name: "odd", score: NaN })');
      assert.equal(nan.code, 0, nan.err);
    });
  });
});
