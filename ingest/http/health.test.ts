import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { openEdge, sampleEvent, type AnswerBody, type Edge } from './edge-under-test.ts';

let edge: Edge;
let engineWaits: string | null = null;
before(async () => {
  edge = await openEdge({
    checks: [
      { name: 'engine', waitsFor: () => engineWaits },
      { name: 'log', waitsFor: async () => null },
    ],
  });
});
after(() => edge.close());

const get = async (path: string, init: RequestInit = {}): Promise<{ status: number; text: string; headers: Headers }> => {
  const response = await fetch(`${edge.url}${path}`, init);
  return { status: response.status, text: await response.text(), headers: response.headers };
};

test('/healthz answers while the process lives', async () => {
  assert.deepEqual(await get('/healthz').then(({ status, text }) => [status, text]), [200, '{"status":"ok"}']);
});

test('/readyz says what each check waits for', async () => {
  const ready = await get('/readyz');
  assert.equal(ready.status, 200);
  assert.deepEqual(JSON.parse(ready.text), {
    status: 'ready',
    checks: [
      { name: 'engine', waitsFor: null },
      { name: 'log', waitsFor: null },
      { name: 'producers', waitsFor: null },
    ],
  });
  engineWaits = 'the engine to restart (attempt 3)';
  const waiting = await get('/readyz');
  engineWaits = null;
  assert.equal(waiting.status, 503);
  const { error } = JSON.parse(waiting.text) as AnswerBody;
  assert.deepEqual([error.code, error.message], ['not_ready', 'not ready: engine']);
  assert.deepEqual((error.details as { checks: object[] }).checks[0], { name: 'engine', waitsFor: 'the engine to restart (attempt 3)' });
});

test('a check that throws or hangs is a reason, not a failure of the route', async () => {
  const own = await openEdge({
    checks: [
      { name: 'thrower', waitsFor: () => Promise.reject(new Error('secret')) },
      { name: 'hanger', waitsFor: () => new Promise(() => {}) },
    ],
  });
  try {
    const response = await fetch(`${own.url}/readyz`);
    const text = await response.text();
    assert.equal(response.status, 503);
    assert.match(text, /thrower[\s\S]*the check itself failed[\s\S]*hanger[\s\S]*deadline_exceeded/);
    assert.ok(!text.includes('secret'));
  } finally {
    await own.close();
  }
});

test('/metrics counts events by type, rejections by code, requests by status, and times appends', async () => {
  await edge.post([sampleEvent(), sampleEvent(), sampleEvent({ type: 'made.up' }), sampleEvent({ time: -1 })]);
  await edge.post(Buffer.from('{'), { 'content-type': 'application/json' });
  await get('/nothing/here');
  const { text, headers } = await get('/metrics');
  assert.match(headers.get('content-type') ?? '', /^text\/plain/);
  for (const line of [
    'tapedeck_events_accepted_total{type="metric.recorded"} 2',
    'tapedeck_events_accepted_total{type="unknown"} 1',
    'tapedeck_events_rejected_total{code="time_range"} 1',
    'tapedeck_events_unknown_type_total 1',
    'tapedeck_ingest_refused_total{code="invalid_json"} 1',
    'tapedeck_http_requests_total{route="/v1/events",status="200"} 1',
    'tapedeck_http_requests_total{route="/v1/events",status="400"} 1',
    'tapedeck_ingest_bytes_in_flight 0',
    'tapedeck_http_requests_total{route="none",status="404"} 1',
  ]) {
    assert.ok(text.includes(`${line}\n`), `${line} is missing in\n${text}`);
  }
  assert.match(text, /tapedeck_log_append_seconds_count\{ok="true"\} [1-9]/);
});

test('every failure has one shape: unknown paths, other methods, bad URLs', async () => {
  for (const [path, init, status, code] of [
    ['/v1/nothing', {}, 404, 'not_found'],
    ['/v1/events', {}, 405, 'method_not_allowed'],
    ['/v1/events', { method: 'DELETE' }, 405, 'method_not_allowed'],
    ['/v1/events', { method: 'PUT', body: '[]', headers: { 'content-type': 'application/json' } }, 405, 'method_not_allowed'],
    ['/v1/%zz', {}, 400, 'bad_request'],
  ] as const) {
    const { text, status: got, headers } = await get(path, init);
    const { error } = JSON.parse(text) as AnswerBody;
    assert.deepEqual([got, error.code], [status, code], path);
    if (status === 405) assert.equal(headers.get('allow'), 'POST');
  }
});

test('/docs/json is OpenAPI 3.1 with the schema of every event type, and its examples are accepted', async () => {
  const document = JSON.parse((await get('/docs/json')).text) as OpenApi;
  assert.equal(document.openapi, '3.1.0');
  assert.deepEqual(Object.keys(document.paths).toSorted(), ['/healthz', '/metrics', '/readyz', '/v1/events']);
  const operation = document.paths['/v1/events']?.['post'] as Operation;
  assert.deepEqual(Object.keys(operation.responses).toSorted(), [
    '200',
    '400',
    '408',
    '409',
    '413',
    '415',
    '422',
    '429',
    '503',
    '504',
    'default',
  ]);
  const { content } = operation.requestBody;
  assert.deepEqual(Object.keys(content).toSorted(), ['application/cbor', 'application/json', 'application/x-ndjson']);
  const { schema, example } = content['application/json'] as { schema: { oneOf: { oneOf: { title: string }[] }[] }; example: object[] };
  const types = schema.oneOf[0]?.oneOf.map(({ title }) => title) ?? [];
  assert.ok(types.includes('node.appended') && types.includes('reward.assigned') && !types.includes('feed.created'));
  assert.deepEqual((await edge.post(example)).body, { accepted: example.length, duplicates: 0, rejected: [] });
  const validate = new Ajv2020({ strict: false, formats: { uuid: true, binary: true } }).compile(
    operation.responses['200']?.content['application/json'].schema as object,
  );
  assert.ok(validate((await edge.post([sampleEvent(), 7])).body), JSON.stringify(validate.errors));
  const page = await get('/docs');
  assert.match(page.text, /swagger/i);
});

type Operation = {
  requestBody: { content: Record<string, unknown> };
  responses: Record<string, { content: { 'application/json': { schema: unknown } } }>;
};
type OpenApi = { openapi: string; paths: Record<string, Record<string, unknown>> };
