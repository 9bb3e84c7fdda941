/** A whole training run in one process: a player and a trainer that know each other through the server only, but for the weights, which they share in memory. */
import type { Clock } from '../../base/clock.ts';
import { seededRandom, type Random } from '../../base/random.ts';
import { createRecorder } from '../../harness-sdk/index.ts';
import { startAdam } from './adam.ts';
import { ENVIRONMENTS } from './environments.ts';
import { feedClient } from './feed-client.ts';
import { dppoKl } from './loss.ts';
import { MODEL, type Policy } from './play.ts';
import { GROUP_SIZE, playGroups, type Played } from './player.ts';
import { firstWeights, WEIGHTS } from './policy.ts';
import { train, type Stepped } from './trainer.ts';

export const BATCH = 32;
const RATE = 0.1;
/** The oldest token of a row may be so many steps behind, which is how far the player may be ahead of the trainer. */
export const MAX_OFF_POLICY_STEPS = 2;
/** Groups over which the mean reward is taken: about the last 10 of each environment. */
const RECENT_GROUPS = 10;

export type LessonOptions = {
  readonly url: string;
  /** Id of the run, and name of the feed. */
  readonly run: string;
  readonly seed: number;
  readonly maxSteps: number;
  readonly maxRollouts: number;
  /** Ends it early once the mean reward of each environment was above this lately. */
  readonly goal: number;
  readonly shuffled: boolean;
  readonly pace: () => Promise<void>;
  readonly onStep: (stepped: Stepped, lately: ReadonlyMap<string, number>) => void;
  readonly signal: AbortSignal;
};
export type Lesson = {
  readonly steps: number;
  readonly rollouts: number;
  readonly lately: ReadonlyMap<string, number>;
  readonly learnt: boolean;
};

export function feedSpec(run: string): unknown {
  return {
    runs: [run],
    maxRowTokens: 64,
    batch: { by: 'rollouts', size: BATCH },
    group: { size: GROUP_SIZE },
    staleness: { maxOffPolicySteps: MAX_OFF_POLICY_STEPS },
  };
}

/** The player ends first; the trainer goes on to the end of the feed, unless `signal` stops both. */
export async function learn(options: LessonOptions, deps: { readonly clock: Clock; readonly random: Random }): Promise<Lesson> {
  const { url, run: id, seed, maxSteps, maxRollouts, goal, signal } = options;
  const { clock } = deps;
  const feed = feedClient({ url, feed: id, run: id, holder: 'learning' }, { ...deps, signal });
  await using recorder = createRecorder({ url, producer: 'learning' });
  const run = recorder.run({
    id,
    kind: 'train',
    name: id,
    model: MODEL,
    envs: ENVIRONMENTS.map((env) => ({ id: env.id })),
    config: { seed },
  });
  await feed.create(feedSpec(id));
  let policy: Policy = { version: 0, weights: firstWeights() };
  let rollouts = 0;
  const lately = meansOf(RECENT_GROUPS);
  const enough = new AbortController();
  const stopPlaying = (): void => enough.abort();
  signal.addEventListener('abort', stopPlaying, { once: true });

  const playing = playGroups(
    {
      run,
      recorder,
      feed,
      environments: ENVIRONMENTS,
      latestPolicy: async () => policy,
      pace: options.pace,
      onGroup: (played) => {
        rollouts += GROUP_SIZE;
        lately.add(played);
        if (lately.allAbove(goal)) stopPlaying();
      },
      maxGroups: Math.ceil(maxRollouts / GROUP_SIZE),
      signal: enough.signal,
    },
    { clock, random: seededRandom(seed) },
  ).finally(() => run.end({ status: signal.aborted ? 'cancelled' : 'completed' }));

  const training = train({
    feed,
    policy,
    adam: startAdam(WEIGHTS),
    checkpoint: null,
    loss: dppoKl,
    rate: RATE,
    shuffle: options.shuffled ? seededRandom(seed + 1) : null,
    onStep: (stepped) => {
      ({ policy } = stepped);
      options.onStep(stepped, lately.means());
      if (policy.version >= maxSteps) stopPlaying();
    },
    signal,
  });
  await Promise.all([playing, training]);
  signal.removeEventListener('abort', stopPlaying);
  return { steps: policy.version, rollouts, lately: lately.means(), learnt: lately.allAbove(goal) };
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
