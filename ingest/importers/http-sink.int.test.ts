import assert from 'node:assert/strict';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { systemClock, type Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import { seededRandom } from '../../base/random.ts';
import { openEdge, type Edge } from '../http/edge-under-test.ts';
import { exportEpisodes, type EpisodeSource } from './export-file.ts';
import { findFiles } from './find-files.ts';
import { httpSink, type HttpSinkOptions } from './http-sink.ts';
import { importFiles } from './import-files.ts';
import { sameJson } from './json-value.ts';
import type { ImportReport } from './report.ts';
import { EPISODES, parsed, TRAIN_EPISODE } from './sample-records.ts';
import { episodeEvents } from './verifiers-v1.ts';

let folder = '';
let edge: Edge;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tapedeck-http-import-'));
  edge = await openEdge({ limits: { bodyBytes: 300_000 } });
});
after(async () => {
  await edge.close();
  await rm(folder, { recursive: true, force: true });
});

/** Real time, but waits are short and remembered. */
function hasty(): { clock: Clock; waits: number[] } {
  const waits: number[] = [];
  return {
    waits,
    clock: {
      ...systemClock,
      sleep: async (ms, signal) => (ms < 60_000 ? (waits.push(ms), systemClock.sleep(1, signal)) : systemClock.sleep(ms, signal)),
    },
  };
}

async function importText(text: string, options: Partial<HttpSinkOptions> & { url: string }): Promise<ImportReport> {
  const path = join(folder, 'traces.jsonl');
  await writeFile(path, text);
  const { files } = await findFiles([path]);
  const sink = httpSink({ clock: systemClock, random: seededRandom(1), ...options });
  return importFiles(files, { sink, signal: AbortSignal.timeout(20_000), lanes: 3, batchBytes: 5000, batchEvents: 50 });
}

/** The log as a source of episodes, without repeated events. */
function logSource(): EpisodeSource {
  return {
    async *rollouts(_project, run) {
      const seen = new Set(
        (await edge.stored()).filter((s) => s.event['run'] === run).map((s) => s.event['rollout'] as string | undefined),
      );
      for (const rollout of seen) if (rollout !== undefined) yield rollout;
    },
    async *rolloutEvents(_project, _run, rollout) {
      const mine = (await edge.stored()).filter((s) => s.event['rollout'] === rollout);
      yield* new Map(mine.map((s) => [s.id, s.value])).values();
    },
  };
}

test('files go through the edge into the log and come back equal; a second import adds no event', async () => {
  const many = Array.from({ length: 20 }, (_, i) => TRAIN_EPISODE.replace('"id":"e1"', `"id":"many${i}"`));
  const text = [...EPISODES.map(([, episode]) => episode), ...many].join('\n');
  const report = await importText(text, { url: edge.url });
  const first = await edge.stored();
  assert.deepEqual([report.issueCount, report.rejected, report.accepted, first.length], [0, 0, report.sent, report.sent]);
  assert.equal(report.files[0]?.imported, 23);
  await importText(text, { url: edge.url });
  assert.deepEqual(new Set((await edge.stored()).map((s) => s.id)), new Set(first.map((s) => s.id)));

  const lines: string[] = [];
  const wanted = { project: 'default', run: 'r1', signal: AbortSignal.timeout(10_000) };
  await exportEpisodes(logSource(), wanted, async (line) => void lines.push(Buffer.from(line).toString()));
  const byId = new Map(lines.map((line) => [(JSON.parse(line) as { id: string }).id, line]));
  for (const original of [TRAIN_EPISODE, ...many]) {
    const line = byId.get((JSON.parse(original) as { id: string }).id);
    assert.ok(line !== undefined && sameJson(parsed(line), parsed(original)));
  }
});

test('a log that fails for a while is waited for, as long as Retry-After asks', async () => {
  let failures = 3;
  edge.tap = () => {
    if (failures-- > 0) throw new TapedeckError('log_unavailable', 'away for a moment');
  };
  const { clock, waits } = hasty();
  const reasons: string[] = [];
  const report = await importText(TRAIN_EPISODE.replace('"e1"', '"waited"'), {
    url: edge.url,
    clock,
    onRetry: (reason) => void reasons.push(reason),
  });
  edge.tap = () => {};
  assert.equal(report.accepted, report.sent);
  assert.ok(reasons.length > 0 && waits.some((ms) => ms >= 1000));
  const stored = (await edge.stored()).filter((s) => s.event['rollout'] === 'waited');
  const made = episodeEvents(parsed(TRAIN_EPISODE.replace('"e1"', '"waited"')));
  assert.ok(made.ok);
  assert.equal(new Set(stored.map((s) => s.id)).size, made.value.events.length);
});

test('an event that the server refuses costs that event; one larger than a request too', async () => {
  const huge = TRAIN_EPISODE.replace('"e1"', '"huge"').replace('"content":"two"', `"content":"${'x'.repeat(400_000)}"`);
  const report = await importText(`${huge}\n${TRAIN_EPISODE.replace('"e1"', '"after"')}`, { url: edge.url });
  assert.deepEqual(
    report.issues.map((i) => [i.line, i.code]),
    [[1, 'body_too_large']],
  );
  assert.equal(report.accepted, report.sent - 1);
});

async function withServer(listener: RequestListener, work: (url: string, server: Server) => Promise<void>): Promise<void> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, server);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
const one = [Buffer.from([0xa0])];
const signal = (): AbortSignal => AbortSignal.timeout(10_000);

test('broken connections, 502 and 429 of something in between are tried again', async () => {
  let calls = 0;
  const { clock, waits } = hasty();
  await withServer(
    (request, response) => {
      calls++;
      request.resume();
      if (calls === 1) request.socket.destroy();
      else if (calls === 2) response.writeHead(502).end('<html>bad gateway</html>');
      else if (calls === 3) response.writeHead(429, { 'retry-after': '7' }).end('slow down');
      else if (calls === 4) response.writeHead(200, { 'content-length': '100' }).write('{"acc', () => request.socket.destroy());
      else response.end('{"accepted":1,"duplicates":0,"rejected":[],"new field":1}');
    },
    async (url) => {
      assert.deepEqual(await httpSink({ url, clock, random: seededRandom(2) })(one, signal()), {
        accepted: 1,
        duplicates: 0,
        rejected: [],
      });
    },
  );
  assert.equal(calls, 5);
  assert.ok(waits.includes(7000));
});

test('patience and every request have a deadline that says what was waited for; an abort ends it at once', async () => {
  await withServer(
    (request) => void request.resume(),
    async (url) => {
      const base = { url, clock: systemClock, random: seededRandom(3) };
      await assert.rejects(httpSink({ ...base, requestMs: 30, patienceMs: 200 })(one, signal()), (error: TapedeckError) => {
        assert.equal(error.code, 'deadline_exceeded');
        assert.match(error.message, /within 200 ms .* to take 1 events/);
        return true;
      });
      const stop = new AbortController();
      const sent = httpSink(base)(one, stop.signal);
      stop.abort();
      await assert.rejects(sent, { code: 'aborted' });
    },
  );
  const nowhere = httpSink({ url: 'http://127.0.0.1:9', clock: systemClock, random: seededRandom(4), patienceMs: 150 });
  await assert.rejects(nowhere(one, signal()), { code: 'deadline_exceeded' });
});

test('answers that trying again cannot help end the import with the code of the server', async () => {
  const answers: [number, string, string][] = [
    [415, '{"error":{"code":"unsupported_media_type","message":"no"}}', 'unsupported_media_type'],
    [404, 'not here', 'bad_request'],
    [200, '<html>some other service</html>', 'bad_request'],
    [400, '{"error":{"code":"made_up","message":"?"}}', 'bad_request'],
  ];
  for (const [status, body, code] of answers) {
    await withServer(
      (request, response) => {
        request.resume();
        response.writeHead(status).end(body);
      },
      async (url) => {
        await assert.rejects(httpSink({ url, clock: systemClock, random: seededRandom(5) })(one, signal()), { code }, String(status));
      },
    );
  }
});
