/**
 * Runs a rebuild in a process of its own at a lower priority. While the new tables are compared or exchanged, the live projector stands still; the edge goes on accepting.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { TapedeckError } from '../../base/errors.ts';
import type { Rebuild, RebuildProgress } from '../../query/operations/rebuild.ts';
import type { Topic } from '../../events/registry.ts';
import { storePartition } from '../../store/columns/projections/position.ts';
import { storedPositions } from '../../store/columns/stored-positions.ts';
import type { RebuildEnds } from '../../store/columns/rebuild/rebuild.ts';
import type { Config } from '../config.ts';
import type { Columns, ColumnsAddress } from './columns.ts';
import type { ProjectorChild } from './projector-child.ts';

export type RebuildOrder =
  | { readonly config: Config; readonly address: ColumnsAddress }
  | { readonly ends: RebuildEnds; readonly next: 'go on' | 'compare' | 'exchange' };
export type RebuildReport =
  | { readonly progress: RebuildProgress }
  | { readonly built: true }
  | { readonly failed: { readonly code: string; readonly message: string } };

type Deps = { readonly config: Config; readonly columns: Columns; readonly projector: ProjectorChild | null; readonly partitions: number };

/** One rebuild at a time. */
export function rebuildWith({ config, columns, projector, partitions }: Deps): Rebuild {
  let running = false;
  return async ({ check }, tell, signal) => {
    if (projector === null)
      throw new TapedeckError('not_found', 'the projector runs in another process: send the rebuild to the one with the role projector');
    if (running) throw new TapedeckError('overloaded', 'a rebuild is running already');
    running = true;
    const child = fork(fileURLToPath(new URL('../rebuild-process.ts', import.meta.url)), [], {
      execArgv: ['--disable-warning=ExperimentalWarning'],
      serialization: 'advanced',
    });
    try {
      const ends = async (): Promise<RebuildEnds> => {
        const stored = await storedPositions(columns.store, { signal });
        const of = (topic: Topic): number[] =>
          Array.from({ length: partitions }, (_, partition) => stored.get(storePartition(topic, partition)) ?? 0);
        return { events: of('events'), feeds: of('feeds') };
      };
      child.send({ config, address: columns.address } satisfies RebuildOrder);
      await build(child, { ends: await ends(), next: 'go on' }, tell, signal);
      await projector.pause();
      await build(child, { ends: await ends(), next: check ? 'compare' : 'exchange' }, tell, signal);
    } finally {
      running = false;
      child.kill('SIGKILL');
      projector.resume();
    }
  };
}

function build(child: ChildProcess, order: RebuildOrder, tell: (progress: RebuildProgress) => void, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const onMessage = (report: RebuildReport): void => {
    if ('progress' in report) tell(report.progress);
    else if ('built' in report) resolve();
    else reject(new TapedeckError('store_error', report.failed.message));
  };
  const onExit = (): void => reject(new TapedeckError('store_unavailable', 'the rebuild process ended early; the server log says why'));
  const onAbort = (): void => reject(new TapedeckError('aborted', 'the rebuild was stopped'));
  child.on('message', onMessage);
  child.once('exit', onExit);
  signal.addEventListener('abort', onAbort, { once: true });
  child.send(order);
  return promise.finally(() => {
    child.off('message', onMessage);
    child.off('exit', onExit);
    signal.removeEventListener('abort', onAbort);
  });
}
