/**
 * Carries the scoring of one trace by a teacher out: each path is read whole, verbatim, and the values of sampled tokens are cut out of the answer. The first score of a node
 * counts: what stands before it is the same in every path.
 */
import { hash } from 'node:crypto';
import { uuidV8 } from '../../base/uuid.ts';
import { PackedArray } from '../../events/packed-array.ts';
import type { BoundAlgorithm } from '../algorithms/algorithm.ts';
import type { LoadColumns, LoadedColumns } from '../groups/member-trace.ts';
import { referenceKey, type NodeFact } from '../groups/rollout-facts.ts';
import type { ScoreEvent } from './append-scores.ts';
import type { ReferenceTask } from './owed.ts';
import { hintIds, teacherScores } from './teacher.ts';
import { failed, type Scored, type ScoringUpstreams } from './upstream.ts';

/** One path with its columns, copied out of the row file when the work is taken up. */
type LoadedPath = { readonly nodes: readonly NodeFact[]; readonly columns: readonly LoadedColumns[]; readonly ids: Uint32Array };
export type LoadedReferenceTask = ReferenceTask & { readonly loaded: readonly LoadedPath[]; readonly bytes: number };

export function loadReferenceTask(task: ReferenceTask, load: LoadColumns): LoadedReferenceTask {
  const loaded = task.paths.map((nodes): LoadedPath => {
    const columns = nodes.map(({ tokens }) => {
      if (tokens === null || tokens.at === null) throw new Error('a path to score has a node without tokens');
      return load.tokens(tokens.at, tokens.length, tokens.masked);
    });
    const ids = new Uint32Array(columns.reduce((sum, each) => sum + each.ids.length, 0));
    let at = 0;
    for (const each of columns) {
      ids.set(each.ids, at);
      at += each.ids.length;
    }
    return { nodes, columns, ids };
  });
  return { ...task, loaded, bytes: loaded.reduce((sum, { ids }) => sum + ids.byteLength * 4, 0) };
}

export type TeacherContext = {
  readonly project: string;
  readonly algorithm: BoundAlgorithm;
  /** `source` of the events. */
  readonly source: string;
  /** The newest published version: what a policy that says nothing of itself is taken for. */
  readonly policyVersion: number | null;
  readonly upstreams: ScoringUpstreams;
};

export async function scoreReferences(
  task: LoadedReferenceTask,
  { project, algorithm, source, policyVersion, upstreams }: TeacherContext,
  signal: AbortSignal,
): Promise<Scored<readonly ScoreEvent[]>> {
  const isSelf = algorithm.needsDemonstration;
  const named = algorithm.params[isSelf ? 'upstream' : 'teacher'];
  const upstream = upstreams.find(typeof named === 'string' ? named : null);
  if (!upstream.ok) return upstream;
  const own = [...task.trace.calls.values()].find(({ tokenizerHash }) => tokenizerHash !== null)?.tokenizerHash ?? null;
  const theirs = upstream.value.tokenizerHash ?? null;
  if (own !== null && theirs !== null && own !== theirs) {
    return failed(
      'tokenizer_mismatch',
      `trace ${task.trace.trace} was made with tokenizer ${own}, upstream ${upstream.value.name} has ${theirs}`,
    );
  }
  const wanted = algorithm.params['model'];
  const model = await upstreams.modelOf(upstream.value, typeof wanted === 'string' ? wanted : null, signal);
  if (!model.ok) return model;
  const ask = { upstreams, upstream: upstream.value, model: model.value, signal };
  const hint: Scored<Uint32Array> = isSelf ? await hintIds(hintOf(task, algorithm), ask) : { ok: true, value: new Uint32Array() };
  if (!hint.ok) return hint;
  const events = new Map<number, ScoreEvent>();
  for (const path of task.loaded) {
    const ids = new Uint32Array(hint.value.length + path.ids.length);
    ids.set(hint.value);
    ids.set(path.ids, hint.value.length);
    const scores = await teacherScores(ids, ask);
    if (!scores.ok) return scores;
    const version = scores.value.version ?? (isSelf ? (policyVersion === null ? null : String(policyVersion)) : model.value);
    const values = scores.value.logprobs.subarray(hint.value.length);
    const event = (node: number, logprobs: Float32Array): ScoreEvent => eventOf(task, { project, source, version, node, logprobs });
    const fault = cutOut(path, values, task, source, events, event);
    if (fault !== null) return fault;
  }
  return { ok: true, value: [...events.values()] };
}

function hintOf({ rollout }: ReferenceTask, { params }: BoundAlgorithm): string {
  const template = String(params['template']);
  return template.split('{demonstration}').join(rollout.start?.demonstration ?? '');
}

/** Values of the sampled tokens of each node that lacks them; a sampled token without any context has none. */
function cutOut(
  { nodes, columns }: LoadedPath,
  values: Float32Array,
  { trace }: ReferenceTask,
  source: string,
  events: Map<number, ScoreEvent>,
  event: (node: number, logprobs: Float32Array) => ScoreEvent,
): ReturnType<typeof failed> | null {
  let at = 0;
  for (const [i, node] of nodes.entries()) {
    const { mask } = columns[i] as LoadedColumns;
    if (node.sampled && !events.has(node.index) && !trace.references.has(referenceKey(node.index, source))) {
      const logprobs = new Float32Array(node.tokens?.masked ?? 0);
      let next = 0;
      for (let k = 0; k < mask.length; k++) if (mask[k] === 1) logprobs[next++] = values[at + k] as number;
      if (logprobs.some((value) => Number.isNaN(value)))
        return failed('teacher_no_context', `trace ${trace.trace} begins with a sampled token, which nothing precedes`);
      if (logprobs.length > 0) events.set(node.index, event(node.index, logprobs));
    }
    at += mask.length;
  }
  return null;
}

type Score = {
  readonly project: string;
  readonly source: string;
  readonly version: string | null;
  readonly node: number;
  readonly logprobs: Float32Array;
};

function eventOf({ rollout, trace }: ReferenceTask, { project, source, version, node, logprobs }: Score): ScoreEvent {
  const key = JSON.stringify([project, rollout.run, rollout.rollout, trace.trace, 'reference', source, node]);
  return {
    type: 'reference.scored',
    id: uuidV8(hash('sha256', key, 'buffer')),
    project,
    run: rollout.run,
    rollout: rollout.rollout,
    trace: trace.trace,
    data: { node, source, version, logprobs: PackedArray.of(logprobs) },
  };
}
