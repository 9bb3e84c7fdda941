/** Runs a program against the gateway as a rollout, and again against its record. */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { GatewayServer, MadeTrace } from '../gateway/gateway-server.ts';
import { caughtUp } from '../proof.ts';
import type { Heard } from './programs/heard.ts';

export type ProgramResult = { readonly results: Record<string, unknown>; readonly heard: readonly Heard[] };
export type Ran = { readonly code: number | null; readonly out: string; readonly err: string };

const ROOT = join(import.meta.dirname, '../..');
export const programPath = (name: string): string => join(import.meta.dirname, 'programs', `${name}.ts`);
const NODE = [process.execPath, '--disable-warning=ExperimentalWarning'];
export const programCommand = (name: string, ...args: string[]): string[] => [...NODE, programPath(name), ...args];

export async function run(command: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ran> {
  const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TAPEDECK_')));
  const child = spawn(command[0] as string, command.slice(1), { env: { ...clean, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let [out, err] = ['', ''];
  child.stdout.on('data', (data: Buffer) => (out += data.toString()));
  child.stderr.on('data', (data: Buffer) => (err += data.toString()));
  const code = await new Promise<number | null>((resolve) => void child.once('close', resolve));
  return { code, out, err };
}

/** `tapedeck …` against the server. */
export function tapedeck(url: string, ...args: string[]): Promise<Ran> {
  return run([...NODE, join(ROOT, 'cli/main.ts'), ...args], { TAPEDECK_URL: url });
}

/** Runs the program through the gateway with a key of its own rollout, which is ended when the program is. */
export async function record(
  gateway: GatewayServer,
  name: string,
  args: readonly string[],
  settings: Record<string, unknown> = {},
  env: Readonly<Record<string, string>> = {},
): Promise<MadeTrace> {
  const made = await gateway.rollout(settings);
  const ran = await run(programCommand(name, ...args), {
    OPENAI_BASE_URL: made.baseUrls.openai,
    OPENAI_API_KEY: made.key,
    ANTHROPIC_BASE_URL: made.baseUrls.anthropic,
    ANTHROPIC_API_KEY: made.key,
    ...env,
  });
  if (ran.code !== 0) throw new Error(`${name} ended with ${ran.code}: ${ran.err}`);
  const ended = await gateway.post(`/v1/rollouts/${made.rollout}/end`, { ok: true });
  if (ended.status !== 200) throw new Error(JSON.stringify(ended));
  await caughtUp(gateway.url);
  return made;
}

export function resultOf(path: string): ProgramResult {
  return JSON.parse(readFileSync(path, 'utf8')) as ProgramResult;
}

/** Answers in an order of their own: parallel requests end in any. How a client lets go of a stream that it has read to its end is its own affair. */
export function sorted(heard: readonly Heard[]): { readonly asked: string; readonly status: number; readonly body: string }[] {
  const texts = heard.map(({ asked, status, body }) => ({ asked, status, body: Buffer.from(body, 'base64').toString() }));
  const key = ({ asked, status, body }: (typeof texts)[number]): string => `${asked}\0${status}\0${body}`;
  return texts.toSorted((a, b) => (key(a) < key(b) ? -1 : 1));
}
