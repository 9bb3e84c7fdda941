import type { FastifyPluginAsync } from 'fastify';
import type { EventLog } from '../../store/log/event-log.ts';
import { runAudit } from '../../store/columns/audit/audit.ts';
import { readBehind } from '../../store/columns/audit/behind.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import type { ProjectorState } from '../../store/columns/projector/state.ts';
import { auditAnswer, behindAnswer } from '../routes/answers/operations-answers.ts';
import { abortedWith } from './client-gone.ts';
import { operation } from './operation-schema.ts';

export type AuditOptions = {
  readonly log: EventLog;
  /** The topic of trainer feeds; null where this server has none open. */
  readonly feeds: EventLog | null;
  readonly store: ColumnStore;
  /** Null where the projector runs in another process. */
  readonly projector: () => ProjectorState | null;
};

/**
 * `GET /v1/audit`: every offset of the log against what the tables say became of it; `ok` is false when anything is unexplained. `GET /v1/behind`: only how many events
 * are not stored yet, and where.
 */
export const auditRoutes: FastifyPluginAsync<AuditOptions> = async (app, { log, feeds, store, projector }) => {
  const logs = [{ topic: 'events' as const, log }, ...(feeds === null ? [] : [{ topic: 'feeds' as const, log: feeds }])];
  app.get(
    '/v1/audit',
    operation({ summary: 'Prove that what was accepted is stored', forms: { 'application/json': auditAnswer } }),
    async (_request, reply) => {
      const report = await runAudit(logs, store, abortedWith(reply));
      return { ...report, projector: projector() };
    },
  );
  app.get(
    '/v1/behind',
    operation({ summary: 'How many events are not stored yet', forms: { 'application/json': behindAnswer } }),
    async (_request, reply) => {
      const report = await readBehind(logs, store, abortedWith(reply));
      return { ...report, projector: projector() };
    },
  );
};
