/** What the routes of exports and vocabularies answer. */
import { z } from 'zod';
import type { ExportReport } from '../../exports/export-format.ts';
import type { ExportStatus } from '../../exports/export-jobs.ts';
import { long, whole } from './answer-schema.ts';

const report = z.object({
  asOf: z
    .string()
    .nullable()
    .meta({ description: 'The log position of what was written; null where single rollouts are read as they are.' }),
  left: z
    .record(z.string(), whole.nullable())
    .meta({ description: 'What the format has no place for, with how often it was met; null: it cannot hold it, and it was not counted.' }),
  incomplete: z.array(z.string()).meta({ description: 'What was left out as a whole.' }),
}) satisfies z.ZodType<ExportReport>;

export const exportStatus = z
  .object({
    id: z.string(),
    project: z.string(),
    format: z.string(),
    of: z.string(),
    state: z.enum(['waiting', 'running', 'done', 'failed', 'cancelled']),
    rows: whole.nullable(),
    bytes: whole,
    sha256: z.string().nullable().meta({ description: 'Of the file; null until it is whole.' }),
    beside: z
      .array(z.object({ name: z.string(), bytes: whole, sha256: z.string() }))
      .meta({ description: 'Small files beside the file, there once they are written.' }),
    report: report.nullable(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    created: long.meta({ description: 'microseconds since 1970 UTC' }),
    ended: long.nullable(),
    fileName: z.string(),
  })
  .meta({ title: 'ExportStatus' }) satisfies z.ZodType<ExportStatus>;

export const exportList = z.object({ exports: z.array(exportStatus) });
export const exportFormats = z.object({
  formats: z.array(
    z.object({
      name: z.string(),
      about: z.string(),
      extension: z.string(),
      mediaType: z.string(),
      of: z.enum(['traces', 'groups', 'rollouts']).nullable().meta({ description: 'What it is made of; null: any resource.' }),
    }),
  ),
});

export const vocabularyAdded = z.object({ hash: z.string(), ids: whole, bytes: whole });
export const vocabularyPieces = z.object({
  hash: z.string(),
  pieces: z.array(
    z.object({
      id: whole,
      kind: z.string().nullable(),
      bytes: z.string().nullable().meta({ description: 'base64; null: there is no such id.' }),
    }),
  ),
});
