/** Unmodified programs over the official client libraries, recorded through the gateway and executed again from the record, with the engine gone. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { ReplayReport } from '../../query/replay/session/report.ts';
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import { startGatewayServer, vllmUpstream, type GatewayServer, type MadeTrace } from '../gateway/gateway-server.ts';
import { temporaryFolder } from '../server.ts';
import { programCommand, record, resultOf, sorted, tapedeck, type ProgramResult } from './recorded-program.ts';

describe('strict re-execution', () => {
  const folder = temporaryFolder('replay');
  const file = (name: string): string => join(folder.path, name);
  let gateway: GatewayServer;
  let openai: MadeTrace;
  let anthropic: MadeTrace;
  let running: MadeTrace;

  before(async () => {
    const engine = await startFakeEngine({ seed: 5 });
    gateway = await startGatewayServer({ vllm: vllmUpstream(engine) });
    queueFaults(engine);
    openai = await record(gateway, 'openai-agent', [file('openai.json')], { task: { key: 'q', data: { n: 1 } } });
    queueFaults(engine);
    anthropic = await record(gateway, 'anthropic-agent', [file('anthropic.json')]);
    running = await gateway.rollout();
    await gateway.post(
      '/v1/chat/completions',
      { model: 'toy', messages: [{ role: 'user', content: 'hi' }] },
      { authorization: `Bearer ${running.key}` },
    );
    await gateway.sql('SELECT 1');
    await engine.close();
  });
  after(async () => {
    await gateway.stop();
    folder.remove();
  });

  for (const name of ['openai', 'anthropic'] as const) {
    test(`${name}: the same results and the same bytes, without an engine`, async () => {
      const made = name === 'openai' ? openai : anthropic;
      const ran = await tapedeck(
        gateway.url,
        'replay',
        'serve',
        made.rollout,
        '--policy',
        'forbid-network',
        '--report',
        file(`${name}-report.json`),
        '--',
        ...programCommand(`${name}-agent`, file(`${name}-again.json`)),
      );
      const report = JSON.parse(readFileSync(file(`${name}-report.json`), 'utf8')) as ReplayReport;
      assert.equal(ran.code, 0, ran.out + ran.err);
      const [first, again] = [resultOf(file(`${name}.json`)), resultOf(file(`${name}-again.json`))];
      assert.deepEqual(again.results, first.results);
      assertSameBytes(again, first);
      assert.ok(first.heard.length > 8);
      const { summary } = report;
      assert.deepEqual([summary.served, summary.matches, summary.coverage, summary.divergences], [summary.calls, summary.calls, 1, 0]);
      const endings = new Set(report.calls.map(({ ending }) => ending));
      for (const ending of name === 'openai' ? ['complete', 'broken', 'left'] : ['complete', 'broken'])
        assert.ok(endings.has(ending), ending);
      assert.ok(report.calls.some(({ status }) => status === 500) && report.calls.some(({ status }) => status === 400));
      assert.ok(report.calls.every(({ isExact }) => isExact === true));
    });
  }

  test('one changed character is found at its exact place, and nothing after it is answered', async () => {
    const program = programCommand('openai-agent', file('changed.json'), 'What is 2 + 4?');
    const ran = await tapedeck(gateway.url, 'replay', 'serve', openai.rollout, '--json', '--', ...program);
    assert.equal(ran.code, 1);
    const report = JSON.parse(ran.out) as ReplayReport;
    const [miss, ...others] = report.misses;
    assert.equal(miss?.kind, 'divergence');
    assert.deepEqual(miss.difference, {
      path: 'messages[0].content',
      at: { unit: 'character', index: 12 },
      recorded: '"What is 2 + 3?"',
      live: '"What is 2 + 4?"',
    });
    assert.equal(report.summary.served, 0);
    assert.ok(others.length > 3 && others.every(({ kind }) => kind === 'stopped'));
    const { results } = resultOf(file('changed.json'));
    assert.match(String((results['greeting'] as { message: string }).message), /409.*messages\[0\]\.content at character 12/);
  });

  test('ordered-fallback answers all the same, and says so', async () => {
    const program = programCommand('openai-agent', file('fallback.json'), 'What is 2 + 4?', 'greeting');
    const ran = await tapedeck(gateway.url, 'replay', 'serve', openai.rollout, '--policy', 'ordered-fallback', '--json', '--', ...program);
    const report = JSON.parse(ran.out) as ReplayReport;
    assert.equal((resultOf(file('fallback.json')).results['greeting'] as { content: string }).content, '2 + 3 = 5');
    assert.deepEqual([report.summary.served, report.summary.divergences, report.calls[0]?.verdict], [1, 1, 'divergence']);
    assert.equal(ran.code, 1);
  });

  test('a rollout that runs still: an error that names the remedy; with --partial what is there', async () => {
    const ran = await tapedeck(gateway.url, 'replay', 'serve', running.rollout, '--', 'true');
    assert.equal(ran.code, 1);
    assert.match(ran.err, /has not ended.*\/end.*--partial.*rollout_running/s);
    const partial = await tapedeck(gateway.url, 'replay', 'serve', running.rollout, '--partial', '--json', '--', 'true');
    assert.deepEqual((JSON.parse(partial.out) as ReplayReport).summary.calls, 1);
    assert.equal(partial.code, 1);
  });

  test('what is not there, wrong use, odd ids', async () => {
    const cases: [string[], number, RegExp][] = [
      [['serve', 'no-such-rollout', '--', 'true'], 1, /no rollout or trace no-such-rollout/],
      [['serve', "'; DROP--/../%00\u{1f937}", '--', 'true'], 1, /not_found/],
      [['serve', openai.rollout, '--policy', 'lenient'], 2, /strict, ordered-fallback/],
      [['serve', openai.rollout, '--speed', '0'], 2, /above 0/],
      [['serve', openai.rollout, '--normalisers', file('nothing.json'), '--', 'true'], 2, /nothing\.json/],
      [['serve', openai.rollout, '--', 'no-such-program-at-all'], 2, /cannot run/],
    ];
    for (const [args, code, message] of cases) {
      const ran = await tapedeck(gateway.url, 'replay', ...args);
      assert.equal(ran.code, code, `${args.join(' ')}: ${ran.out}${ran.err}`);
      assert.match(ran.err, message);
    }
  });
});

/** Of an answer that its reader leaves, a reader may hear more or less before it is gone. */
function assertSameBytes(again: ProgramResult, first: ProgramResult): void {
  const [now, then] = [sorted(again.heard), sorted(first.heard)];
  assert.equal(now.length, then.length);
  for (const [i, answer] of then.entries()) {
    const other = now[i]!;
    const isLeft = answer.asked.includes('(leaves)');
    const heard = isLeft ? Math.min(answer.body.length, other.body.length) : Infinity;
    assert.deepEqual([other.asked, other.status, other.body.slice(0, heard)], [answer.asked, answer.status, answer.body.slice(0, heard)]);
    if (answer.asked.includes('(breaks)')) assert.match(answer.body, /upstream_unavailable/);
  }
}

/** Once each, at the requests that name them. */
function queueFaults(engine: FakeEngine): void {
  engine.queueFault({ faults: [{ kind: 'status', status: 500, message: 'try again' }], match: { includes: '(first fails)' }, times: 2 });
  engine.queueFault({ faults: [{ kind: 'slow_first_token', ms: 2500 }], match: { includes: '(slow)' }, times: 1 });
  engine.queueFault({ faults: [{ kind: 'status', status: 400, message: 'no such thing' }], match: { includes: '(refused)' }, times: 1 });
  engine.queueFault({ faults: [{ kind: 'cut', afterTokens: 7, how: 'destroy' }], match: { includes: '(breaks)' }, times: 1 });
  engine.queueFault({ faults: [{ kind: 'stall', afterTokens: 30 }], match: { includes: '(leaves)' }, times: 1 });
}
