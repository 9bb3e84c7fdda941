/** Three small environments: one turn, two turns with a tool, several turns. A policy that says anything at random gets about 0.05 in each. */
import { pick, shareRight, type Environment, type Episode, type Score, type ToolCall } from './environment.ts';
import { DIGITS, LETTERS, WORDS } from './vocabulary.ts';

const LENGTH = 3;

/** "copy c a b =" wants "c a b .": the score is the share of the four tokens that are right. */
const copy: Environment = {
  id: 'copy',
  tools: [],
  turnTokens: LENGTH + 1,
  task: (random) => {
    const text = Array.from({ length: LENGTH }, () => pick(LETTERS, random)).join(' ');
    return { key: text.replaceAll(' ', ''), prompt: `copy ${text} =`, data: { text } };
  },
  open: ({ data }) => {
    const wanted = [...(data as { text: string }).text.split(' '), '.'];
    let score = 0;
    return {
      answer: (turn) => {
        score = shareRight(turn.split(' '), wanted);
        return { call: null, reply: null };
      },
      scores: () => [{ name: 'copied', score, weight: 1 }],
    };
  },
};

const LARGEST_SUMMAND = 4;
const ADD = {
  type: 'function',
  function: {
    name: 'add',
    description: 'Adds two numbers.',
    parameters: { type: 'object', properties: { a: { type: 'integer' }, b: { type: 'integer' } }, required: ['a', 'b'] },
  },
};

/** "sum 2 3 =" wants the call "add 2 3 .", is told "result 5 =" and wants "5 .". Half of the score is for the call, half for the answer. */
const sum: Environment = {
  id: 'sum',
  tools: [ADD],
  turnTokens: 4,
  task: (random) => {
    const [a, b] = [pick(DIGITS.slice(0, LARGEST_SUMMAND + 1), random), pick(DIGITS.slice(0, LARGEST_SUMMAND + 1), random)];
    return { key: `${a}+${b}`, prompt: `sum ${a} ${b} =`, data: { a: Number(a), b: Number(b) } };
  },
  open: ({ data }) => sumEpisode(data as { a: number; b: number }),
};

function sumEpisode({ a, b }: { a: number; b: number }): Episode {
  const scores: Score[] = [];
  return {
    answer: (turn) => {
      const said = turn.split(' ');
      if (scores.length > 0) {
        scores.push({ name: 'answered', score: said[0] === String(a + b) ? 1 : 0, weight: 0.5 });
        return { call: null, reply: null };
      }
      scores.push({ name: 'called', score: shareRight(said, ['add', String(a), String(b), '.']), weight: 0.5 });
      const call = readCall(said);
      return { call, reply: call === null ? null : { text: `${resultOf(call)} is the sum`, role: 'tool' } };
    },
    scores: () => scores,
  };
}

function readCall(said: readonly string[]): ToolCall | null {
  const [name, a = '', b = ''] = said;
  if (name !== 'add') return null;
  const [x, y] = [a, b].map((digit) => (/^\d$/.test(digit) ? Number(digit) : null));
  const error =
    x == null || y == null || x + y >= DIGITS.length || said.length !== 4 ? `add takes two digits with a sum below ${DIGITS.length}` : null;
  return { name, arguments: { a: x ?? a, b: y ?? b }, error };
}

function resultOf(call: ToolCall | null): string {
  if (call === null || call.error !== null) return '?';
  return String((call.arguments['a'] as number) + (call.arguments['b'] as number));
}

const MAX_GUESSES = 3;

/** A secret of five words, three guesses, each answered with "<" (the secret comes before it) or ">". A fifth of the score is for guesses that the hints allow. */
const guess: Environment = {
  id: 'guess',
  tools: [],
  turnTokens: 2,
  task: (random) => {
    const secret = pick(WORDS, random);
    return { key: secret, prompt: 'guess =', data: { secret } };
  },
  open: ({ data }) => guessEpisode(WORDS.indexOf((data as { secret: (typeof WORDS)[number] }).secret)),
};

function guessEpisode(secret: number): Episode {
  let [guesses, sensible, found] = [0, 0, false];
  let [from, to] = [0, WORDS.length - 1];
  return {
    answer: (turn) => {
      const said = WORDS.indexOf(turn.split(' ')[0] as (typeof WORDS)[number]);
      guesses++;
      if (said >= from && said <= to) sensible++;
      found = said === secret;
      if (found || guesses === MAX_GUESSES) return { call: null, reply: null };
      if (said < 0) return { call: null, reply: { text: '?', role: 'user' } };
      if (said > secret) to = Math.min(to, said - 1);
      else from = Math.max(from, said + 1);
      return { call: null, reply: { text: said > secret ? '<' : '>', role: 'user' } };
    },
    scores: () => [
      { name: 'found', score: found ? 1 : 0, weight: 0.6 },
      { name: 'sensible', score: sensible / guesses, weight: 0.4 },
    ],
  };
}

export const ENVIRONMENTS: readonly Environment[] = [copy, sum, guess];
