/**
 * One sample of `POST /api/v1/evaluations/{id}/samples` to the events of one rollout. Pure. A sample that carries its native episode is that episode; any other is a row
 * of verifiers v0. What a sample says beyond that goes into a note on its rollout.
 */
import { ok, type Result } from '../../base/result.ts';
import { makeEvent, type ImportedEvent, type Scope } from '../importers/event-maker.ts';
import { compact, idOf, isRecord, nameOf, omit, recordOf, sameJson, textOf, type Json, type JsonRecord } from '../importers/json-value.ts';
import { SAMPLE_LABEL } from '../importers/note-labels.ts';
import { rowEvents } from '../importers/verifiers-v0.ts';
import type { V0Run } from '../importers/verifiers-v0-run.ts';
import type { EvaluationState } from './evaluation.ts';
import { inRun, lineEvents } from './upload-line.ts';

export type MappedSample = { readonly rollout: string; readonly events: readonly ImportedEvent[]; readonly note: ImportedEvent };

export type SampleContext = {
  /** The evaluation's id. */
  readonly run: string;
  readonly evaluation: V0Run;
  /** sha256 of the request's body: with the place in it, it names samples that have no id. */
  readonly digest: Uint8Array;
};

/** Projections of the native episode, which says the same in full. */
const PROJECTED: ReadonlySet<string> = new Set([
  'prompt',
  'completion',
  'trajectory',
  'tool_defs',
  'task',
  'timing',
  'token_usage',
  'info',
]);
/** Not columns of a v0 row. */
const BESIDE: ReadonlySet<string> = new Set(['sample_id', 'run_id', 'episode_id', 'rollout_number', 'agent', 'trainable']);

export function sampleEvents(sample: Json, index: number, text: Uint8Array, context: SampleContext): Result<MappedSample> {
  const record = recordOf(sample);
  const wrapper = recordOf(recordOf(record?.['info'])?.['native_wrapper']);
  if (record !== null && wrapper !== null && Object.hasOwn(wrapper, 'traces')) return nativeSample(record, wrapper, context);
  const row = record === null ? sample : omit(record, BESIDE);
  const id = idOf(record?.['sample_id']) ?? undefined;
  const mapped = rowEvents(row, { number: index + 1, bytes: Buffer.concat([context.digest, text]), id }, context.evaluation);
  if (!mapped.ok) return mapped;
  const { rollout, events } = mapped.value;
  const beside = Object.fromEntries(Object.entries(record ?? {}).filter(([key]) => BESIDE.has(key)));
  return ok({ rollout, events, note: noteOf({ run: context.run, rollout }, 0, beside) });
}

function nativeSample(sample: JsonRecord, wrapper: JsonRecord, { run }: SampleContext): Result<MappedSample> {
  const mapped = lineEvents(inRun(wrapper, run), 'episode', {});
  if (!mapped.ok) return mapped;
  const { rollout, group, time, events } = mapped.value;
  const info = ownInfo(recordOf(sample['info']) ?? {}, wrapper);
  const beside = compact({ ...omit(sample, PROJECTED), info: Object.keys(info).length > 0 ? info : undefined });
  return ok({ rollout, events, note: noteOf({ run, group, rollout }, time, beside) });
}

/** `info` without the episode and without what is copied from one of its traces. */
function ownInfo(info: JsonRecord, wrapper: JsonRecord): JsonRecord {
  const traces = Array.isArray(wrapper['traces']) ? (wrapper['traces'] as readonly Json[]) : [];
  const copied = traces.map((trace) => recordOf(recordOf(trace)?.['info']) ?? {});
  const own = Object.entries(info).filter(
    ([key, value]) => !copied.some((source) => Object.hasOwn(source, key) && sameJson(source[key], value)),
  );
  return omit(Object.fromEntries(own), new Set(['native_wrapper', 'native_trace_index']));
}

function noteOf(scope: Scope, time: number, sample: JsonRecord): ImportedEvent {
  return makeEvent(scope, 'note.added', 'sample', time, { scope: 'rollout', label: SAMPLE_LABEL, extra: { sample } });
}

/** What rows take from their evaluation. */
export function evaluationRun(run: string, { fields }: EvaluationState, start: ImportedEvent): V0Run {
  const env = nameOf(fields['dataset']) ?? firstEnvironment(fields);
  return {
    run,
    event: start,
    env: env === null ? null : { id: env },
    model: nameOf(fields['model_name']),
    tools: undefined,
    groupSize: null,
  };
}

function firstEnvironment(fields: JsonRecord): string | null {
  const { environments } = fields;
  const first = Array.isArray(environments) ? (environments as readonly Json[])[0] : undefined;
  return isRecord(first) ? textOf(first['id']) : null;
}
