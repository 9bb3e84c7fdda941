/**
 * What the fake model says. A behaviour is a pure function of what it is asked and of a seeded chance; the built-in one answers sums and simple questions,
 * calls the tools it is offered and answers from their results, so that demos and tests need none of their own.
 */
import type { Random } from '../../base/random.ts';
import type { ChatMessage, Tool } from './chat-template.ts';

export type BehaviourAsk = {
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly Tool[];
  /** `none`: no calls; `required`: at least one; a name: that tool. */
  readonly toolChoice: 'auto' | 'none' | 'required' | { readonly name: string };
  readonly parallelToolCalls: boolean;
  /** Whether this model thinks aloud. */
  readonly thinks: boolean;
  readonly choice: number;
  /** Which sample of this very prompt it is, from 0. */
  readonly sample: number;
  readonly temperature: number;
  /** The engine's weights: a behaviour may get better with them. */
  readonly policyVersion: number;
  /** Deterministic per (engine seed, prompt, choice, sample). */
  readonly random: Random;
};

export type Reply = {
  readonly content?: string;
  readonly reasoning?: string;
  /** Arguments as a value, or as the very text to send (which need not be JSON). */
  readonly toolCalls?: readonly { readonly name: string; readonly arguments: unknown; readonly id?: string }[];
};

export type Behaviour = (ask: BehaviourAsk) => Reply;

/** Share of sums that come out wrong by one, to give rollouts of one task different rewards. 0 = none. */
export function defaultBehaviour(mistakes = 0): Behaviour {
  return (ask) => {
    const last = ask.messages.at(-1);
    const results = resultsAtEnd(ask.messages);
    const question = ask.messages.findLast((m) => m.role === 'user')?.content ?? last?.content ?? '';
    if (results.length > 0) return fromResults(ask, results, question);
    const calls = toolCalls(ask, question);
    if (calls.length > 0) {
      return {
        content: '',
        ...(ask.thinks ? { reasoning: `I need ${calls.map((c) => c.name).join(' and ')} for this.` } : {}),
        toolCalls: calls,
      };
    }
    return fromText(ask, question, mistakes);
  };
}

function resultsAtEnd(messages: readonly ChatMessage[]): string[] {
  const from = messages.findLastIndex((m) => m.role !== 'tool') + 1;
  return messages.slice(from).map((m) => m.content);
}

function fromResults(ask: BehaviourAsk, results: readonly string[], question: string): Reply {
  const found = results.join(', ');
  const content = question.includes('<answer>') ? `<answer>${found}</answer>` : `I found this: ${found}`;
  return { content, ...(ask.thinks ? { reasoning: `The tool${results.length > 1 ? 's say' : ' says'} ${found}.` } : {}) };
}

/** One call per quoted name or number pair asked about; the first tool unless the question names another. */
function toolCalls(ask: BehaviourAsk, question: string): { name: string; arguments: unknown }[] {
  if (ask.toolChoice === 'none' || ask.tools.length === 0) return [];
  const named =
    typeof ask.toolChoice === 'object' ? ask.tools.find((t) => t.name === (ask.toolChoice as { name: string }).name) : undefined;
  const mentioned = ask.tools.filter((t) => question.includes(t.name)).toSorted((a, b) => b.name.length - a.name.length)[0];
  const tool = named ?? mentioned ?? (ask.tools[0] as Tool);
  const quoted = [...question.matchAll(/"([^"]+)"/g)].map((m) => m[1] as string);
  const subjects = quoted.length > 0 ? quoted : [question];
  const wanted = ask.parallelToolCalls ? subjects : subjects.slice(0, 1);
  return wanted.map((subject) => ({ name: tool.name, arguments: argumentsFor(tool, subject) }));
}

/** Values by the tool's own JSON schema: numbers of the text for numbers, the subject for strings, the first of an enumeration. */
function argumentsFor(tool: Tool, subject: string): Record<string, unknown> {
  const properties =
    (tool.parameters as { properties?: Record<string, { type?: string; enum?: unknown[] }> } | undefined)?.properties ?? {};
  const numbers = [...subject.matchAll(/-?\d+(?:\.\d+)?/g)].map((m) => Number(m[0]));
  return Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => {
      if (schema.enum !== undefined) return [name, schema.enum[0]];
      if (schema.type === 'integer' || schema.type === 'number') return [name, numbers.shift() ?? 0];
      if (schema.type === 'boolean') return [name, true];
      if (schema.type === 'array') return [name, [subject]];
      if (schema.type === 'object') return [name, {}];
      return [name, subject];
    }),
  );
}

function fromText(ask: BehaviourAsk, question: string, mistakes: number): Reply {
  const sum = /(-?\d+)\s*([-+*x×])\s*(-?\d+)/.exec(question);
  if (sum !== null) {
    const [, a, sign, b] = sum as unknown as [string, string, string, string];
    const right = calculate(Number(a), sign, Number(b));
    const value = ask.random.next() < mistakes ? right + 1 : right;
    const content = question.includes('<answer>') ? `<answer>${value}</answer>` : `${a} ${sign} ${b} = ${value}`;
    return { content, ...(ask.thinks ? { reasoning: `I take ${a} and ${b} and get ${value}.` } : {}) };
  }
  const count = /count to (\d+)/i.exec(question);
  if (count !== null) {
    return { content: Array.from({ length: Math.min(Number(count[1]), 50_000) }, (_, i) => i + 1).join(' ') };
  }
  const repeat = /^(?:say|repeat|echo)[: ]+([\s\S]+)$/i.exec(question);
  if (repeat !== null) return { content: repeat[1] as string };
  const first = OPENINGS[Math.floor(ask.random.next() * OPENINGS.length)] as string;
  const second = ENDINGS[Math.floor(ask.random.next() * ENDINGS.length)] as string;
  const subject = question.trim().replaceAll(/\s+/g, ' ').slice(0, 60);
  return {
    content: `${first} ${subject === '' ? 'nothing' : `"${subject}"`}. ${second}`,
    ...(ask.thinks ? { reasoning: 'Let me think about it for a moment.' } : {}),
  };
}

function calculate(a: number, sign: string, b: number): number {
  if (sign === '+') return a + b;
  return sign === '-' ? a - b : a * b;
}

const OPENINGS = ['You asked about', 'Let us look at', 'Here is what I think of', 'A short answer to'];
const ENDINGS = [
  'It depends on the details.',
  'The short answer is yes.',
  'The short answer is no.',
  'I would try it and see.',
  '没有人知道。🤷',
];
