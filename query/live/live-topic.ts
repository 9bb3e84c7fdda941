/** What a follower wants to hear of: a run, a rollout, a trace or a feed, or the states of all runs. */
import { TapedeckError } from '../../base/errors.ts';
import { entityId } from '../../events/fields.ts';

export const TOPIC_KINDS = ['run', 'rollout', 'trace', 'feed'] as const;
export type TopicKind = (typeof TOPIC_KINDS)[number] | 'runs';
export type LiveTopic = { readonly kind: TopicKind; readonly id: string };

/** `run:<id>`, `rollout:<id>`, `trace:<id>`, `feed:<id>` or `runs`; everything behind the first colon is the id. */
export function readTopic(text: string): LiveTopic {
  if (text === 'runs') return { kind: 'runs', id: '' };
  const colon = text.indexOf(':');
  const kind = TOPIC_KINDS.find((each) => each === text.slice(0, Math.max(colon, 0)));
  const id = entityId.safeParse(text.slice(colon + 1));
  if (kind === undefined || !id.success) {
    throw new TapedeckError('bad_request', `topic: ${JSON.stringify(text.slice(0, 100))} is none of runs, run:<id>, rollout:<id>, trace:<id>, feed:<id>`);
  }
  return { kind, id: id.data };
} // prettier-ignore

export function topicText({ kind, id }: LiveTopic): string {
  return kind === 'runs' ? 'runs' : `${kind}:${id}`;
}

/** The name under which events find a topic. */
export function topicKey(project: string, { kind, id }: LiveTopic): string {
  return JSON.stringify([project, kind, id]);
}
