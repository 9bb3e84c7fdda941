/**
 * What the generations of verifiers v0 rows have in common, read from any of them. Pure. Generations differ in names (id, example_id), in nesting (flat
 * *_ms or `timing`), and in encoding: tool calls as JSON strings; hosted training rows have whole columns as JSON strings with strings inside.
 */
import { ByteWriter } from '../../base/byte-writer.ts';
import type { Warning } from './event-list.ts';
import { compact, isList, isRecord, numberOf, recordOf, sameJson, textOf, type Json, type JsonRecord } from './json-value.ts';
import { writeJson } from './json-text.ts';
import { microsOf, microsOfIso } from './micros.ts';
import { innerJson } from './read-json.ts';
import { spanFrom } from './verifiers-parts.ts';

/** One message and, when its tool calls were rewritten to `{id, name, arguments}`, how they stood in the file. */
export type RowMessage = { readonly message: JsonRecord; readonly sampled: boolean; readonly original?: Json };

/** Rows of hosted training runs: they name their run and sample, and hold JSON in strings. */
export function isHosted(row: JsonRecord): boolean {
  return typeof row['run_id'] === 'string' && Object.hasOwn(row, 'sample_id');
}

/** A column; in hosted rows a string that holds an object or a list stands for that, and "" for nothing. */
export function columnOf(row: JsonRecord, name: string): Json | undefined {
  const value = row[name];
  if (typeof value !== 'string' || !isHosted(row)) return value;
  if (value === '') return undefined;
  if (!/^\s*[[{]/.test(value)) return value;
  return innerJson(value) ?? value;
}

/** Prompt and completion as one list. Text instead of a list (base models) is one message. */
export function messagesOf(row: JsonRecord, warn: (warning: Warning) => void): RowMessage[] {
  const prompt = listOf(columnOf(row, 'prompt'), 'prompt', 'user', warn).map((message) => ({ message, sampled: false }));
  const completion = listOf(columnOf(row, 'completion'), 'completion', 'assistant', warn);
  const answers = completion.map((message) => ({ message, sampled: message['role'] === 'assistant' }));
  return [...prompt, ...answers].map(({ message, sampled }) => withToolCalls(message, sampled, warn));
}

function listOf(value: Json | undefined, field: string, role: string, warn: (warning: Warning) => void): JsonRecord[] {
  if (value === undefined || value === null) return [];
  if (typeof value === 'string') return [{ role, content: value }];
  if (!isList(value)) {
    warn({ field, message: 'neither messages nor text: kept as one message of unknown role' });
    return [{ role: 'unknown', content: value }];
  }
  return value.map((item) => {
    if (isRecord(item)) return item;
    warn({ field, message: 'a message that is no object: kept with unknown role' });
    return { role: 'unknown', content: item };
  });
}

function withToolCalls(message: JsonRecord, sampled: boolean, warn: (warning: Warning) => void): RowMessage {
  const calls = message['tool_calls'];
  if (!isList(calls)) return { message, sampled };
  const plain = calls.map((call) => toolCallOf(call) ?? call);
  if (plain.some((call) => !isRecord(call))) warn({ field: 'completion.tool_calls', message: 'no tool call: kept as it is' });
  return sameJson(plain, calls) ? { message, sampled } : { message: { ...message, tool_calls: plain }, sampled, original: calls };
}

/** `{id, name, arguments}` from that, from OpenAI's `{id, function: {name, arguments}}`, or from either as a JSON string; null for anything else. */
function toolCallOf(call: Json): JsonRecord | null {
  const record = recordOf(typeof call === 'string' ? (innerJson(call) ?? undefined) : call);
  if (record === null) return null;
  const inner = recordOf(record['function']) ?? record;
  const args = inner['arguments'];
  const name = textOf(inner['name']);
  if (name === null) return null;
  const { function: _, ...others } = record;
  return { ...others, id: textOf(record['id']) ?? '', name, arguments: typeof args === 'string' ? args : jsonText(args ?? null) };
}

export function jsonText(value: Json, options: { sortKeys?: boolean } = {}): string {
  const out = new ByteWriter();
  writeJson(value, out, options);
  return out.view().toString();
}

export type RowTimes = {
  readonly started: number | null;
  readonly ended: number | null;
  /** When the row was written, where it says so. */
  readonly created: number | null;
  /** Stages in microseconds, durations in milliseconds as they were given. */
  readonly timing: JsonRecord;
};
const STAGES = ['setup', 'generation', 'scoring'] as const;
const DURATIONS = [['generation_ms', 'generationMs'], ['scoring_ms', 'scoringMs'], ['total_ms', 'totalMs']] as const; // prettier-ignore
export const FLAT_TIMES: readonly string[] = DURATIONS.map(([name]) => name);

/** Only times with an epoch or a zone are instants; `date` of metadata.json has neither. */
export function timesOf(row: JsonRecord): RowTimes {
  const timing = recordOf(columnOf(row, 'timing')) ?? {};
  const stages = STAGES.map((stage) => [stage, spanFrom(timing[stage])] as const);
  const durations = DURATIONS.map(([theirs, ours]) => [ours, numberOf(row[theirs]) ?? numberOf(timing[theirs])] as const);
  const started = microsOf(numberOf(timing['start_time']));
  const ends = stages.map(([, span]) => numberOf(span?.['end'])).filter((end) => end !== null);
  return {
    started,
    ended: ends.length > 0 ? Math.max(...ends) : null,
    created: microsOfIso(textOf(row['created_at']) ?? ''),
    timing: compact({ ...Object.fromEntries(stages), ...Object.fromEntries(durations.map(([key, ms]) => [key, ms ?? undefined])) }),
  };
}

/** The error of a row as an event's data, or null: a repr string ("TypeError('x')") or an object. */
export function errorOf(error: Json | undefined): JsonRecord | null {
  if (error === undefined || error === null) return null;
  if (typeof error === 'string') return { type: /^([A-Za-z_][\w.]{0,199})\(/.exec(error)?.[1] ?? 'error', message: error };
  const record = recordOf(error);
  if (record === null) return { type: 'error', message: jsonText(error), extra: { verifiers: error } };
  const type = textOf(record['error']);
  const chain = textOf(record['error_chain_str']);
  return compact({
    type: type === null || type === '' || type.length > 1024 ? 'error' : type,
    message: textOf(record['message']) ?? chain ?? '',
    traceback: chain ?? undefined,
    extra: { verifiers: record },
  });
}
