/** Plays groups of rollouts for as long as the feed has room for them, each group with the newest weights there are when it begins. */
import type { Clock } from '../../base/clock.ts';
import type { Random } from '../../base/random.ts';
import type { Recorder, Run } from '../../harness-sdk/index.ts';
import type { Environment } from './environment.ts';
import type { FeedClient } from './feed-client.ts';
import { play, type Policy } from './play.ts';

export const GROUP_SIZE = 8;

export type Played = { readonly env: string; readonly policyVersion: number; readonly reward: number };

export type PlayerOptions = {
  readonly run: Run;
  readonly recorder: Recorder;
  readonly feed: Pick<FeedClient, 'capacity' | 'caughtUp'>;
  readonly environments: readonly Environment[];
  /** Its number is added: no other player of the run may have the same. */
  readonly groupPrefix: string;
  readonly latestPolicy: () => Promise<Policy>;
  /** Before each rollout: slows the player down. */
  readonly pace: () => Promise<void>;
  /** Told of each group when it was played: its mean reward. */
  readonly onGroup: (played: Played) => void;
  readonly maxGroups: number;
  /** Stops it between two groups. */
  readonly signal: AbortSignal;
};

/** Resolves when it was stopped or has played `maxGroups`; what was played is in the server's log then. */
export async function playGroups(options: PlayerOptions, deps: { readonly clock: Clock; readonly random: Random }): Promise<void> {
  const { feed, recorder, maxGroups, signal } = options;
  for (let group = 0; group < maxGroups && !signal.aborted;) {
    const room = Math.floor((await feed.capacity(GROUP_SIZE)) / GROUP_SIZE);
    for (const end = Math.min(maxGroups, group + room); group < end && !signal.aborted; group++) await playGroup(group, options, deps);
    // the feed counts what it has read of the log: asked earlier it would offer the same room again
    await recorder.flush();
    await feed.caughtUp();
  }
}

async function playGroup(number: number, options: PlayerOptions, deps: { readonly clock: Clock; readonly random: Random }): Promise<void> {
  const { run, environments, latestPolicy, pace, onGroup } = options;
  const env = environments[number % environments.length] as Environment;
  const task = env.task(deps.random);
  const policy = await latestPolicy();
  const group = { id: `${options.groupPrefix}/${env.id}/${number}`, size: GROUP_SIZE };
  let sum = 0;
  for (let attempt = 0; attempt < GROUP_SIZE; attempt++) {
    await pace();
    sum += await play(run, { env, task, group, policy }, deps);
  }
  onGroup({ env: env.id, policyVersion: policy.version, reward: sum / GROUP_SIZE });
}
