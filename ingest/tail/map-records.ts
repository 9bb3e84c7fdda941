/** One record of a tailed file to events. Pure: what must stay the same between two readings of a row comes from its place. */
import { ok, type Result } from '../../base/result.ts';
import type { Warning } from '../importers/event-list.ts';
import type { ImportedEvent } from '../importers/event-maker.ts';
import { isRecord, type Json, type JsonRecord } from '../importers/json-value.ts';
import { jsonReader } from '../importers/read-json.ts';
import { rowEvents } from '../importers/verifiers-v0.ts';
import { jsonText } from '../importers/verifiers-v0-row.ts';
import { v0Run, type V0Run } from '../importers/verifiers-v0-run.ts';
import { episodeEvents, type ImportOptions } from '../importers/verifiers-v1.ts';
import type { PinnedRun } from './place.ts';

export type MappedRecord = {
  readonly run: string;
  readonly runEvent: ImportedEvent;
  readonly events: readonly ImportedEvent[];
  readonly warnings: readonly Warning[];
};

export function mapEpisode(value: Json, options: ImportOptions): Result<MappedRecord> {
  return episodeEvents(value, options);
}

/** The pinned run of a row is made when its file's first row comes, and is used for ever after. */
export type Pinned = Record<string, PinnedRun>;

export function mapRow(
  value: Json,
  place: { readonly number: number; readonly bytes: Uint8Array },
  context: { readonly pinned: Pinned; readonly metadata: JsonRecord | null; readonly options: ImportOptions },
): Result<MappedRecord> {
  const { pinned, metadata, options } = context;
  const row: JsonRecord = isRecord(value) ? value : {};
  const key = typeof row['run_id'] === 'string' ? row['run_id'] : '';
  const known = pinned[key];
  const fresh = v0Run({ value: row, bytes: place.bytes }, metadata, known === undefined ? options : { ...options, run: known.run });
  const run = known === undefined ? fresh : runOf(known, fresh.event);
  const mapped = rowEvents(value, place, run, options.project);
  if (!mapped.ok) return mapped;
  pinned[key] ??= pinOf(fresh);
  return ok({ ...mapped.value, runEvent: run.event });
}

/** As JSON text, which keeps 1.0 apart from 1. */
function pinOf({ run, env, model, tools, groupSize }: V0Run): PinnedRun {
  return { run, env: env === null ? null : jsonText(env), model, ...(tools !== undefined && { tools: jsonText(tools) }), groupSize };
}

function runOf({ run, env, model, tools, groupSize }: PinnedRun, event: ImportedEvent): V0Run {
  return {
    run,
    event,
    env: env === null ? null : (valueOf(env) as JsonRecord),
    model,
    tools: tools === undefined ? undefined : valueOf(tools),
    groupSize,
  };
}

function valueOf(text: string): Json {
  const read = jsonReader()(Buffer.from(text));
  return read.ok ? read.value : null;
}
