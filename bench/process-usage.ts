/** What the processes of a running server use, from /proc. */
import { readFileSync } from 'node:fs';
import { engineOf, projectorOf, type TestServer } from '../e2e/server.ts';

/** CPU in microseconds since the process started; memory in MiB: `rss` holds mapped files (the log), `anonymous` does not. */
export type Usage = { readonly cpu: number; readonly rss: number; readonly anonymous: number };

export const PROCESSES = ['server', 'projector', 'engine'] as const;
export type ProcessName = (typeof PROCESSES)[number];

export function processesOf(server: TestServer): Record<ProcessName, number> {
  return { server: server.pid, projector: projectorOf(server), engine: engineOf(server) };
}

export function usageOf(pid: number): Usage {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kib = (name: string): number => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1] ?? 0);
  return { cpu: (Number(fields[11]) + Number(fields[12])) * 10_000, rss: kib('VmRSS') / 1024, anonymous: kib('RssAnon') / 1024 };
}

/** The events that a server says are stored. */
export async function storedEvents(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/tapedeck_projector_events\{status="stored"\} (\d+)/.exec(text)?.[1] ?? 0);
}
