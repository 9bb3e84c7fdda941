import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '../../base/random.ts';
import type { Environment, Reply, ToolCall } from './environment.ts';
import { ENVIRONMENTS } from './environments.ts';
import { firstWeights, sample } from './policy.ts';
import { decode, encode, END, WORDS } from './vocabulary.ts';

const [copy, sum, guess] = ENVIRONMENTS as [Environment, Environment, Environment];

/** Plays `turns` and returns what came back and the reward. */
function play(
  env: Environment,
  prompt: string,
  data: unknown,
  turns: readonly string[],
): { replies: Reply[]; calls: (ToolCall | null)[]; reward: number } {
  const episode = env.open({ key: '', prompt, data });
  const answers = turns.map((turn) => episode.answer(turn));
  const reward = episode.scores().reduce((total, { score, weight }) => total + score * weight, 0);
  return { replies: answers.map(({ reply }) => reply), calls: answers.map(({ call }) => call), reward };
}

test('copying is scored by the share of places that are right', () => {
  const rewardOf = (turn: string): number => play(copy, 'copy a b c =', { text: 'a b c' }, [turn]).reward;
  assert.equal(rewardOf('a b c .'), 1);
  assert.equal(rewardOf('a b d .'), 0.75);
  assert.equal(rewardOf('a .'), 0.25);
  assert.equal(rewardOf('b c a a'), 0);
});

test('a sum needs the right call and the right answer', () => {
  const of = (...turns: string[]) => play(sum, 'sum 2 3 =', { a: 2, b: 3 }, turns);
  const right = of('add 2 3 .', '5 .');
  assert.deepEqual([right.reward, right.replies[0]], [1, { text: '5 is the sum', role: 'tool' }]);
  assert.deepEqual(right.calls[0], { name: 'add', arguments: { a: 2, b: 3 }, error: null });
  const wrong = of('add 2 4 .', '6 .');
  assert.deepEqual([wrong.reward, wrong.replies[0]?.text], [0.375, '6 is the sum']);
  const noDigit = of('add a 3 .', '5 .');
  assert.equal(noDigit.replies[0]?.text, '? is the sum');
  assert.match(noDigit.calls[0]?.error ?? '', /two digits/);
  assert.equal(of('add 8 8 .').replies[0]?.text, '? is the sum');
  assert.deepEqual(of('5 .').replies, [null]);
});

test('a word is found by halving, and guesses that the hints exclude cost', () => {
  const of = (secret: string, ...turns: string[]) => play(guess, 'guess =', { secret }, turns);
  assert.equal(of('grape', 'grape .').reward, 1);
  const halved = of('apple', 'grape .', 'cedar .', 'apple .');
  assert.deepEqual([halved.reward, halved.replies.map((reply) => reply?.text)], [1, ['<', '<', undefined]]);
  const stubborn = of('olive', 'apple .', 'apple .', 'apple .');
  assert.ok(Math.abs(stubborn.reward - 0.4 / 3) < 1e-12);
  assert.deepEqual(of('olive', 'a .').replies, [{ text: '?', role: 'user' }]);
  for (const [i, secret] of WORDS.entries()) {
    const second = i < 2 ? 'apple .' : 'maple .';
    const third = i < 2 ? 'cedar .' : 'olive .';
    assert.equal(of(secret, ...['grape .', second, third].slice(0, [2, 3, 1, 2, 3][i])).reward, 1, secret);
  }
});

test('whatever a policy says, an episode ends and its reward lies between 0 and 1', () => {
  const random = seededRandom(9);
  let total = 0;
  const rounds = 600;
  for (let round = 0; round < rounds; round++) {
    const env = ENVIRONMENTS[round % ENVIRONMENTS.length] as Environment;
    const task = env.task(random);
    const episode = env.open(task);
    const context = encode(task.prompt);
    for (let turn = 0; ; turn++) {
      assert.ok(turn < 5);
      const { ids } = sample(firstWeights(), context, END, env.turnTokens, random);
      const { reply } = episode.answer(decode(ids));
      if (reply === null) break;
      context.push(...ids, ...encode(reply.text));
    }
    const scores = episode.scores();
    const reward = scores.reduce((all, { score, weight }) => all + score * weight, 0);
    assert.ok(reward >= 0 && reward <= 1 + 1e-12);
    total += reward;
  }
  assert.ok(total / rounds < 0.2, `chance is ${total / rounds}`);
});
