/** What the conformance suite needs of a server: its URL. Each test makes runs and feeds of its own, so that the suite may run against a server in use. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { encodeEvent } from '../../../events/codec/cbor-encode.ts';
import { world, type WorldOptions } from '../../feed/feed-world.ts';

export type Under = {
  readonly url: () => string;
  /** Fails where an answer is not what the server's own document says of it. */
  readonly fetch: (request: Request) => Promise<Response>;
};

export type Answer = { readonly status: number; readonly headers: Headers; readonly bytes: Buffer; readonly json: () => never };

export type Lease = {
  readonly n: number;
  readonly batchId: string;
  readonly token: number;
  readonly timeline: number;
  readonly planId: string;
  readonly expires: number;
  readonly microBatches: number;
};

/** One feed over one run of its own, and the requests of a trainer. */
export class FeedClient {
  readonly feed: string;
  readonly run: string;
  readonly #under: Under;

  constructor(under: Under, name: string) {
    const mark = randomBytes(6).toString('hex');
    this.#under = under;
    this.feed = `${name}-${mark}`;
    this.run = `run-${mark}`;
  }

  /** Sends rollouts of this client's run to the server's log. */
  async produce(options: Omit<WorldOptions, 'partitions' | 'run'>): Promise<void> {
    const events = world({ ...options, partitions: 1, run: this.run }).flat();
    const body = Buffer.concat(events.map((event) => encodeEvent(event)));
    const answer = await this.fetch('POST', '/v1/events', { body, type: 'application/cbor-seq' });
    assert.equal(answer.status, 200, answer.bytes.toString());
  }

  async end(): Promise<void> {
    const event = {
      v: 1,
      id: `00000000-0000-8000-8000-${randomBytes(6).toString('hex')}`,
      type: 'run.ended',
      run: this.run,
      time: 1_750_000_001_000_000,
      data: { status: 'completed' },
    };
    const answer = await this.fetch('POST', '/v1/events', { body: Buffer.from(JSON.stringify([event])), type: 'application/json' });
    assert.equal(answer.status, 200, answer.bytes.toString());
  }

  create(spec: object = {}): Promise<Answer> {
    return this.post('/v1/feeds', {
      feed: this.feed,
      spec: { maxRowTokens: 400, batch: { by: 'rollouts', size: 8 }, runs: [this.run], ...spec },
    });
  }

  /** `path` is below the feed. */
  get(path: string, headers: Record<string, string> = {}): Promise<Answer> {
    return this.fetch('GET', `/v1/feeds/${this.feed}${path}`, { headers });
  }

  act(path: string, body: object): Promise<Answer> {
    return this.post(`/v1/feeds/${this.feed}/${path}`, body);
  }

  post(path: string, body: object): Promise<Answer> {
    return this.fetch('POST', path, { body: Buffer.from(JSON.stringify(body)), type: 'application/json' });
  }

  async fetch(
    method: string,
    path: string,
    more: { body?: Buffer; type?: string; headers?: Record<string, string> } = {},
  ): Promise<Answer> {
    const headers = { ...(more.type === undefined ? {} : { 'content-type': more.type }), ...more.headers };
    const body = more.body === undefined ? {} : { body: new Uint8Array(more.body) };
    const answer = await this.#under.fetch(new Request(`${this.#under.url()}${path}`, { method, headers, ...body }));
    const bytes = Buffer.from(await answer.arrayBuffer());
    return { status: answer.status, headers: answer.headers, bytes, json: () => JSON.parse(bytes.toString()) as never };
  }

  async lease(step: number, more: object = {}): Promise<Lease> {
    const answer = await this.act('leases', { holder: 'trainer', step, world: 2, maxTokens: 800, wait: 30, ...more });
    assert.equal(answer.status, 200, answer.bytes.toString());
    return answer.json();
  }

  async commit({ n, batchId, token }: Lease, more: object = {}): Promise<void> {
    const answer = await this.act('commits', { n, batchId, token, step: n, ...more });
    assert.equal(answer.status, 200, answer.bytes.toString());
  }

  /** Trains one step without reading it. */
  async step(n: number): Promise<Lease> {
    const lease = await this.lease(n);
    await this.commit(lease);
    return lease;
  }

  /** A slice, checked against its digest. */
  async slice(n: number, rank = 0, query = 'world=2&maxTokens=800'): Promise<Answer> {
    const answer = await this.get(`/batches/${n}?rank=${rank}&${query}&wait=30`);
    assert.equal(answer.status, 200, answer.bytes.toString());
    const digest = createHash('sha256').update(answer.bytes).digest();
    assert.equal(answer.headers.get('repr-digest'), `sha-256=:${digest.toString('base64')}:`);
    assert.equal(answer.headers.get('etag'), `"${digest.toString('hex')}"`);
    return answer;
  }
}

/** A refusal with this code, whose message says what to do. */
export function refuses(answer: Answer, status: number, code: string, says: RegExp): Record<string, unknown> {
  assert.equal(answer.status, status, answer.bytes.toString());
  const { error } = answer.json() as { error: { code: string; message: string; details?: Record<string, unknown> } };
  assert.equal(error.code, code);
  assert.match(error.message, says);
  return error.details ?? {};
}

export type Contract = (under: Under) => void;
