/** How long after its acknowledgement an event can be asked for in SQL: one probe after another, milliseconds. */
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { uuidV7 } from '../base/uuid.ts';
import { cborBody } from '../e2e/ledger-client.ts';

export async function visibleLatencies(url: string, seconds: number): Promise<number[]> {
  const latencies: number[] = [];
  const end = performance.now() + seconds * 1000;
  await sleep(2000);
  for (let n = 0; performance.now() < end; n++) {
    const trace = `probe-${n}`;
    const data = { index: 0, parent: null, role: 'user', message: { role: 'user', content: 'probe' }, sampled: false };
    const event = {
      v: 1,
      id: uuidV7(systemClock, systemRandom),
      type: 'node.appended',
      run: 'probe',
      rollout: trace,
      trace,
      time: systemClock.nowMicros(),
      data,
    };
    await fetch(`${url}/v1/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/cbor' },
      body: new Uint8Array(cborBody([event])),
    });
    const acked = performance.now();
    while (!(await isThere(url, trace))) await sleep(5);
    latencies.push(performance.now() - acked);
    await sleep(50);
  }
  return latencies;
}

async function isThere(url: string, trace: string): Promise<boolean> {
  const answer = await fetch(`${url}/v1/sql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      query: "SELECT count() AS n FROM nodes WHERE run = 'probe' AND rollout = {trace:String}",
      params: { trace },
      format: 'ndjson',
    }),
  });
  return answer.ok && (await answer.text()).includes('"1"');
}
