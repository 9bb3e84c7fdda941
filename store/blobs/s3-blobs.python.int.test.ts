/** The S3 driver against a real S3-compatible server: moto's, which is Python. Faults come from a TCP proxy in front of it. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { blobName } from './blob-name.ts';
import { fails, testBlobStore, type BlobPlace } from './contract.ts';
import { startMoto, type Moto } from '../../e2e/moto.ts';
import { openS3Blobs, type S3BlobsOptions } from './s3-blobs.ts';

const CREDENTIALS = { accessKeyId: 'test', secretAccessKey: 'test' };
const moto = await startMoto();
const skip = 'missing' in moto ? moto.missing : false;
after(async () => {
  if ('close' in moto) await moto.close();
});

const endpoint = (): string => (moto as Moto).endpoint;
let buckets = 0;

async function newBucket(): Promise<{ client: S3Client; bucket: string }> {
  const client = new S3Client({ endpoint: endpoint(), region: 'us-east-1', forcePathStyle: true, credentials: CREDENTIALS });
  const bucket = `tapedeck-${process.pid}-${buckets++}`;
  await client.send(new CreateBucketCommand({ Bucket: bucket }));
  return { client, bucket };
}

function open(bucket: string, more: Partial<S3BlobsOptions> = {}) {
  return openS3Blobs({
    bucket,
    region: 'us-east-1',
    endpoint: endpoint(),
    credentials: CREDENTIALS,
    clock: systemClock,
    random: systemRandom,
    ...more,
  });
}

async function s3Place(): Promise<BlobPlace> {
  const { client, bucket } = await newBucket();
  const key = (sha256: string) => ({ Bucket: bucket, Key: `blobs/${sha256}` });
  return {
    open: async () => open(bucket),
    names: async () => {
      const names: string[] = [];
      for (let token: string | undefined, more = true; more;) {
        const page = await client.send(
          new ListObjectsV2Command({ Bucket: bucket, ...(token === undefined ? {} : { ContinuationToken: token }) }),
        );
        names.push(...(page.Contents ?? []).map((o) => (o.Key ?? '').replace('blobs/', '')));
        token = page.NextContinuationToken;
        more = token !== undefined;
      }
      return names;
    },
    damage: async (sha256, content) => {
      await client.send(new PutObjectCommand({ ...key(sha256), Body: content }));
    },
    writtenAt: async (sha256) => (await client.send(new HeadObjectCommand(key(sha256)))).LastModified?.getTime(),
    remove: async () => client.destroy(),
  };
}

if (skip === false) testBlobStore('S3', s3Place, 25);
else test('blob store contract: S3', { skip }, () => {});

/** A proxy that treats each connection as `fault` says at that moment. */
interface Proxy {
  readonly endpoint: string;
  readonly connections: () => number;
  fault: (client: Socket, pass: () => void, connection: number) => void;
  close(): Promise<void>;
}

async function startProxy(): Promise<Proxy> {
  const target = new URL(endpoint());
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer((client) => {
    sockets.add(client);
    client.on('error', () => client.destroy());
    const pass = (): void => {
      const upstream = connect(Number(target.port), target.hostname);
      sockets.add(upstream);
      upstream.on('error', () => client.destroy());
      client.on('close', () => upstream.destroy());
      client.pipe(upstream).pipe(client);
    };
    proxy.fault(client, pass, ++connections);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const proxy: Proxy = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => connections,
    fault: (_, pass) => pass(),
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return proxy;
}

/** A fault that answers with a status when `refuse` names one for the head of a request, and passes everything else on. */
function answering(refuse: (head: string) => string | null): Proxy['fault'] {
  return (client) => {
    const upstream = connect(Number(new URL(endpoint()).port), '127.0.0.1');
    client.on('close', () => upstream.destroy());
    upstream.on('error', () => client.destroy());
    upstream.pipe(client);
    client.on('data', (chunk: Buffer) => {
      const status = refuse(chunk.toString('latin1'));
      if (status === null) upstream.write(chunk);
      else client.end(`HTTP/1.1 ${status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
    });
  };
}

const BUSY = 'HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n';

describe('S3 faults', { skip }, () => {
  let proxy: Proxy;
  let bucket: string;
  before(async () => {
    proxy = await startProxy();
    ({ bucket } = await newBucket());
  });
  after(() => proxy?.close());

  test('connections cut and a busy store are retried until the blob is stored', async () => {
    const retries: string[] = [];
    const blobs = open(bucket, { endpoint: proxy.endpoint, onRetry: (answer) => retries.push(answer) });
    proxy.fault = (client, pass, n) => {
      if (n % 3 === 1) client.destroy();
      else if (n % 3 === 2) client.once('data', () => client.end(BUSY));
      else pass();
    };
    const content = randomBytes(300_000);
    const { sha256 } = await blobs.put(content, 'text/plain');
    assert.ok(retries.length >= 2, String(retries));
    assert.ok(
      retries.some((r) => r.startsWith('503')),
      String(retries),
    );
    proxy.fault = (_, pass) => pass();
    assert.ok(Buffer.from(await blobs.get(sha256)).equals(content));
    await blobs.close();
  });

  test('an answer that never comes, or stops half way, is asked for again', async () => {
    const content = randomBytes(300_000);
    const { sha256 } = await open(bucket).put(content, 'text/plain');
    const blobs = open(bucket, { endpoint: proxy.endpoint, requestMs: 300 });
    const first = proxy.connections() + 1;
    proxy.fault = (client, pass, n) => {
      if (n === first) return;
      if (n > first + 1) return pass();
      const upstream = connect(Number(new URL(endpoint()).port), '127.0.0.1');
      client.pipe(upstream);
      let passed = 0;
      upstream.on('data', (chunk: Buffer) => {
        client.write(chunk.subarray(0, Math.max(0, 100_000 - passed)));
        passed += chunk.length;
      });
      client.on('close', () => upstream.destroy());
    };
    assert.ok(Buffer.from(await blobs.get(sha256)).equals(content));
    assert.ok(proxy.connections() >= first + 2);
    await blobs.close();
  });

  test('a store that stays away is unavailable by name, with what it last said', async () => {
    proxy.fault = (client) => client.once('data', () => client.end(BUSY));
    const blobs = open(bucket, { endpoint: proxy.endpoint, deadlineMs: 500 });
    await assert.rejects(blobs.put(randomBytes(10), 'text/plain'), (error: Error) => {
      assert.match(error.message, /503/);
      return fails('store_unavailable')(error);
    });
    await assert.rejects(blobs.get(blobName(randomBytes(10))), fails('store_unavailable'));
    await assert.rejects(blobs.has(blobName(randomBytes(10))), fails('store_unavailable'));
    await blobs.close();
  });

  test('bytes damaged on the way up are never handed out', async () => {
    const content = Buffer.alloc(200_000, 'a');
    proxy.fault = (client) => {
      const upstream = connect(Number(new URL(endpoint()).port), '127.0.0.1');
      client.on('data', (chunk: Buffer) => upstream.write(Buffer.from(chunk.toString('latin1').replaceAll('aaaa', 'aaab'), 'latin1')));
      upstream.pipe(client);
      client.on('close', () => upstream.destroy());
    };
    const blobs = open(bucket, { endpoint: proxy.endpoint, deadlineMs: 1_500 });
    // AWS refuses the upload by its checksum; moto does not look at it.
    const stored = await blobs.put(content, 'text/plain').catch(() => null);
    await assert.rejects(blobs.get(blobName(content)), fails(stored === null ? 'blob_missing' : 'blob_corrupt'));
    await blobs.close();
  });

  test('an upload carries its checksum and its condition, and is made once', async () => {
    const seen: string[] = [];
    proxy.fault = (client, pass) => {
      client.on('data', (chunk: Buffer) => seen.push(chunk.toString('latin1')));
      pass();
    };
    const blobs = open(bucket, { endpoint: proxy.endpoint });
    const content = randomBytes(1_000);
    const { sha256 } = await blobs.put(content, 'text/plain');
    await blobs.put(content, 'text/plain');
    const heads = seen.join('\r\n').match(/^(HEAD|PUT) [^]*?\r\n\r\n/gm) ?? [];
    assert.deepEqual(
      heads.map((h) => h.split(' ')[0]),
      ['HEAD', 'PUT', 'HEAD'],
    );
    assert.ok(heads[1]?.includes(`x-amz-checksum-sha256: ${Buffer.from(sha256, 'hex').toString('base64')}\r\n`), heads[1]);
    assert.match(heads[1] ?? '', /^if-none-match: \*\r$/im);
    await blobs.close();
  });

  test('an upload that lost a race to the same blob is a success and overwrites nothing', async () => {
    const content = randomBytes(1_000);
    const { sha256 } = await open(bucket).put(content, 'text/plain');
    proxy.fault = answering((head) => (head.startsWith('HEAD') ? '404 Not Found' : null));
    const retries: string[] = [];
    const blobs = open(bucket, { endpoint: proxy.endpoint, onRetry: (answer) => retries.push(answer) });
    assert.equal((await blobs.put(content, 'text/plain')).sha256, sha256);
    assert.deepEqual(retries, []);
    await blobs.close();
  });

  test('a store without conditional writes, or that keeps what is missing secret, still stores', async () => {
    for (const refuse of [
      (head: string) => (/^if-none-match/im.test(head) ? '501 Not Implemented' : null),
      (head: string) => (head.startsWith('HEAD') ? '403 Forbidden' : null),
    ]) {
      proxy.fault = answering(refuse);
      const blobs = open(bucket, { endpoint: proxy.endpoint });
      const content = randomBytes(1_000);
      const { sha256 } = await blobs.put(content, 'text/plain');
      assert.ok(Buffer.from(await blobs.get(sha256)).equals(content));
      await blobs.close();
    }
  });

  test('wrong keys are refused by name, without retries; a full store is a full disk', async () => {
    proxy.fault = answering(() => '403 Forbidden');
    const first = proxy.connections();
    const refused = open(bucket, { endpoint: proxy.endpoint });
    await assert.rejects(refused.put(randomBytes(10), 'text/plain'), fails('not_writable'));
    await assert.rejects(refused.get(blobName(randomBytes(10))), fails('store_error'));
    await assert.rejects(refused.has(blobName(randomBytes(10))), fails('store_error'));
    assert.equal(proxy.connections() - first, 4, 'HEAD and PUT, GET, HEAD');
    await refused.close();

    proxy.fault = answering((head) => (head.startsWith('PUT') ? '507 Insufficient Storage' : null));
    const full = open(bucket, { endpoint: proxy.endpoint });
    await assert.rejects(full.put(randomBytes(10), 'text/plain'), fails('disk_full'));
    await full.close();
  });

  test('a bucket that is not there is refused by name, without retries', async () => {
    const blobs = open('tapedeck-no-such-bucket');
    await assert.rejects(blobs.put(randomBytes(10), 'text/plain'), fails('not_writable'));
    await assert.rejects(blobs.get(blobName(randomBytes(10))), fails('store_error'));
    await blobs.close();
  });

  test('objects lie under the prefix', async () => {
    const { client, bucket: own } = await newBucket();
    const blobs = open(own, { prefix: 'a/b/' });
    const { sha256 } = await blobs.put(Buffer.from('x'), 'text/plain');
    const listed = await client.send(new ListObjectsV2Command({ Bucket: own }));
    assert.deepEqual(
      listed.Contents?.map((o) => o.Key),
      [`a/b/${sha256}`],
    );
    await client.send(new DeleteObjectCommand({ Bucket: own, Key: `a/b/${sha256}` }));
    assert.equal(await blobs.has(sha256), false);
    await blobs.close();
    client.destroy();
  });
});
