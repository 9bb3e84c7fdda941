/** Options that all kinds of re-execution share. */
import { readFile } from 'node:fs/promises';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { z } from 'zod';
import { TapedeckError } from '../../../base/errors.ts';
import { DEFAULT_NORMALISERS, normaliserSchema, type Normaliser } from '../../../query/replay/request/normalise.ts';
import { POLICIES, type Policy } from '../../../query/replay/session/session.ts';
import type { Timing } from '../../../query/replay/server/play.ts';

export type PlayOptions = {
  readonly policy: Policy;
  readonly timing: 'none' | 'recorded';
  readonly speed: number;
  readonly tools: 'recorded' | 'live';
  readonly normalisers?: string;
  readonly onlyNormalisers?: boolean;
  readonly partial?: boolean;
  readonly report?: readonly string[];
};

const HOLD_MS = 60_000;

export function withPlayOptions(command: Command, { hasPolicy = true }: { readonly hasPolicy?: boolean } = {}): Command {
  if (hasPolicy) {
    command.addOption(
      new Option('--policy <name>', 'what a request gets that differs from the record').choices([...POLICIES]).default('strict'),
    );
  }
  return command
    .addOption(
      new Option('--timing <which>', 'pieces of answers with their recorded times, or at once')
        .choices(['none', 'recorded'])
        .default('none'),
    )
    .option('--speed <factor>', 'with --timing recorded: 2 is twice as fast', factor, 1)
    .addOption(
      new Option('--tools <which>', 'live: tools run, and their results are compared with the recorded ones')
        .choices(['recorded', 'live'])
        .default('recorded'),
    )
    .option('--normalisers <file>', 'more normalisers, as a JSON list of {name, path?, pattern?}')
    .option('--only-normalisers', 'none but those of the file')
    .option('--partial', 'replay a rollout that has not ended, as far as it is recorded')
    .option('--report <file...>', 'write the report there: .md is Markdown, anything else JSON');
}

export function timingOf({ timing, speed }: Pick<PlayOptions, 'timing' | 'speed'>): Timing {
  return { speed: timing === 'recorded' ? speed : null, holdMs: HOLD_MS };
}

/** The built-in normalisers, and those of the file. Throws `usage`. */
export async function normalisersOf({
  normalisers,
  onlyNormalisers,
}: Pick<PlayOptions, 'normalisers' | 'onlyNormalisers'>): Promise<Normaliser[]> {
  const own = normalisers === undefined ? [] : await readNormalisers(normalisers);
  return onlyNormalisers === true ? own : [...DEFAULT_NORMALISERS, ...own];
}

async function readNormalisers(path: string): Promise<Normaliser[]> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(path, 'utf8'));
  } catch (cause) {
    throw new TapedeckError('usage', `${path}: ${(cause as Error).message}`, { cause });
  }
  const parsed = z.array(normaliserSchema).safeParse(value);
  if (parsed.success) return parsed.data;
  throw new TapedeckError(
    'usage',
    `${path}: ${parsed.error.issues.map((issue) => `${issue.path.join('.') || 'the list'}: ${issue.message}`).join('; ')}`,
  );
}

export function factor(text: string): number {
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new InvalidArgumentError('must be a number above 0');
  return value;
}

export function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('must be a whole number');
  return Number(text);
}
