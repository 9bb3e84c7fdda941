/**
 * The first-run demo: the same lesson, played slowly beside a server that has nothing else to show. A process of its own at the lowest priority, which talks to the server as any harness
 * does. Started by `tapedeck serve`, which tells it where; it ends by itself when the policy has learnt, after MAX_ROLLOUTS, when the store turns out to hold anything that is not its own,
 * and when the server is gone. A restart of the server goes on with it.
 */
import { setPriority } from 'node:os';
import { z } from 'zod';
import { systemClock, type Clock } from '../../base/clock.ts';
import { withLinkedSignal } from '../../base/linked-signal.ts';
import { systemRandom } from '../../base/random.ts';
import { cancelRun, learn, type Lesson, type LessonOptions } from './learn.ts';
import { firstStanding, readStanding, writeStanding, type Standing } from './standing.ts';
import { holdsOnly, holdsOthers, waitForServer } from './store-look.ts';

const RUN = 'demo';
const NICE = 19;
const ROLLOUTS_PER_SECOND = 10;
const MAX_ROLLOUTS = 5000;
const MAX_STEPS = 150;
const GOAL = 0.85;
const SEED = 1;
/** It looks so often whether somebody else has begun to record. */
const LOOK_MS = 5000;

const order = z.object({ url: z.url(), standing: z.string().min(1) });
type Order = z.output<typeof order>;

const stop = new AbortController();
process.on('SIGTERM', () => stop.abort(new Error('stopped')));
process.on('SIGINT', () => {}); // the terminal sends it to the whole group; the parent decides
process.once('disconnect', () => process.exit(0)); // the server is gone: nobody is left to play for
process.once('message', (given) => {
  run(order.parse(given)).then(
    (said) => end(0, said),
    (error: unknown) => {
      if (stop.signal.aborted) end(0, 'the demo has stopped, to go on at the next start');
      else end(1, `the demo failed: ${error instanceof Error ? error.message : String(error)}`);
    },
  );
});
setPriority(NICE);

function end(code: number, said: string): void {
  if (process.send === undefined || !process.connected) process.exit(code);
  process.send({ log: said }, () => process.exit(code));
}

/** Resolves with what became of it, in words. */
async function run({ url, standing: path }: Order): Promise<string> {
  await waitForServer(url, systemClock, stop.signal);
  const known = readStanding(path);
  const before = known === null ? firstStanding() : { ...known, session: known.session + 1 };
  if (before.done) return 'the demo was played before';
  if (!(await holdsOnly(RUN, url, systemClock, stop.signal))) {
    writeStanding(path, { ...before, done: true });
    if (known !== null) await cancelRun(url, RUN);
    return 'the demo is not played: the store holds other data';
  }
  writeStanding(path, before);
  const others = new AbortController();
  const looking = lookAround(url, others);
  const lesson = await withLinkedSignal([stop.signal, others.signal], (signal) =>
    play(url, path, { standing: before, isFinal: () => others.signal.aborted, signal }),
  ).finally(() => stop.abort());
  await looking;
  const done = lesson.standing.done || others.signal.aborted;
  writeStanding(path, { ...lesson.standing, done });
  return inWords(lesson, others.signal.aborted ? 'made room for others' : done ? 'ended' : 'stopped, to go on at the next start,');
}

function play(
  url: string,
  path: string,
  given: Pick<LessonOptions, 'isFinal' | 'signal'> & { readonly standing: Standing },
): Promise<Lesson> {
  return learn(
    {
      url,
      run: RUN,
      seed: SEED,
      ...given,
      maxSteps: MAX_STEPS,
      maxRollouts: MAX_ROLLOUTS,
      goal: GOAL,
      shuffled: false,
      weights: null,
      pace: pacer(systemClock, ROLLOUTS_PER_SECOND, given.signal),
      save: (saved) => writeStanding(path, saved),
    },
    { clock: systemClock, random: systemRandom },
  );
}

function inWords({ standing: { policy, rollouts }, lately }: Lesson, what: string): string {
  const means = [...lately].map(([env, mean]) => `${env} ${mean.toFixed(2)}`).join(', ');
  return `the demo has ${what} after ${policy.version} steps and ${rollouts} rollouts; lately ${means}`;
}

/** Aborts `others` as soon as somebody else records. Resolves when stopped. */
async function lookAround(url: string, others: AbortController): Promise<void> {
  while (!stop.signal.aborted && !others.signal.aborted) {
    await systemClock.sleep(LOOK_MS, stop.signal).catch(() => {});
    // a question that fails is asked again
    if (await holdsOthers(RUN, url, stop.signal).catch(() => false)) others.abort(new Error('somebody else records'));
  }
}

/** Lets `perSecond` callers through, evenly, and everybody at once when stopped. */
function pacer(clock: Clock, perSecond: number, signal: AbortSignal): () => Promise<void> {
  let next = 0;
  return async () => {
    const now = clock.monotonicMs();
    next = Math.max(next, now) + 1000 / perSecond;
    await clock.sleep(next - now, signal).catch(() => {});
  };
}
