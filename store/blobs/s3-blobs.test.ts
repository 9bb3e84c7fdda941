import assert from 'node:assert/strict';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { fails } from './contract.ts';
import { openS3Blobs } from './s3-blobs.ts';
import { s3Failure, s3Verdict } from './s3-error.ts';

function open(port: number, deadlineMs: number) {
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const endpoint = `http://127.0.0.1:${port}`;
  return openS3Blobs({ bucket: 'b', region: 'us-east-1', endpoint, credentials, clock: systemClock, random: systemRandom, deadlineMs });
}

async function listen(): Promise<{ port: number; close(): Promise<void> }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const close = (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    return new Promise((resolve) => server.close(() => resolve()));
  };
  return { port, close };
}

test('a store out of reach is unavailable by name, and the message says why', async () => {
  const gone = await listen();
  await gone.close();
  const blobs = open(gone.port, 400);
  await assert.rejects(blobs.put(Buffer.from('x'), 'text/plain'), (error: Error) => {
    assert.match(error.message, /ECONNREFUSED/);
    return fails('store_unavailable')(error);
  });
  await blobs.close();
});

test('a store that accepts and never answers ends at the deadline, and at once on abort', async () => {
  const silent = await listen();
  const blobs = open(silent.port, 300);
  await assert.rejects(blobs.put(Buffer.from('x'), 'text/plain'), fails('store_unavailable'));
  const stop = new AbortController();
  const patient = open(silent.port, 60_000);
  const put = patient.put(Buffer.from('x'), 'text/plain', stop.signal);
  setTimeout(() => stop.abort(), 50);
  await assert.rejects(put, fails('aborted'));
  await Promise.all([blobs.close(), patient.close()]);
  await silent.close();
});

const answer = (name: string, httpStatusCode?: number): Error =>
  Object.assign(new Error('text with a secret in it'), {
    name,
    ...(httpStatusCode === undefined ? {} : { $metadata: { httpStatusCode } }),
  });

test('answers are told apart by name and status', () => {
  assert.equal(s3Verdict(answer('NoSuchKey', 404)), 'missing');
  assert.equal(s3Verdict(answer('NotFound', 404)), 'missing');
  assert.equal(s3Verdict(answer('NoSuchBucket', 404)), 'refused');
  assert.equal(s3Verdict(answer('PreconditionFailed', 412)), 'exists');
  assert.equal(s3Verdict(answer('ConditionalRequestConflict', 409)), 'retry');
  assert.equal(s3Verdict(answer('NotImplemented', 501)), 'unsupported');
  assert.equal(s3Verdict(answer('AnythingNew', 500)), 'retry');
  assert.equal(s3Verdict(answer('AnythingNew', 403)), 'refused');
  assert.equal(s3Verdict(answer('RequestTimeTooSkewed', 403)), 'retry');
  assert.equal(s3Verdict(answer('QuotaExceeded', 403)), 'full');
  assert.equal(s3Verdict(answer('TimeoutError')), 'retry');
  assert.equal(s3Verdict('not even an error'), 'retry');
});

test('messages name the answer and never repeat its text', () => {
  const failure = s3Failure(answer('AccessDenied', 403), 'store a blob', true) as Error;
  assert.match(failure.message, /403 AccessDenied/);
  assert.doesNotMatch(failure.message, /secret in it/);
});
