/** What a feed tells those around it: its status, the capacity producers may fill, and the rollouts runners should stop. */
import { PassThrough } from 'node:stream';
import { z } from 'zod';
import { awaitFeed, foldOf } from '../feed/await-feed.ts';
import { capacityOf, type Capacity } from '../feed/capacity.ts';
import type { FeedFold } from '../feed/fold.ts';
import { statusOf } from '../feed/status.ts';
import { cancellation, capacityAnswer, statusAnswer } from './answers.ts';
import { described, feedOf, feedParams, parsed, projectQuery, wait, type FeedRoutes } from './route-parts.ts';
import { endsOf } from './trainer-routes.ts';

const statusQuery = z.strictObject(projectQuery);
const capacityQuery = z.strictObject({
  ...projectQuery,
  wait,
  atLeast: z.coerce.number().int().min(1).max(1_000_000).default(1).meta({ description: 'waits until so many rollouts may be started' }),
});

/** What was acknowledged already is read in this time, milliseconds; a feed that is far behind answers by what it has read. */
const READ_MS = 5_000;
/** A comment line so often, milliseconds: the client knows the stream lives. */
const HEARTBEAT_MS = 15_000;
/** A reader that leaves more than this unread is cut off, bytes. */
const MAX_UNREAD = 1024 * 1024;

function hasRead({ facts }: FeedFold, ends: readonly number[]): boolean {
  return ends.every((end, partition) => (facts.positions[partition] ?? 0) >= end);
}

export const statusRoutes: FeedRoutes = (app, service) => {
  app.get(
    '/v1/feeds/:feed/status',
    described({
      summary: 'Where a feed stands',
      params: feedParams,
      querystring: statusQuery,
      answers: { 200: { says: 'Its state', schema: statusAnswer } },
    }),
    async (request, reply) => {
      const { engine } = await feedOf(service, request, reply);
      return statusOf(engine, foldOf(engine), await endsOf(service), service.clock.nowMicros());
    },
  );

  app.get(
    '/v1/feeds/:feed/capacity',
    described({
      summary: 'How many rollouts producers may start',
      params: feedParams,
      querystring: capacityQuery,
      answers: { 200: { says: 'The room there is', schema: capacityAnswer } },
    }),
    async (request, reply) => {
      const { engine, signal } = await feedOf(service, request, reply);
      const query = parsed(capacityQuery, request.query);
      // what was acknowledged before the question counts in the answer, so that nobody starts the same room twice
      const ends = await endsOf(service);
      await awaitFeed(engine, service.clock, READ_MS, (fold) => engine.view.paused || hasRead(fold, ends) || null, signal);
      let latest: Capacity | null = null;
      await awaitFeed(
        engine,
        service.clock,
        query.wait * 1000,
        (fold) => {
          latest = capacityOf(fold, engine.origin.resolved, engine.yields);
          return latest.capacity === null || latest.capacity >= query.atLeast ? latest : null;
        },
        signal,
      );
      return latest;
    },
  );

  app.get(
    '/v1/feeds/:feed/cancellations',
    described({
      summary: 'Rollouts that runners should stop, as server-sent events',
      params: feedParams,
      querystring: statusQuery,
      answers: { 200: { says: 'Events `cancel`; the schema is that of their data', forms: { 'text/event-stream': cancellation } } },
    }),
    async (request, reply) => {
      const { engine, signal } = await feedOf(service, request, reply);
      foldOf(engine);
      const stream = new PassThrough({ highWaterMark: MAX_UNREAD });
      const end = (): void => void stream.end();
      signal.addEventListener('abort', end, { once: true });
      void follow();
      return reply
        .headers({ 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store', 'x-accel-buffering': 'no' })
        .send(stream);

      async function follow(): Promise<void> {
        let sent = 0;
        stream.write(': follows\n\n');
        try {
          while (!signal.aborted && !stream.writableEnded) {
            const { version, cancellations } = engine;
            for (const each of cancellations.since(sent))
              stream.write(`event: cancel\nid: ${each.sequence}\ndata: ${JSON.stringify(each)}\n\n`);
            sent = cancellations.last;
            if (stream.writableLength > MAX_UNREAD) break; // it comes back and gets all of them again
            await engine.waitForChange(version, HEARTBEAT_MS, signal);
            if (engine.version === version) stream.write(': alive\n\n');
          }
        } catch {
          // the client went away, or the server closes
        }
        stream.end();
      }
    },
  );
};
