/** One line of an upload, an episode or a bare trace, to the events of one rollout. Pure. */
import { fail, type Result } from '../../base/result.ts';
import { idOf, isRecord, itemsOf, omit, recordOf, sameJson, textOf, type Json, type JsonRecord } from '../importers/json-value.ts';
import { episodeEvents, type Imported, type ImportOptions } from '../importers/verifiers-v1.ts';

export type LineFormat = 'episode' | 'trace';

/** The format that `X-Prime-Line-Format` names; clients leave it out for traces. */
export function lineFormatOf(header: string | undefined): Result<LineFormat> {
  if (header === undefined || header === 'trace') return { ok: true, value: 'trace' };
  if (header === 'episode') return { ok: true, value: 'episode' };
  return fail(
    'line_format_mismatch',
    `X-Prime-Line-Format ${JSON.stringify(header.slice(0, 40))} is not known; send episode, or nothing for traces`,
  );
}

/** The events of a line, and the ids of its traces. */
export type MappedLine = Imported & { readonly traces: readonly string[] };

/**
 * Maps one line. A bare trace becomes a rollout of its own with the trace's id. Problems: `line_format_mismatch` when the line is not of the announced format, else
 * those of `episodeEvents`.
 */
export function lineEvents(line: Json, format: LineFormat, options: ImportOptions): Result<MappedLine> {
  if (!isRecord(line)) return fail('wrong_type', `${format === 'episode' ? 'an episode' : 'a trace'} must be an object`);
  const isEpisode = Object.hasOwn(line, 'traces');
  if (isEpisode !== (format === 'episode')) {
    const said = isEpisode
      ? 'this is an episode, and the upload announces traces'
      : 'this is no episode (traces is missing), and the upload announces episodes';
    return fail('line_format_mismatch', `${said}; set X-Prime-Line-Format`, 'traces');
  }
  if (!isEpisode && !Array.isArray(line['nodes'])) return fail('missing_field', 'nodes is missing: this is no trace', 'nodes');
  const mapped = episodeEvents(isEpisode ? withoutStamps(line) : withoutStamps(episodeAround(line)), options);
  if (!mapped.ok) return mapped;
  const members = itemsOf(isEpisode ? line['traces'] : [line]);
  return { ok: true, value: { ...mapped.value, traces: members.flatMap((trace) => textOf(recordOf(trace)?.['id']) ?? []) } };
}

/** The uploader copies the episode's run onto every member; that copy says nothing new, and without it a file and its upload give the same events. */
function withoutStamps(episode: JsonRecord): JsonRecord {
  const traces = episode['traces'];
  if (!Array.isArray(traces)) return episode;
  return { ...episode, traces: (traces as readonly Json[]).map((trace) => withoutStamp(trace, episode['run'])) };
}

function withoutStamp(trace: Json, run: Json | undefined): Json {
  return isRecord(trace) && Object.hasOwn(trace, 'run') && sameJson(trace['run'], run) ? omit(trace, STAMP) : trace;
}
const STAMP: ReadonlySet<string> = new Set(['run']);

function episodeAround(trace: JsonRecord): JsonRecord {
  const head = ['env', 'task', 'group', 'run', 'ok']
    .filter((key) => Object.hasOwn(trace, key))
    .map((key) => [key, trace[key] as Json] as const);
  return { id: trace['id'] as Json, ...Object.fromEntries<Json>(head), errors: [], traces: [trace] };
}

/** The episode keyed to `run`, whatever run its producer recorded there; its name and its work stay. */
export function inRun(episode: JsonRecord, run: string): JsonRecord {
  return idOf(recordOf(episode['run'])?.['id']) === run
    ? episode
    : { ...episode, run: { type: 'eval', ...recordOf(episode['run']), id: run } };
}
