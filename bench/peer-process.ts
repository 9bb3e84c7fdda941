/** A Python process that runs rounds of a measurement one at a time (bench/peers/rounds.py), so that several peers can take turns on one machine. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

export type Round = { readonly seconds: number; readonly tokens: number };

export type PeerProcess = {
  readonly kinds: readonly string[];
  round(kind: string): Promise<Round>;
  stop(): Promise<void>;
};

/** Resolves when the process has run each of its kinds once. Rejects with what it said last when it ends. */
export async function startPeer(python: string, args: readonly string[], path: readonly string[]): Promise<PeerProcess> {
  const child = spawn(python, [...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, PYTHONPATH: path.filter((each) => each !== '').join(':'), PYTHONDONTWRITEBYTECODE: '1' },
  });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-2000)));
  child.stdin.on('error', () => {}); // its end says why
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async (): Promise<unknown> => {
    const { value, done } = await lines.next();
    if (done === true) throw new Error(`${args[0]} ended: ${said.trim().split('\n').slice(-3).join(' | ')}`);
    return JSON.parse(value) as unknown;
  };
  return {
    kinds: (await answer()) as string[],
    async round(kind) {
      child.stdin.write(`${kind}\n`);
      return (await answer()) as Round;
    },
    async stop() {
      if (child.exitCode !== null) return;
      child.stdin.end();
      await once(child, 'exit');
    },
  };
}
