/**
 * Trains a tiny policy on three small environments through a running server, from chance to solved in a minute or two.
 *
 *   node examples/learning/main.ts [--url http://127.0.0.1:7070] [--run learning] [--seed 1] [--steps 150] [--rollouts 6000] [--goal 0.9] [--shuffled] [--weights DIR]
 *
 * --weights: it plays only, with the weights that a trainer elsewhere writes there (train.py). --shuffled gives every row the advantage of another: the control, in which nothing is learnt.
 */
import { parseArgs } from 'node:util';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { learn } from './learn.ts';

const { values } = parseArgs({
  options: {
    url: { type: 'string', default: 'http://127.0.0.1:7070' },
    run: { type: 'string', default: 'learning' },
    seed: { type: 'string', default: '1' },
    steps: { type: 'string', default: '150' },
    rollouts: { type: 'string', default: '6000' },
    goal: { type: 'string', default: '0.9' },
    shuffled: { type: 'boolean', default: false },
    weights: { type: 'string' },
  },
});
const stop = new AbortController();
process.once('SIGINT', () => stop.abort(new Error('interrupted')));

const inWords = (means: ReadonlyMap<string, number>): string => [...means].map(([env, mean]) => `${env} ${mean.toFixed(2)}`).join('  ');

const lesson = await learn(
  {
    url: values.url,
    run: values.run,
    seed: Number(values.seed),
    maxSteps: Number(values.steps),
    maxRollouts: Number(values.rollouts),
    goal: Number(values.goal),
    shuffled: values.shuffled,
    weights: values.weights ?? null,
    pace: async () => {},
    onStep: ({ policy, metrics }, lately) => {
      if (policy.version % 10 === 0) console.log(`step ${policy.version}  ${inWords(lately)}  entropy ${metrics.entropy.toFixed(2)}`);
    },
    signal: stop.signal,
    isFinal: () => true,
  },
  { clock: systemClock, random: systemRandom },
);
console.log(`${lesson.standing.policy.version} steps, ${lesson.standing.rollouts} rollouts: ${inWords(lesson.lately)}`);
