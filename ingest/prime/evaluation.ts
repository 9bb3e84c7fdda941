/** An evaluation is a run. What clients send about it becomes run.started and run.ended events; its state is the fold of these. Pure. */
import { fail, ok, type Result } from '../../base/result.ts';
import { compact, isList, isRecord, nameOf, omit, recordOf, textOf, type Json, type JsonRecord } from '../importers/json-value.ts';
import type { RunEvent } from './run-events.ts';

export type EvaluationStatus = 'RUNNING' | 'COMPLETED' | 'FAILED' | 'CANCELLED';
export type Ending = 'completed' | 'failed' | 'cancelled';

export type EvaluationState = {
  readonly status: EvaluationStatus;
  /** The latest metrics, from whatever said them. */
  readonly metrics: JsonRecord | null;
  /** Everything known, under the names the clients use. */
  readonly fields: JsonRecord;
  /** Microseconds. */
  readonly created: number;
  readonly ended: number | null;
};

/** Marks events that came through these routes. */
const SOURCE = 'prime.evaluation';
/** Fields with a place of their own in run.started; all others stay in its extra. */
const OWN: ReadonlySet<string> = new Set(['name', 'model_name', 'metadata', 'environments', 'tags', 'status', 'error_message']);

/** The data of run.started for what a client said when it created or changed an evaluation; fields it left out stay as they are. Problems name the field. */
export function startedData(body: JsonRecord): Result<JsonRecord> {
  const { name, model_name: model, metadata, environments, tags, metrics } = body;
  const missing = (value: Json | undefined): value is null | undefined => value === undefined || value === null;
  if (!missing(name) && nameOf(name) === null) return fail('invalid_value', 'name must have 1 to 1024 characters', 'name');
  if (!missing(model) && nameOf(model) === null) return fail('invalid_value', 'model_name must have 1 to 1024 characters', 'model_name');
  if (!missing(metadata) && !isRecord(metadata)) return fail('wrong_type', 'metadata must be an object', 'metadata');
  if (!missing(metrics) && !isRecord(metrics)) return fail('wrong_type', 'metrics must be an object', 'metrics');
  if (!missing(environments) && !(isList(environments) && environments.every(isRecord)))
    return fail('wrong_type', 'environments must be a list of objects', 'environments');
  if (!missing(tags) && !(isList(tags) && tags.length <= 256 && tags.every((tag) => typeof tag === 'string' && tag.length <= 256)))
    return fail('invalid_value', 'tags must be at most 256 texts of at most 256 characters', 'tags');
  const rest = omit(body, OWN);
  return ok(
    compact({
      kind: 'eval',
      name: nameOf(name) ?? undefined,
      model: nameOf(model) ?? undefined,
      config: missing(metadata) ? undefined : metadata,
      envs: missing(environments) ? undefined : environments,
      tags: missing(tags) ? undefined : tags,
      extra: compact({ source: SOURCE, evaluation: Object.keys(rest).length > 0 ? rest : undefined }),
    }),
  );
}

/** The data of run.ended. */
export function endedData(status: Ending, ended: number, metrics: JsonRecord | null, errorMessage?: string): JsonRecord {
  return compact({
    status,
    ended,
    metrics: metrics ?? undefined,
    extra: compact({ source: SOURCE, errorMessage }),
  });
}

const STATUS: Readonly<Record<string, EvaluationStatus>> = { completed: 'COMPLETED', failed: 'FAILED', cancelled: 'CANCELLED' };

/** Null when the run never said anything: there is no such evaluation. */
export function foldEvaluation(events: readonly RunEvent[]): EvaluationState | null {
  const [first] = events;
  if (first === undefined) return null;
  let state: EvaluationState = { status: 'RUNNING', metrics: null, fields: {}, created: first.time, ended: null };
  for (const { type, time, data } of events) {
    const rest = recordOf(recordOf(data['extra'])?.['evaluation']) ?? {};
    if (type === 'run.started') {
      const fields = compact({
        name: data['name'],
        model_name: data['model'],
        metadata: data['config'],
        environments: data['envs'],
        tags: data['tags'],
        ...rest,
      });
      state = { ...state, fields: { ...state.fields, ...fields }, metrics: recordOf(rest['metrics']) ?? state.metrics };
      continue;
    }
    const message = textOf(recordOf(data['extra'])?.['errorMessage']);
    state = {
      ...state,
      status: STATUS[textOf(data['status']) ?? ''] ?? state.status,
      ended: typeof data['ended'] === 'number' ? data['ended'] : time,
      metrics: recordOf(data['metrics']) ?? state.metrics,
      fields: message === null ? state.fields : { ...state.fields, error_message: message },
    };
  }
  return state;
}

/** How clients read an evaluation. */
export function evaluationAnswer(id: string, state: EvaluationState, viewerUrl: string): JsonRecord {
  const { status, metrics, fields, created, ended } = state;
  const environments = isList(fields['environments']) ? fields['environments'] : [];
  return compact({
    ...fields,
    evaluation_id: id,
    name: fields['name'] ?? id,
    status,
    environment_ids: environments.flatMap((environment) => textOf(recordOf(environment)?.['id']) ?? []),
    tags: fields['tags'] ?? [],
    metrics,
    created_at: isoTime(created),
    finalized_at: ended === null ? null : isoTime(ended),
    viewer_url: viewerUrl,
  });
}

/** Microseconds as ISO 8601 in UTC. */
export function isoTime(micros: number): string {
  return new Date(Math.floor(micros / 1000)).toISOString().replace('Z', `${String(micros % 1000).padStart(3, '0')}Z`);
}
