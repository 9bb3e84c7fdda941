/** What trainers and teachers say. */
import type { Block } from './block.ts';
import { jsonText } from './json-text.ts';
import { keysOf, positionOf, type StoredOf } from './stored-event.ts';

/** Bits of `trainer_annotations._streams`. */
export const ANNOTATION_STREAMS = { trainer_logprobs: 1, entropies: 2, is_masked: 4 } as const;

export function projectPolicy(stored: StoredOf<'policy.published'>, out: Block): void {
  const { event } = stored;
  const { project, run } = keysOf(event);
  const { version, step, uri, trainer, timeline, extra } = event.data;
  const row = { project, run, ...positionOf(stored), id: event.id, time: event.time };
  out.policies.add({ ...row, version, timeline: timeline ?? 0, step, uri, trainer, extra: jsonText(extra) });
}

export function projectStep(stored: StoredOf<'trainer.stepped'>, out: Block): void {
  const { event } = stored;
  const { project, run } = keysOf(event);
  const { step, feed, batch, metrics, timeline, extra } = event.data;
  const row = { project, run, ...positionOf(stored), id: event.id, time: event.time };
  out.trainerSteps.add({
    ...row,
    step,
    feed: feed ?? '',
    timeline: timeline ?? 0,
    batch,
    metrics: jsonText(metrics) ?? '{}',
    extra: jsonText(extra),
  });
}

export function projectReference(stored: StoredOf<'reference.scored'>, out: Block): void {
  const { event } = stored;
  const { node, source, version, logprobs, extra } = event.data;
  const row = { ...keysOf(event), ...positionOf(stored), id: event.id, time: event.time };
  out.referenceScores.add({ ...row, node, source, version, logprobs, extra: jsonText(extra) });
}

export function projectAnnotation(stored: StoredOf<'trainer.annotated'>, out: Block): void {
  const { event } = stored;
  const { leaf, step, feed, timeline, streams, extra } = event.data;
  const { trainerLogprobs, entropies, isMasked } = streams;
  out.trainerAnnotations.add({
    ...keysOf(event),
    ...positionOf(stored),
    id: event.id,
    time: event.time,
    leaf,
    feed: feed ?? '',
    timeline: timeline ?? 0,
    step,
    _streams:
      (trainerLogprobs ? ANNOTATION_STREAMS.trainer_logprobs : 0) |
      (entropies ? ANNOTATION_STREAMS.entropies : 0) |
      (isMasked ? ANNOTATION_STREAMS.is_masked : 0),
    trainer_logprobs: trainerLogprobs,
    entropies,
    is_masked: isMasked,
    extra: jsonText(extra),
  });
}
