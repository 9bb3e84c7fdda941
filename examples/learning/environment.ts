/** What an environment of this example is: tasks, and for each attempt a conversation that ends in named scores. Pure: an episode is a function of what the policy said. */
import type { Random } from '../../base/random.ts';

export type Score = { readonly name: string; readonly score: number; readonly weight: number };

/** What the environment says after a turn: the policy's next prompt, or null when the conversation is over. */
export type Reply = { readonly text: string; readonly role: 'user' | 'tool' } | null;

/** A tool call that a turn contained, as models write it. */
export type ToolCall = { readonly name: string; readonly arguments: Readonly<Record<string, unknown>>; readonly error: string | null };

export type Episode = {
  /** Takes the tokens of a turn as text. */
  answer(turn: string): { readonly call: ToolCall | null; readonly reply: Reply };
  /** At the end; the weights sum to 1. */
  scores(): readonly Score[];
};

export type Task = { readonly key: string; readonly prompt: string; readonly data: unknown };

export type Environment = {
  readonly id: string;
  readonly tools: readonly { readonly [key: string]: unknown }[];
  /** Tokens a turn may have. */
  readonly turnTokens: number;
  readonly task: (random: Random) => Task;
  readonly open: (task: Task) => Episode;
};

export function pick<T>(items: readonly T[], random: Random): T {
  return items[Math.floor(random.next() * items.length)] as T;
}

/** Share of the places of `wanted` at which `said` has the same token. */
export function shareRight(said: readonly string[], wanted: readonly string[]): number {
  return wanted.filter((token, i) => said[i] === token).length / wanted.length;
}
