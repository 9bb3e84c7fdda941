import { Readable } from 'node:stream';
import type { FastifyPluginAsync } from 'fastify';
import { z } from 'zod';
import type { ViewComparison } from '../../store/columns/rebuild/compare-views.ts';
import { rebuildLine } from '../routes/answers/operations-answers.ts';
import { abortedWith } from './client-gone.ts';
import { JSON_LINES, operation } from './operation-schema.ts';
import { parsed } from './parsed.ts';
import { progressLines } from './progress-lines.ts';

/** What a rebuild tells while it works. */
export type RebuildProgress =
  | { readonly phase: 'building'; readonly events: number; readonly of: number }
  | { readonly phase: 'comparing'; readonly compared: ViewComparison }
  | { readonly phase: 'result'; readonly equal: boolean | null; readonly views: number; readonly different: number };

/** Builds every table again from the log. With `check` the answers are compared and the live tables stay; else the new tables take their place. */
export type Rebuild = (
  options: { readonly check: boolean },
  tell: (progress: RebuildProgress) => void,
  signal: AbortSignal,
) => Promise<void>;

const body = z.strictObject({ check: z.boolean().default(false) });

/** `POST /v1/rebuild {"check": true}`: progress as JSON lines; the line of phase `result` says whether live and rebuilt answers are equal. */
export const rebuildRoutes: FastifyPluginAsync<{ readonly rebuild: Rebuild }> = async (app, { rebuild }) => {
  app.post(
    '/v1/rebuild',
    operation({ summary: 'Build every table again from the log', body, forms: { [JSON_LINES]: rebuildLine } }),
    async (request, reply) => {
      const { check } = parsed(body, request.body);
      const signal = abortedWith(reply);
      const lines = progressLines<RebuildProgress>((tell) => rebuild({ check }, tell, signal));
      return reply.type(JSON_LINES).send(Readable.from(lines, { objectMode: false }));
    },
  );
};
