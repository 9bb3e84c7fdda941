/** Runs a program against a replay: the same program that ran before, pointed at the record by its environment. */
import { spawn } from 'node:child_process';
import { TapedeckError } from '../../../base/errors.ts';
import type { Tape } from '../../../query/replay/tape/tape.ts';
import { programEnvironment } from '../../config.ts';

export type Ended = { readonly code: number | null; readonly signal: string | null };

/** What client libraries read; keys are of no use to a record but libraries insist on one. */
export function pointingAt(url: string, tape: Tape, key = 'replay'): Record<string, string> {
  const { started } = tape;
  return {
    OPENAI_BASE_URL: `${url}/v1`,
    OPENAI_API_KEY: key,
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: key,
    ANTHROPIC_AUTH_TOKEN: '',
    REPLAY_URL: url,
    REPLAY_RUN: tape.run,
    REPLAY_ROLLOUT: tape.rollout,
    REPLAY_TASK: jsonText(started?.task ?? null),
    REPLAY_ENV: jsonText(started?.env ?? null),
  };
}

/** Integers that JSON numbers cannot hold become texts. */
function jsonText(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) => (typeof item === 'bigint' ? item.toString() : item));
}

/** Its output goes to ours; with `quiet` its standard output goes to our standard error, where ours is for a report. Throws `usage` when there is no such program. */
export async function runProgram(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  { quiet, signal }: { readonly quiet: boolean; readonly signal: AbortSignal },
): Promise<Ended> {
  const [program, ...args] = command;
  if (program === undefined) throw new TapedeckError('usage', 'name the program to run behind --');
  const { promise, resolve, reject } = Promise.withResolvers<Ended>();
  const child = spawn(program, args, { env: programEnvironment(env), stdio: ['inherit', quiet ? 2 : 'inherit', 'inherit'] });
  const stop = (): void => void child.kill('SIGTERM');
  signal.addEventListener('abort', stop, { once: true });
  child.once('error', (cause) => reject(new TapedeckError('usage', `cannot run ${program}: ${cause.message}`, { cause })));
  child.once('exit', (code, killed) => resolve({ code, signal: killed }));
  try {
    return await promise;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
