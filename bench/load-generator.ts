/** Child process of bench/ingest.bench.ts: posts stamped batches over kept-alive connections and measures the answers. One LoadPlan in, one LoadReport out. */
import { Agent, request } from 'node:http';
import type { Encoding, LoadPlan, LoadReport } from './ingest-protocol.ts';
import { cborTemplate, jsonTemplate, NODE_PAYLOAD, type BatchTemplate } from './payload.ts';

/** Every connection sends data of its own, so that sizes on disk are those of distinct events. */
function templateOf(encoding: Encoding, seed: number): BatchTemplate {
  const payload = { ...NODE_PAYLOAD, seed };
  return encoding === 'cbor' ? cborTemplate(payload) : jsonTemplate(encoding === 'json-numbers' ? 'numbers' : 'base64', payload);
}

type Connection = { readonly template: BatchTemplate; readonly writer: number; next: number };
type Outcome = { readonly status: number; readonly accepted: number };

function post(agent: Agent, plan: LoadPlan, connection: Connection): Promise<Outcome> {
  const { template, writer } = connection;
  template.stamp(connection.next++, writer);
  const { promise, resolve, reject } = Promise.withResolvers<Outcome>();
  const headers = {
    'content-type': plan.encoding === 'cbor' ? 'application/cbor' : 'application/json',
    'content-length': template.bytes.length,
  };
  const req = request({ agent, host: '127.0.0.1', port: plan.port, path: '/v1/events', method: 'POST', headers }, (res) => {
    let text = '';
    res.setEncoding('utf8');
    res.on('data', (chunk: string) => (text += chunk));
    res.on('end', () =>
      resolve({ status: res.statusCode ?? 0, accepted: res.statusCode === 200 ? (JSON.parse(text) as { accepted: number }).accepted : 0 }),
    );
    res.on('error', reject);
  });
  req.on('error', reject);
  req.end(template.bytes);
  return promise;
}

async function run(plan: LoadPlan): Promise<LoadReport> {
  const agent = new Agent({ keepAlive: true, maxSockets: plan.connections });
  const connections: Connection[] = Array.from({ length: plan.connections }, (_, i) => ({
    template: templateOf(plan.encoding, plan.writer + i),
    writer: plan.writer + i,
    next: 0,
  }));
  const perBatch = (connections[0] as Connection).template.events;
  const latencies: number[] = [];
  const failures: Record<string, number> = {};
  let events = 0;
  const start = performance.now();
  const end = start + plan.seconds * 1000;
  const gapMs = plan.rate === null ? 0 : (1000 * perBatch) / plan.rate;
  let due = start;

  const worker = async (connection: Connection): Promise<void> => {
    for (;;) {
      const at = plan.rate === null ? performance.now() : due;
      if (at >= end) return;
      due += gapMs;
      const wait = at - performance.now();
      if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
      const { status, accepted } = await post(agent, plan, connection);
      latencies.push(performance.now() - at);
      events += accepted;
      if (accepted !== perBatch) failures[String(status)] = (failures[String(status)] ?? 0) + 1;
    }
  };
  await Promise.all(connections.map(worker));
  agent.destroy();
  latencies.sort((a, b) => a - b);
  const quantile = (q: number): number => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * q))] ?? Number.NaN;
  const [first] = connections as [Connection];
  return {
    events,
    requests: latencies.length,
    seconds: (performance.now() - start) / 1000,
    failures,
    p50: quantile(0.5),
    p99: quantile(0.99),
    max: quantile(1),
    bytesPerEvent: first.template.bytes.length / perBatch,
  };
}

process.once('message', (plan: LoadPlan) => {
  void run(plan).then((report) => process.send?.(report, () => process.disconnect()));
});
