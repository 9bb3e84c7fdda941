/** A whole training run in one process: a player and a trainer that know each other through the server only, but for the weights, which they share in memory. */
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import { withLinkedSignal } from '../../base/linked-signal.ts';
import { seededRandom, type Random } from '../../base/random.ts';
import { createRecorder, type Recorder } from '../../harness-sdk/index.ts';
import { ENVIRONMENTS } from './environments.ts';
import { feedClient } from './feed-client.ts';
import { dppoKl } from './loss.ts';
import { MODEL, type Policy } from './play.ts';
import { GROUP_SIZE, playGroups, type Played } from './player.ts';
import { firstStanding, type Standing } from './standing.ts';
import { train, type Stepped } from './trainer.ts';
import { weightsFolder } from './weights-folder.ts';

export const BATCH = 32;
const RATE = 0.1;
/** The oldest token of a row may be so many steps behind, which is how far the player may be ahead of the trainer. */
export const MAX_OFF_POLICY_STEPS = 2;
/** Groups of each environment over which the mean reward is taken. */
export const RECENT_GROUPS = 10;

export type LessonOptions = {
  readonly url: string;
  /** Id of the run, and name of the feed. */
  readonly run: string;
  readonly seed: number;
  /** Where it begins; it counts from there on. */
  readonly standing?: Standing;
  readonly maxSteps: number;
  readonly maxRollouts: number;
  /** Ends it early once the mean reward of each environment was above this lately. */
  readonly goal: number;
  readonly shuffled: boolean;
  /** Folder of the weights that a trainer elsewhere writes (train.py); null = it trains here. */
  readonly weights: string | null;
  /** Before each rollout. */
  readonly pace: () => Promise<void>;
  /** Called with each step before its commit. */
  readonly save?: (standing: Standing) => void;
  readonly onStep?: (stepped: Stepped, lately: ReadonlyMap<string, number>) => void;
  /** Stops it after the group under way; what was played is recorded. */
  readonly signal: AbortSignal;
  /** Asked when it was stopped: whether nobody will go on with it. Its run ends as cancelled then, else it is left open. */
  readonly isFinal: () => boolean;
};
export type Lesson = {
  readonly standing: Standing;
  /** Mean reward of the last groups, by environment. */
  readonly lately: ReadonlyMap<string, number>;
  readonly learnt: boolean;
};

export function feedSpec(run: string): unknown {
  return {
    runs: [run],
    maxRowTokens: 64,
    batch: { by: 'rollouts', size: BATCH },
    // a group is played within seconds: one whose player was killed must not hold the others up for long
    group: { size: GROUP_SIZE, deadlineSeconds: 120 },
    rolloutExpirySeconds: 60,
    staleness: { maxOffPolicySteps: MAX_OFF_POLICY_STEPS },
  };
}

/**
 * The player ends first, when the goal is reached or one of the limits; the trainer goes on to the end of the feed. Throws when the server refuses what was played (its run was
 * deleted), or a request.
 */
export async function learn(options: LessonOptions, deps: { readonly clock: Clock; readonly random: Random }): Promise<Lesson> {
  const broken = new AbortController();
  await using recorder = createRecorder({
    url: options.url,
    producer: 'learning',
    onRejected: ([first]) => broken.abort(new TapedeckError('aborted', `the server refuses what is played: ${first?.message ?? ''}`)),
  });
  // awaited here, or the recorder would be closed at once
  return await withLinkedSignal([options.signal, broken.signal], async (signal) => {
    const { playing, training, outcome } = await attend({ ...options, signal }, recorder, deps);
    // when one of the two fails, the other ends too
    const fail = (error: unknown): void => {
      if (!signal.aborted) broken.abort(error);
    };
    await Promise.all([playing.catch(fail), training.catch(fail)]);
    broken.signal.throwIfAborted();
    return outcome();
  });
}

/** Ends a run that was left open and is not gone on with. */
export async function cancelRun(url: string, id: string): Promise<void> {
  await using recorder = createRecorder({ url, producer: 'learning' });
  recorder.run({ id }).end({ status: 'cancelled' });
  await recorder.flush();
}

type Attendance = { readonly playing: Promise<void>; readonly training: Promise<void>; readonly outcome: () => Lesson };

async function attend(
  options: LessonOptions,
  recorder: Recorder,
  deps: { readonly clock: Clock; readonly random: Random },
): Promise<Attendance> {
  const { url, run: id, seed, maxSteps, maxRollouts, goal, signal } = options;
  let standing = options.standing ?? firstStanding();
  const { session } = standing;
  const feed = feedClient({ url, feed: id, run: id, holder: 'learning' }, { ...deps, signal });
  const run = recorder.run({
    id,
    kind: 'train',
    name: id,
    model: MODEL,
    envs: ENVIRONMENTS.map((env) => ({ id: env.id })),
    config: { seed },
  });
  await feed.create(feedSpec(id));
  const lately = meansOf(RECENT_GROUPS);
  const enough = new AbortController();

  const elsewhere = options.weights === null ? null : weightsFolder(options.weights, feed);
  const latestPolicy = async (): Promise<Policy> => {
    if (elsewhere !== null) standing = { ...standing, policy: await elsewhere() };
    return standing.policy;
  };
  const play = (stopped: AbortSignal): Promise<void> =>
    playGroups(
      {
        run,
        recorder,
        feed,
        environments: ENVIRONMENTS,
        groupPrefix: `${id}/${session}`,
        latestPolicy,
        pace: options.pace,
        onGroup: (played) => {
          standing = { ...standing, rollouts: standing.rollouts + GROUP_SIZE };
          lately.add(played);
          if (lately.allAbove(goal) || standing.rollouts >= maxRollouts || standing.policy.version >= maxSteps) enough.abort();
        },
        maxGroups: Infinity,
        signal: stopped,
      },
      { clock: deps.clock, random: seededRandom(seed + session) },
    );

  const playing = async (): Promise<void> => {
    try {
      await withLinkedSignal([signal, enough.signal], play);
    } finally {
      if (!signal.aborted) run.end({ status: enough.signal.aborted ? 'completed' : 'failed' });
      else if (options.isFinal()) run.end({ status: 'cancelled' });
    }
  };
  const training =
    elsewhere !== null
      ? Promise.resolve()
      : train({
          feed,
          policy: standing.policy,
          adam: standing.adam,
          checkpoint: standing.checkpoint,
          loss: dppoKl,
          rate: RATE,
          shuffle: options.shuffled ? seededRandom(seed + 1) : null,
          save: ({ policy, adam, checkpoint }) => options.save?.({ ...standing, policy, adam, checkpoint }),
          onStep: (stepped) => {
            const { policy, adam, checkpoint } = stepped;
            standing = { ...standing, policy, adam, checkpoint };
            options.onStep?.(stepped, lately.means());
            if (policy.version >= maxSteps) enough.abort();
          },
          signal,
        });
  return {
    playing: playing(),
    training,
    outcome: () => ({ standing: { ...standing, done: !signal.aborted }, lately: lately.means(), learnt: lately.allAbove(goal) }),
  };
}

/** Mean rewards of the last groups of each environment. */
function meansOf(length: number) {
  const rewards = new Map<string, number[]>();
  const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length;
  return {
    add: ({ env, reward }: Played): void => void rewards.set(env, [...(rewards.get(env) ?? []), reward].slice(-length)),
    means: (): ReadonlyMap<string, number> => new Map([...rewards].map(([env, values]) => [env, mean(values)])),
    allAbove: (goal: number): boolean =>
      rewards.size === ENVIRONMENTS.length && [...rewards.values()].every((values) => values.length === length && mean(values) > goal),
  };
}
