import { Readable } from 'node:stream';
import type { FastifyPluginAsync } from 'fastify';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import { blobHandles, internalize } from '../../events/codec/blob-tags.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { entityId } from '../../events/fields.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { logPartition } from '../../store/columns/projections/position.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { abortedWith } from './client-gone.ts';
import { parsed } from './parsed.ts';

export type RolloutEventsOptions = { readonly store: ColumnStore; readonly log: EventLog; readonly blobs: BlobStore };

const listQuery = z.strictObject({
  project: entityId.default(DEFAULT_PROJECT),
  after: z.string().default(''),
  limit: z.coerce.number().int().min(1).max(10_000).default(1000),
});
const eventsQuery = z.strictObject({ project: entityId.default(DEFAULT_PROJECT), run: entityId });
/** Where the stored events of a rollout lie, in log order. The table is ordered by position: the index by_rollout keeps this from reading all of it. */
export const POSITIONS =
  "SELECT _partition AS partition, _offset AS offset FROM log_index FINAL WHERE project = {project:String} AND run = {run:String} AND rollout = {rollout:String} AND status = 'stored' " +
  'ORDER BY _partition, _offset SETTINGS use_skip_indexes_if_final = 1';
const READ_BYTES = 4 * 1024 * 1024;

/**
 * `GET /v1/runs/{run}/rollouts` pages through the ids of a run's rollouts in their order; `GET /v1/rollouts/{rollout}/events?run=` gives the original events of
 * one rollout in log order as a CBOR sequence (RFC 8742): each once, large values put back.
 */
export const rolloutEventRoutes: FastifyPluginAsync<RolloutEventsOptions> = async (app, { store, log, blobs }) => {
  app.get('/v1/runs/:run/rollouts', { schema: { summary: 'List the rollouts of a run', tags: ['query'] } }, async (request, reply) => {
    const { run } = parsed(z.strictObject({ run: entityId }), request.params);
    const { project, after, limit } = parsed(listQuery, request.query);
    const rows = await store.rows<{ rollout: string }>(
      'SELECT DISTINCT rollout FROM rollout_events WHERE project = {project:String} AND run = {run:String} AND rollout > {after:String} ORDER BY rollout LIMIT {limit:UInt32}',
      { params: { project, run, after, limit }, signal: abortedWith(reply) },
    );
    return { rollouts: rows.map((row) => row.rollout), next: rows.length === limit ? (rows.at(-1)?.rollout ?? null) : null };
  });

  app.get(
    '/v1/rollouts/:rollout/events',
    { schema: { summary: 'The original events of a rollout', tags: ['query'] } },
    async (request, reply) => {
      const { rollout } = parsed(z.strictObject({ rollout: entityId }), request.params);
      const { project, run } = parsed(eventsQuery, request.query);
      const signal = abortedWith(reply);
      const places = await store.rows<{ partition: number; offset: string }>(POSITIONS, { params: { project, run, rollout }, signal });
      if (places.length === 0)
        throw new TapedeckError('not_found', `rollout ${rollout} of run ${run} has no stored events in project ${project}`);
      const slices = slicesAt(log, places.map((p) => ({ partition: logPartition(Number(p.partition)).partition, offset: Number(p.offset) })), signal); // prettier-ignore
      return reply.type('application/cbor-seq').send(Readable.from(whole(slices, blobs, signal), { objectMode: false }));
    },
  );
};

/** The records at these places, which are in order: neighbours are read together, gaps are skipped. */
async function* slicesAt(
  log: EventLog,
  places: readonly { readonly partition: number; readonly offset: number }[],
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let at = 0;
  while (at < places.length) {
    const { partition, offset } = places[at] as { partition: number; offset: number };
    const { records } = await log.read(partition, offset, { maxBytes: READ_BYTES, signal });
    const before = at;
    for (const record of records) {
      const wanted = places[at];
      if (wanted === undefined || wanted.partition !== partition) break;
      if (record.offset !== wanted.offset) continue;
      yield record.value;
      at++;
    }
    if (at === before) throw new TapedeckError('log_corrupt', `the log no longer holds offset ${offset} of partition ${partition}`);
  }
}

async function* whole(slices: AsyncIterable<Uint8Array>, blobs: BlobStore, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  for await (const slice of slices)
    yield blobHandles(slice).length === 0 ? slice : await internalize(slice, (sha256) => blobs.get(sha256, signal));
}
