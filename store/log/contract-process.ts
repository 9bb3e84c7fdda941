import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** What the other process of the contract suite is told (contract-child.ts). */
export type ChildOrder = {
  readonly action: 'append' | 'follow';
  readonly fixture: string;
  readonly target: unknown;
  readonly topic: string;
  readonly partitions: number;
  readonly maxRecordBytes: number;
};

export type Child = {
  /** The next `count` lines that it prints. */
  lines(count: number): Promise<string[]>;
  /** Lines that nobody asked for yet. */
  readonly seen: readonly string[];
  kill(): Promise<void>;
};

export function startChild(order: ChildOrder): Child {
  const script = fileURLToPath(new URL('./contract-child.ts', import.meta.url));
  const child: ChildProcess = spawn(process.execPath, [script, JSON.stringify(order)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const seen: string[] = [];
  let wake = (): void => {};
  const output = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  output.on('line', (line) => {
    seen.push(line);
    wake();
  });
  output.on('close', () => wake());
  return {
    seen,
    lines: async (count) => {
      while (seen.length < count) {
        if (child.exitCode !== null) throw new Error(`the child process ended with ${child.exitCode}`);
        await new Promise<void>((resolve) => (wake = resolve));
      }
      return seen.splice(0, count);
    },
    kill: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'close');
      child.kill('SIGKILL');
      await gone;
    },
  };
}
