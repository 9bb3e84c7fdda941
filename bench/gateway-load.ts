/** Child process of bench/gateway.bench.ts: many streams at once, and how late each piece of each answer came. One StreamPlan in, one StreamReport out. */
import { Agent, request } from 'node:http';
import type { Quantiles, StreamPlan, StreamReport } from './gateway-protocol.ts';

type Seen = { readonly late: number[]; readonly first: number[]; readonly end: number[]; pieces: number; failures: number };

function one(plan: StreamPlan, agent: Agent, body: string, headers: Record<string, string>, seen: Seen): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const sent = performance.now();
  const url = new URL(plan.url);
  let tokens = -1; // the first piece says the role only
  let isDone = false;
  const req = request(
    {
      agent,
      host: url.hostname,
      port: url.port,
      path: url.pathname,
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
    },
    (res) => {
      if (res.statusCode !== 200) seen.failures++;
      res.on('data', (chunk: Buffer) => {
        const now = performance.now();
        for (let at = chunk.indexOf('data: '); at >= 0; at = chunk.indexOf('data: ', at + 6)) {
          if (chunk[at + 6] === 0x5b) isDone = true;
          // the last token comes with the end of the answer, which is measured by itself
          else if (tokens < plan.tokens - 1) {
            if (tokens >= 0) {
              const late = now - sent - plan.firstTokenMs - tokens * plan.tokenMs;
              seen.late.push(late);
              if (tokens === 0) seen.first.push(late);
            }
            tokens++;
          }
        }
        seen.pieces++;
      });
      res.on('end', () => {
        if (!isDone) seen.failures++;
        seen.end.push(performance.now() - sent - plan.firstTokenMs - (plan.tokens - 1) * plan.tokenMs);
        resolve();
      });
      res.on('error', () => {
        seen.failures++;
        resolve();
      });
    },
  );
  req.on('error', () => {
    seen.failures++;
    resolve();
  });
  req.end(body);
  return promise;
}

function quantiles(values: number[]): Quantiles {
  values.sort((a, b) => a - b);
  const at = (q: number): number => values[Math.min(values.length - 1, Math.floor(values.length * q))] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99), max: at(1) };
}

async function run(plan: StreamPlan): Promise<StreamReport> {
  const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
  const seen: Seen = { late: [], first: [], end: [], pieces: 0, failures: 0 };
  const lead = 'You are careful. '.repeat(20);
  const ask = (i: number, call: number, tokens: number): string =>
    JSON.stringify({
      model: 'toy',
      stream: true,
      max_tokens: tokens,
      messages: [
        { role: 'system', content: lead },
        { role: 'user', content: `${i}/${call}: count to 60` },
      ],
    });
  const headersOf = (i: number): Record<string, string> => ({ ...plan.headers, 'x-session-id': `s-${i}-${process.pid}` });
  // connections are open and traces have begun before anything is measured
  const warm = { ...plan, tokens: 1 };
  await Promise.all(
    Array.from({ length: plan.streams }, (_, i) =>
      one(warm, agent, ask(i, -1, 1), headersOf(i), { ...seen, late: [], first: [], end: [] }),
    ),
  );
  seen.pieces = 0;
  const started = performance.now();
  const worker = async (i: number): Promise<void> => {
    // spread over one call, so that streams are not in step
    const delay = plan.inStep === true ? 0 : ((plan.firstTokenMs + plan.tokens * plan.tokenMs) * i) / plan.streams;
    await new Promise((resolve) => setTimeout(resolve, delay));
    for (let call = 0; call < plan.calls; call++) await one(plan, agent, ask(i, call, plan.tokens), headersOf(i), seen);
  };
  await Promise.all(Array.from({ length: plan.streams }, (_, i) => worker(i)));
  agent.destroy();
  return {
    pieces: seen.pieces,
    seconds: (performance.now() - started) / 1000,
    failures: seen.failures,
    late: quantiles(seen.late),
    first: quantiles(seen.first),
    end: quantiles(seen.end),
  };
}

process.once('message', (plan: StreamPlan) => {
  void run(plan).then((report) => process.send?.(report, () => process.disconnect()));
});
