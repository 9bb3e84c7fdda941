/** The query of `GET /api/v1/traces` as conditions over the summaries. Pure: values travel as named parameters, never in the text. */
import { fail, ok, type Result } from '../../base/result.ts';
import type { SqlParams } from '../../store/columns/column-store.ts';
import { microsOfIso } from '../importers/micros.ts';

export type Sort = 'created_at' | 'reward' | 'duration_ms';
export type TraceQuery = {
  /** Conditions over `t`, joined by AND. */
  readonly where: readonly string[];
  readonly params: SqlParams;
  readonly sort: Sort;
  readonly limit: number;
  readonly cursor: string | null;
  /** The filters as text, so that a cursor is good for these filters only. */
  readonly key: string;
};

export const MAX_PAGE = 100;
const DEFAULT_PAGE = 50;

/** Sort keys, all descending; what is not known comes last. */
export const SORT_SQL: Readonly<Record<Sort, string>> = {
  created_at: 'toFloat64(ifNull(toUnixTimestamp64Micro(t.started), -1))',
  reward: 'if(isNull(t.reward) OR isNaN(t.reward), -inf, assumeNotNull(t.reward))',
  duration_ms: 'toFloat64(ifNull(intDiv(toUnixTimestamp64Micro(t.ended) - toUnixTimestamp64Micro(t.started), 1000), -1))',
};
const HAS_ERROR = '(t.errors > 0 OR ifNull(NOT t.ok, false))';
const TEXTS: Readonly<Record<string, string>> = { run_id: 't.run', environment_id: 't.env', model_id: 't.model', task_id: 't.task_key' };
const NUMBERS: Readonly<Record<string, string>> = { reward_min: 't.reward >=', reward_max: 't.reward <=' };
const FLAGS: Readonly<Record<string, string>> = { has_error: HAS_ERROR, is_truncated: 'ifNull(t.truncated, false)' };
const TIMES: Readonly<Record<string, string>> = {
  created_after: 'toUnixTimestamp64Micro(t.started) >=',
  created_before: 'toUnixTimestamp64Micro(t.started) <',
};
const SORTS: readonly string[] = Object.keys(SORT_SQL);

type Draft = { readonly where: string[]; readonly params: Record<string, unknown>; readonly notes: string[] };

/** Reads the query string. Problems are `invalid_filter` and name the parameter. */
export function traceQuery(query: Readonly<Record<string, unknown>>): Result<TraceQuery> {
  const draft: Draft = { where: [], params: {}, notes: [] };
  let sort: Sort = 'created_at';
  let limit = DEFAULT_PAGE;
  let cursor: string | null = null;
  for (const [name, value] of Object.entries(query)) {
    const text = typeof value === 'string' ? value : null;
    if (name === 'upload_id') addUploads(value, draft);
    else if (text === null) return bad(name, 'it may be given once');
    else if (name === 'cursor') cursor = text;
    else if (name === 'sort') {
      if (!SORTS.includes(text)) return bad(name, `it must be one of ${SORTS.join(', ')}`);
      sort = text as Sort;
    } else if (name === 'limit') {
      limit = /^\d{1,3}$/.test(text) ? Number(text) : 0;
      if (limit < 1 || limit > MAX_PAGE) return bad(name, `it must be a whole number from 1 to ${MAX_PAGE}`);
    } else {
      const problem = addFilter(name, text, draft);
      if (problem !== null) return bad(name, problem);
    }
  }
  if (draft.notes.length > 0) draft.where.push(inNotes(draft.notes));
  const { cursor: _, limit: __, ...filters } = query;
  return ok({
    where: draft.where,
    params: draft.params,
    sort,
    limit,
    cursor,
    key: JSON.stringify(
      Object.keys(filters)
        .toSorted()
        .map((name) => [name, filters[name]]),
    ),
  });
}

function bad(name: string, what: string): Result<never> {
  return fail('invalid_filter', `the parameter ${JSON.stringify(name.slice(0, 80))} cannot be used: ${what}`, name);
}

/** Adds one filter; what is wrong with it, or null. */
function addFilter(name: string, text: string, { where, params, notes }: Draft): string | null {
  if (TEXTS[name] !== undefined) {
    where.push(`${TEXTS[name]} = {${name}:String}`);
    params[name] = text;
  } else if (NUMBERS[name] !== undefined) {
    const value = Number(text);
    if (text.trim() === '' || !Number.isFinite(value)) return 'it must be a number';
    where.push(`${NUMBERS[name]} {${name}:Float64}`);
    params[name] = value;
  } else if (FLAGS[name] !== undefined) {
    if (!/^(true|false|1|0)$/i.test(text)) return 'it must be true or false';
    where.push(/^(true|1)$/i.test(text) ? FLAGS[name] : `NOT ${FLAGS[name]}`);
  } else if (TIMES[name] !== undefined) {
    const micros = microsOfIso(text);
    if (micros === null) return 'it must be a time with a zone, as 2026-01-31T12:00:00Z';
    where.push(`${TIMES[name]} {${name}:Int64}`);
    params[name] = micros;
  } else if (name.startsWith('context.')) {
    const at = notes.length;
    notes.push(`JSONExtractString(extra, 'context', {context_key_${at}:String}) = {context_value_${at}:String}`);
    params[`context_key_${at}`] = name.slice('context.'.length);
    params[`context_value_${at}`] = text;
  } else if (name === 'outcome' || name === 'model_provider') return 'Tapedeck does not record it';
  else return 'there is no such filter';
  return null;
}

function addUploads(value: unknown, { params, notes }: Draft): void {
  params['uploads'] = Array.isArray(value) ? value.map(String) : [String(value)];
  notes.push("JSONExtractString(extra, 'upload') IN {uploads:Array(String)}");
}

function inNotes(conditions: readonly string[]): string {
  return `(t.run, t.rollout) IN (SELECT run, rollout FROM notes FINAL WHERE project = {project:String} AND label = {label:String} AND ${conditions.join(' AND ')})`;
}

/** Where a page ended: the sort key and the trace, tied to the filters. */
export type Place = { readonly value: number; readonly run: string; readonly rollout: string; readonly trace: string };

export function cursorOf({ value, run, rollout, trace }: Place, key: string): string {
  // JSON has no infinity
  return Buffer.from(JSON.stringify([String(value), run, rollout, trace, key])).toString('base64url');
}

/** Problems are `invalid_cursor`. */
export function placeOf(cursor: string, key: string): Result<Place> {
  try {
    const parts = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as unknown;
    if (Array.isArray(parts) && parts.length === 5 && parts.every((part) => typeof part === 'string') && parts[4] === key) {
      const [value, run, rollout, trace] = parts as [string, string, string, string, string];
      if (!Number.isNaN(Number(value))) return ok({ value: Number(value), run, rollout, trace });
    }
  } catch {
    // not ours
  }
  return fail('invalid_cursor', 'the cursor is none of this server, or it belongs to other filters; begin again without it', 'cursor');
}
