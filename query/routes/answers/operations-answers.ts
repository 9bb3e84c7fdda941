/** What the routes of operations answer. */
import { z } from 'zod';
import type { AuditReport } from '../../../store/columns/audit/audit.ts';
import type { BehindReport } from '../../../store/columns/audit/behind.ts';
import type { Compaction } from '../../../store/columns/compact.ts';
import type { ProjectorState } from '../../../store/columns/projector/state.ts';
import type { RebuildProgress } from '../../operations/rebuild.ts';
import { whole } from './answer-schema.ts';

const text = z.string().nullable();
const topic = z.enum(['events', 'feeds']);
const byStatus = z.object({ stored: whole, duplicate: whole, conflict: whole, dead: whole, deleted: whole });

const projector = z
  .object({
    phase: z.enum(['starting', 'idle', 'projecting', 'waiting', 'stopped']),
    waitingFor: text,
    sinceMicros: whole,
    positions: z.array(whole),
    ends: z.array(whole),
    lagEvents: whole,
    lagSeconds: z.number(),
    blocks: whole,
    events: whole,
    lastBlock: z.object({ events: whole, bytes: whole, ms: z.number() }).nullable(),
    byStatus,
  })
  .meta({ title: 'ProjectorState' }) satisfies z.ZodType<ProjectorState>;
const byProjector = { projector: projector.nullable().meta({ description: 'Null where the projector runs in another process.' }) };

const partition = z.object({
  topic,
  partition: whole,
  first: whole,
  end: whole,
  stored: whole.meta({ description: 'Offset up to which the store has everything (exclusive).' }),
  lag: whole,
  gaps: whole,
  byStatus,
  unfinishedBeyond: whole.nullable().meta({ description: 'Offset beyond `stored` that a block which will be done again was written for.' }),
});
const audit = z.object({
  ok: z.boolean(),
  lag: whole,
  partitions: z.array(partition),
  mismatches: z
    .array(z.object({ kind: z.enum(['trace', 'rollout']), id: z.string(), said: z.string(), stored: z.string() }))
    .meta({ description: 'Ends whose counts differ from what is stored; the first 100.' }),
  mismatchCount: whole,
  problems: z.array(z.string()),
}) satisfies z.ZodType<AuditReport>;
export const auditAnswer = audit.extend(byProjector).meta({ title: 'AuditReport' });

const behind = z.object({
  notStored: whole.meta({ description: 'Events of the log that are in no table yet.' }),
  partitions: z.array(z.object({ topic, partition: whole, end: whole, stored: whole })),
}) satisfies z.ZodType<BehindReport>;
export const behindAnswer = behind.extend(byProjector).meta({ title: 'BehindReport' });

const letter = {
  partition: whole.meta({ description: 'As the store numbers it: those of the feeds topic from 32768 on.' }),
  offset: whole,
  reason: z.string(),
  message: z.string(),
  id: text,
  type: z.string(),
  project: z.string(),
  run: z.string(),
  rollout: z.string(),
  trace: z.string(),
  bytes: whole,
};
export const deadLettersAnswer = z.object({ letters: z.array(z.object(letter).meta({ title: 'DeadLetter' })) });
export const deadLetterAnswer = z.object({
  ...letter,
  raw: z.string().meta({ description: 'base64' }),
  json: text.meta({ description: 'The record as JSON text; null where it cannot be read at all.' }),
});
export const retriedAnswer = z.object({ retried: whole });

/** How work that tells its progress in lines ends. */
const ending = [z.object({ done: z.literal(true) }), z.object({ error: z.object({ code: z.string(), message: z.string() }) })] as const;
const compaction = z.object({ table: z.string(), bytesBefore: z.number(), bytesAfter: z.number() }) satisfies z.ZodType<Compaction>;
export const compactLine = z.union([compaction, ...ending]).meta({ title: 'CompactLine' });

const comparison = z.object({
  project: z.string(),
  view: z.string(),
  rows: whole,
  rebuiltRows: whole,
  equal: z.boolean(),
  difference: z
    .object({ only: z.enum(['live', 'rebuilt']), row: z.string() })
    .nullable()
    .meta({ description: 'A row that only one side has, when they differ.' }),
});
const rebuildProgress = z.union([
  z.object({ phase: z.literal('building'), events: whole, of: whole }),
  z.object({ phase: z.literal('comparing'), compared: comparison }),
  z.object({ phase: z.literal('result'), equal: z.boolean().nullable(), views: whole, different: whole }),
]) satisfies z.ZodType<RebuildProgress>;
export const rebuildLine = z.union([rebuildProgress, ...ending]).meta({ title: 'RebuildLine' });
