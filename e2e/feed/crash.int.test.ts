/**
 * The crash campaign of the feed: producers send, a trainer steps, and the server is killed at random and at every named point while the trainer dies too: with half its slices read,
 * after its step, after its commit, and comes back with its newest or an older checkpoint, at another world size. At the end what the trainer's weights were made of is exactly
 * the committed chain, every rollout is in it once, and the chain verifies. TAPEDECK_KILLS sets the number of kills, TAPEDECK_SEED replays a run.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { tableFromIPC } from 'apache-arrow';
import { seededRandom } from '../../base/random.ts';
import { FEED_CRASH_POINTS } from '../../cli/serve/crash-points.ts';
import { ChainVerifier } from '../../trainer-feed/verify/verify-chain.ts';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import type { FeedStatus } from '../../trainer-feed/feed/status.ts';
import type { Resumed } from '../../trainer-feed/feed/resume.ts';
import { event, T0, world } from '../../trainer-feed/feed/feed-world.ts';
import type { Manifest } from '../../trainer-feed/server/manifest.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';

const KILLS = Number(process.env['TAPEDECK_KILLS'] ?? 14);
const SEED = Number(process.env['TAPEDECK_SEED'] ?? Date.now() % 100_000);
const PORT = 21_000 + (process.pid % 20_000);
const GROUPS = 160;
const SIZE = 4;

/** What the trainer's weights are made of: the rows of each step. A checkpoint is a copy of it. */
type Weights = {
  readonly timeline: number;
  readonly n: number;
  readonly batchId: string | null;
  readonly rows: readonly (readonly string[])[];
};
type Lease = { readonly n: number; readonly batchId: string; readonly token: number; readonly timeline: number; readonly end?: true };
class Refused extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(`${code}: ${message}`);
    this.code = code;
  }
}

describe(`crash campaign of the feed, seed ${SEED}`, () => {
  const folder = temporaryFolder('feed-crash');
  const random = seededRandom(SEED);
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random.next() * items.length)] as T;
  const done = new AbortController();
  let server: TestServer;
  let expected = new Set<string>();
  /** Checkpoints on the trainer's disk, oldest first. */
  const checkpoints: Weights[] = [{ timeline: 0, n: 0, batchId: null, rows: [] }];
  let trained = checkpoints[0] as Weights;
  let deaths = 0;
  let rollbacks = 0;

  const start = async (crashPoint?: string): Promise<void> => {
    server = await startServer({
      TAPEDECK_DATA: folder.path,
      TAPEDECK_PORT: String(PORT),
      TAPEDECK_ROLES: 'ingest,feed',
      ...(crashPoint === undefined ? {} : { TAPEDECK_CRASH_POINT: crashPoint }),
    });
  };

  /** Asks until the server answers; refusals are thrown, what may pass is tried again. */
  const ask = async (method: string, path: string, body?: unknown): Promise<Response> => {
    for (;;) {
      done.signal.throwIfAborted();
      try {
        const init = body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
        const answer = await fetch(`http://127.0.0.1:${PORT}${path}`, { method, ...init, signal: AbortSignal.timeout(60_000) });
        if (answer.status === 202 || answer.status >= 500) {
          await answer.arrayBuffer();
        } else if (answer.ok) {
          return new Response(await answer.arrayBuffer(), answer);
        } else {
          const { error } = (await answer.json()) as { error: { code: string; message: string } };
          throw new Refused(error.code, error.message);
        }
      } catch (error) {
        if (error instanceof Refused) throw error;
      }
      await sleep(20);
    }
  };
  const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => (await (await ask(method, path, body)).json()) as T;

  const produce = async (): Promise<void> => {
    const events = world({ seed: SEED, groups: GROUPS, size: SIZE, partitions: 1 }).flat();
    expected = new Set(events.flatMap((each) => (each.type === 'rollout.started' ? [each.rollout as string] : [])));
    for (let at = 0; at < events.length; at += 60) {
      await send(events.slice(at, at + 60).map((each) => encodeEvent(each)));
      await sleep(30);
    }
    await send([encodeEvent(event('run.ended', { run: 'run-1' }, T0 + 9_000_000, { status: 'completed' }))]);
  };
  const send = async (slices: readonly Uint8Array[]): Promise<void> => {
    for (;;) {
      done.signal.throwIfAborted();
      const answer = await fetch(`http://127.0.0.1:${PORT}/v1/events`, {
        method: 'POST',
        headers: { 'content-type': 'application/cbor-seq' },
        body: Buffer.concat(slices),
      }).catch(() => null);
      if (answer?.status === 200) return;
      await sleep(20);
    }
  };

  /** One life of the trainer: from a checkpoint until it dies. True = the feed has ended. */
  const live = async (from: Weights): Promise<boolean> => {
    let weights = from;
    const diesAfter = 1 + Math.floor(random.next() * 6);
    const diesAt = pick(['fetched half', 'stepped', 'committed', 'checkpointed'] as const);
    const mode = pick(['replay', 'replay', 'recut']);
    const restart = from.n === 0 && from.batchId === null;
    const resumed = await call<Resumed>('POST', '/v1/feeds/f/resume', {
      holder: 'trainer',
      mode,
      restart,
      checkpoint: restart ? { n: 0 } : { timeline: from.timeline, n: from.n, batchId: from.batchId },
    });
    assert.equal(resumed.next, from.n + 1);
    if (resumed.rewound) rollbacks++;
    weights = { ...weights, timeline: resumed.timeline };
    for (let life = 1; ; life++) {
      const ranks = pick([1, 2, 4, 8, 6, 3]);
      const lease = await call<Lease>('POST', '/v1/feeds/f/leases', {
        holder: 'trainer',
        step: weights.n + 1,
        world: ranks,
        maxTokens: 64,
        wait: 1,
      });
      if (lease.end === true) {
        trained = weights;
        return true;
      }
      await sleep(random.next() * 300); // the step
      const rows: string[] = [];
      for (let rank = 0; rank < ranks; rank++) {
        if (life >= diesAfter && diesAt === 'fetched half' && rank >= ranks / 2) return false;
        rows.push(...(await readRank(lease, rank, ranks)));
      }
      weights = { timeline: lease.timeline, n: lease.n, batchId: lease.batchId, rows: [...weights.rows, rows.toSorted()] };
      if (random.next() < 0.5) checkpoints.push(weights);
      if (life >= diesAfter && diesAt === 'stepped') return false;
      await call('POST', '/v1/feeds/f/commits', { n: lease.n, batchId: lease.batchId, token: lease.token, step: lease.n });
      if (life >= diesAfter && diesAt === 'committed') return false;
      if (random.next() < 0.3) {
        checkpoints.push(weights);
        await call('POST', '/v1/feeds/f/checkpoints', { n: lease.n, batchId: lease.batchId, uri: `c-${lease.n}` });
      }
      if (life >= diesAfter && diesAt === 'checkpointed') return false;
    }
  };

  const readRank = async ({ n, batchId }: Lease, rank: number, ranks: number): Promise<string[]> => {
    const answer = await ask('GET', `/v1/feeds/f/batches/${n}?rank=${rank}&world=${ranks}&wait=1`);
    assert.equal(answer.headers.get('x-feed-batch'), batchId);
    const table = tableFromIPC(new Uint8Array(await answer.arrayBuffer()));
    return [...(table.getChild('row_id') ?? [])].map(String).filter((id) => id !== '');
  };

  const train = async (): Promise<void> => {
    let from = checkpoints[0] as Weights;
    for (;;) {
      try {
        if (await live(from)) return;
      } catch (error) {
        // a checkpoint of a history that was given up cannot be resumed: the trainer takes an older one
        if (!(error instanceof Refused) || error.code !== 'chain_mismatch') throw error;
        checkpoints.splice(checkpoints.indexOf(from), 1);
      }
      deaths++;
      if (checkpoints.length === 0) checkpoints.push({ timeline: 0, n: 0, batchId: null, rows: [] });
      const newest = checkpoints.length - 1;
      from = checkpoints[random.next() < 0.7 ? newest : Math.floor(random.next() * checkpoints.length)] as Weights;
    }
  };

  let working: Promise<unknown>;
  before(async () => {
    await start();
    await server.ready();
    await call('POST', '/v1/feeds', {
      feed: 'f',
      spec: {
        runs: ['run-1'],
        maxRowTokens: 64,
        batch: { by: 'rollouts', size: 16 },
        dropZeroAdvantage: false,
        staleness: { maxOffPolicySteps: null },
        cutAhead: 2,
        keepBatches: 2,
      },
    });
    working = Promise.all([produce(), train()]);
    working.catch(() => {});
  });
  after(async () => {
    done.abort();
    await server.kill();
    folder.remove();
  });

  for (let kill = 0; kill < KILLS; kill++) {
    const point = FEED_CRASH_POINTS[kill % FEED_CRASH_POINTS.length] as string;
    test(`kill ${kill + 1} of ${KILLS}: ${kill % 2 === 0 ? point : 'at random'}`, async () => {
      if (kill % 2 === 0) {
        await server.kill();
        const diesYoung = (error: unknown): boolean => error instanceof Error && /ended before it listened/.test(error.message);
        await start(`${point}:${1 + Math.floor(random.next() * 3)}`).catch((error: unknown) => {
          if (!diesYoung(error)) throw error; // the point may be reached before it listens
        });
        await Promise.race([server.gone, sleep(1_500)]);
      } else await sleep(100 + random.next() * 900);
      await server.kill();
      await start();
      await sleep(200 + random.next() * 400);
    });
  }

  test(
    'the weights are made of exactly the committed chain, every rollout once, and the chain verifies',
    { timeout: 240_000 },
    async () => {
      await working;
      const status = await call<FeedStatus>('GET', '/v1/feeds/f/status');
      assert.equal(trained.n, status.committed);
      const verifier = new ChainVerifier();
      let previous: string | null = null;
      const rows: string[] = [];
      for (let n = 1; n <= status.committed; n++) {
        const manifest = await call<Manifest>('GET', `/v1/feeds/f/batches/${n}/manifest`);
        assert.equal(manifest.previousId, previous);
        assert.deepEqual(verifier.add(manifest), []);
        assert.deepEqual(trained.rows[n - 1], manifest.rows.map(({ rowId }) => rowId).toSorted(), `step ${n}`);
        rows.push(...manifest.rows.map(({ rollout }) => rollout));
        previous = manifest.batchId;
      }
      assert.deepEqual(rows.toSorted(), [...expected].toSorted());
      assert.equal(trained.batchId, previous);
      assert.ok(deaths >= 3 && rollbacks >= 1, `the campaign was too tame: ${deaths} deaths of the trainer, ${rollbacks} rollbacks`);
    },
  );
});
