import { readFileSync } from 'node:fs';
import { startTestEngine } from '../engine-for-tests.ts';
import type { Target } from './access.contract.ts';
import { conformance } from './conformance.ts';

conformance('the embedded engine', async (): Promise<Target> => {
  const engine = await startTestEngine();
  return Object.assign(engine, {
    residentBytes: () => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${engine.pid()}/status`, 'utf8'))?.[1]) * 1024,
  });
});
