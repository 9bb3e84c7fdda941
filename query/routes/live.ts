/** `GET /v1/live`: what happens, as server-sent events, while it happens. */
import type { FastifyPluginAsync } from 'fastify';
import { z } from 'zod';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { entityId } from '../../events/fields.ts';
import type { LiveHub } from '../live/live-hub.ts';
import { readTopic } from '../live/live-topic.ts';
import { parsed } from '../operations/parsed.ts';
import { logPosition } from '../positions/log-position.ts';
import { answerForms } from './answers/answer-schema.ts';
import { replyError } from './error-reply.ts';

const MAX_TOPICS = 64;
const topic = z.string().min(1).max(300);
export const liveQuery = z.strictObject({
  project: entityId.default(DEFAULT_PROJECT),
  topic: z
    .union([topic, z.array(topic).min(1).max(MAX_TOPICS)])
    .meta({ description: 'runs, run:<id>, rollout:<id>, trace:<id> or feed:<id>; repeat it for several.' }),
  from: z.string().max(40_000).optional().meta({ description: 'A log position to go on from, as the header Last-Event-ID, which wins.' }),
});

const SCHEMA = {
  operationId: 'live',
  summary: 'Follow runs, rollouts, traces and feeds',
  tags: ['query'],
  querystring: z.toJSONSchema(liveQuery, { io: 'input', unrepresentable: 'any' }),
  response: answerForms('Server-sent events, without end', { 'text/event-stream': null }),
};

/**
 * Messages: `open`, `changes` (at most four a second), `skipped` (a stretch that was not told: from, to, reason), `position` (how far the log was read). The id of each is the log
 * position behind it. Everything is told at least once.
 */
export const liveRoutes: FastifyPluginAsync<{ readonly hub: LiveHub }> = async (app, { hub }) => {
  app.get('/v1/live', { schema: SCHEMA, validatorCompiler: () => () => true, serializerCompiler: () => JSON.stringify }, async (request, reply) => {
    try {
      const { project, topic: asked, from } = parsed(liveQuery, request.query);
      const topics = (Array.isArray(asked) ? asked : [asked]).map(readTopic);
      const last = request.headers['last-event-id'];
      const text = typeof last === 'string' && last !== '' ? last : from;
      const position = text === undefined ? null : parsed(z.object({ from: logPosition }), { from: text }).from;
      await hub.ready();
      reply.hijack();
      const { raw } = reply;
      raw.writeHead(200, { ...reply.getHeaders(), 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store', 'x-accel-buffering': 'no' } as Record<string, string>);
      raw.socket?.setNoDelay(true);
      await hub.follow(raw, { project, topics, from: position }).catch((error: unknown) => {
        request.log.warn({ err: error }, 'a live follower was let go');
        raw.destroy();
      });
      return reply;
    } catch (error) {
      return replyError(reply, error);
    }
  });
}; // prettier-ignore
