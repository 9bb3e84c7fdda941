import { Readable } from 'node:stream';
import type { FastifyPluginAsync } from 'fastify';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { compact, type Compaction } from '../../store/columns/compact.ts';
import { compactLine } from '../routes/answers/operations-answers.ts';
import { abortedWith } from './client-gone.ts';
import { JSON_LINES, operation } from './operation-schema.ts';
import { progressLines } from './progress-lines.ts';

/** `POST /v1/compact`: gives back the disk space of deleted and replaced rows. One JSON line per table as it is done, then `{"done": true}`. */
export const compactRoutes: FastifyPluginAsync<{ readonly store: ColumnStore }> = async (app, { store }) => {
  app.post('/v1/compact', operation({ summary: 'Give back disk space', forms: { [JSON_LINES]: compactLine } }), async (_request, reply) => {
    const signal = abortedWith(reply);
    const lines = progressLines<Compaction>(async (tell) => {
      await compact(store, { signal, onTable: tell });
    });
    return reply.type(JSON_LINES).send(Readable.from(lines, { objectMode: false }));
  });
};
