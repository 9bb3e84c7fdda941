/** Which weights an answer is said to come from where the engine does not say it: what the log had published for the run when the call began and when it ended. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startFakeEngine, type FakeEngine } from '../../e2e/fake-engine/engine.ts';
import { encodeCbor } from '../../events/codec/cbor-encode.ts';
import { ByteWriter } from '../../base/byte-writer.ts';
import { openGateway, type Made, type TestGateway } from './gateway-under-test.ts';

const CHAT = '/v1/chat/completions';
let engine: FakeEngine;
let gateway: TestGateway;
before(async () => {
  engine = await startFakeEngine();
  gateway = await openGateway({ upstreams: { main: { kind: 'vllm', url: engine.url } } });
});
after(async () => {
  await gateway.close();
  await engine.close();
});

/** As a trainer does, through another process. */
async function publish(version: number, run: string): Promise<void> {
  const out = new ByteWriter(256);
  const event = { v: 1, id: crypto.randomUUID(), type: 'policy.published', time: Date.now() * 1000, run, data: { version } };
  encodeCbor(event, out);
  await gateway.log.append(version % gateway.log.partitions, [{ key: Buffer.from(event.id), value: Uint8Array.from(out.view()) }]);
} // prettier-ignore

const say = async (made: Made, content: string) =>
  gateway.post(CHAT, { model: 'toy', stream: true, messages: [{ role: 'user', content }] }, { authorization: `Bearer ${made.key}` });
const versionsOf = async (made: Made): Promise<unknown[]> =>
  (await gateway.eventsOf('call.recorded', made.trace)).map(({ data }) => [data.policyVersion ?? null, data.policyVersionEnd ?? null]);

/** The gateway follows the log: tries until it has seen what was published. */
async function until(made: Made, expected: unknown): Promise<void> {
  for (let tries = 0; ; tries++) {
    await say(made, `${tries} + 1`);
    const last = (await versionsOf(made)).at(-1);
    if (JSON.stringify(last) === JSON.stringify(expected)) return;
    assert.ok(tries < 600, `still ${JSON.stringify(last)}`);
    await sleep(50);
  }
}

test('none, then the last one of the run; a change within a call is a span', async () => {
  const made = await gateway.rollout({ run: 'policies' });
  await say(made, '1 + 1');
  assert.deepEqual(await versionsOf(made), [[null, null]]);
  await publish(3, 'policies');
  await until(made, [3, null]);
  await publish(5, 'policies');
  await publish(9, 'elsewhere');
  await until(made, [5, null]);

  engine.queueFault({ faults: [{ kind: 'stall', afterTokens: 2, ms: 1_500 }], match: { includes: 'count to 9' } });
  const slow = await gateway.rollout({ run: 'policies' });
  const other = await gateway.rollout({ run: 'policies' });
  const running = say(slow, 'count to 9');
  for (let tries = 0; !engine.requests().some((r) => r.sentTokens === 2 && r.outcome === 'open') && tries < 3_000; tries++) await sleep(5);
  await publish(6, 'policies');
  await until(other, [6, null]);
  await running;
  assert.deepEqual(await versionsOf(slow), [[5, 6]]);
  const [, answer] = await gateway.eventsOf('node.appended', slow.trace);
  assert.equal(answer?.data.policyVersion, 5);
});

test('each run has its own; after a restart all of it is known again', async () => {
  await gateway.restart();
  const made = await Promise.all(['policies', 'elsewhere', 'new'].map((run) => gateway.rollout({ run })));
  await until(made[0] as Made, [6, null]);
  await until(made[1] as Made, [9, null]);
  await until(made[2] as Made, [null, null]);
});
