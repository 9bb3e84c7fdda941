/** Carries a comparison out: the events that give each member its reward, with what they rest on. */
import { bradleyTerry } from '../algorithms/group-rewards/bradley-terry.ts';
import { conciseness } from '../algorithms/group-rewards/conciseness.ts';
import type { GroupReward, Judgement } from '../algorithms/group-rewards/group-reward.ts';
import { winRate } from '../algorithms/group-rewards/win-rate.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { scoresOf } from '../groups/scores.ts';
import type { ScoreEvent } from './append-scores.ts';
import { judgePairs, type JudgeSpec } from './judge.ts';
import type { ComparedTrace, RewardTask } from './owed.ts';
import { shownOf } from './transcript.ts';
import type { Scored, ScoringUpstreams } from './upstream.ts';

type Ports = { readonly events: EventLog; readonly blobs: BlobStore; readonly upstreams: ScoringUpstreams };

/** Rejects only when the signal aborts, or the log or the blob store cannot be read. */
export async function compareMembers(
  task: RewardTask,
  project: string,
  ports: Ports,
  signal: AbortSignal,
): Promise<Scored<readonly ScoreEvent[]>> {
  const { spec, traces } = task;
  if (spec.kind === 'conciseness') {
    const members = traces.map((each) => ({ correctness: correctnessOf(each, spec.on), length: sampledTokens(each) }));
    return { ok: true, value: eventsOf(task, project, conciseness(members, spec), null) };
  }
  const judged = await judge(spec, traces, ports, signal);
  if (!judged.ok) return judged;
  const reward = spec.kind === 'pairwise' ? winRate(traces.length, judged.value) : bradleyTerry(traces.length, judged.value);
  return { ok: true, value: eventsOf(task, project, reward, judged.value) };
}

async function judge(
  spec: JudgeSpec,
  traces: readonly ComparedTrace[],
  { events, blobs, upstreams }: Ports,
  signal: AbortSignal,
): Promise<Scored<readonly Judgement[]>> {
  const texts: string[] = [];
  let prompt: string | null = null;
  for (const { rollout, facts } of traces) {
    const shown = await shownOf(rollout, facts, { events, blobs }, signal);
    if (!shown.ok) return shown;
    prompt ??= shown.value.prompt;
    texts.push(spec.show === 'answer' ? shown.value.answer : shown.value.transcript);
  }
  return judgePairs(spec, prompt ?? '', texts, upstreams, signal);
}

/** The named reward, or the sum of score x weight of all; null where nothing was measured. */
function correctnessOf({ rollout, trace }: ComparedTrace, on: string | null): number | null {
  const scores = scoresOf(rollout, trace).filter(({ name, score }) => score !== null && (on === null || name === on));
  if (scores.length === 0) return null;
  return scores.reduce((sum, { score, weight }) => sum + (score as number) * (on === null ? weight : 1), 0);
}

function sampledTokens({ facts }: ComparedTrace): number {
  let length = 0;
  for (const { sampled, tokens } of facts.nodes.values()) if (sampled) length += tokens?.masked ?? 0;
  return length;
}

function eventsOf(
  { spec, version, traces }: RewardTask,
  project: string,
  reward: GroupReward,
  judged: readonly Judgement[] | null,
): ScoreEvent[] {
  return traces.map(({ rollout, trace, eventId }, i) => ({
    type: 'reward.assigned',
    id: eventId,
    project,
    run: rollout.run,
    rollout: rollout.rollout,
    trace,
    data: {
      scope: 'trace',
      name: spec.name,
      score: reward.scores[i] ?? null,
      weight: spec.weight,
      source: { kind: judged === null ? 'code' : 'model', name: spec.kind, version: String(version) },
      ...(judged === null ? {} : { extra: { judged: judged.flatMap((one) => ownView(one, i, traces)) } }),
    },
  }));
}

/** A comparison as one of its members had it: against whom, shown where, and what came of it. */
function ownView({ first, second, verdict }: Judgement, i: number, traces: readonly ComparedTrace[]): object[] {
  if (i !== first && i !== second) return [];
  const isFirst = i === first;
  const outcome = verdict === 'tie' ? 'tie' : (verdict === 'first') === isFirst ? 'won' : 'lost';
  return [{ against: traces[isFirst ? second : first]?.trace, shown: isFirst ? 'first' : 'second', outcome }];
}
