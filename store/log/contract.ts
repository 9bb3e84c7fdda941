/**
 * What every driver of the log promises, as tests. A driver's test file names a fixture module that opens logs of that driver and runs this suite over it;
 * the module is named, not imported, because some tests open the log in another process (contract-child.ts).
 */
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { appending } from './appends.contract.ts';
import { startChild } from './contract-process.ts';
import type { Child, ChildOrder } from './contract-process.ts';
import { MAX_RECORD_BYTES } from './contract-support.ts';
import type { OpenLog, OpenOptions } from './contract-support.ts';
import type { EventLog } from './event-log.ts';
import { living, otherProcesses } from './life.contract.ts';
import { reading, signals } from './reads.contract.ts';

export type Driver<Target> = {
  readonly fixture: URL;
  /** Where the logs of this run lie. A string is the reason to skip the whole suite. */
  readonly start: () => Promise<{ target: Target; stop: () => Promise<void> } | string>;
  /** Shorter where every append costs a trip to a broker. */
  readonly records?: number;
};

export function logContract<Target>(name: string, driver: Driver<Target>): void {
  describe(`log contract: ${name}`, { concurrency: false }, () => {
    let started: { target: Target; stop: () => Promise<void> };
    let openLog: OpenLog<Target>;
    let skip: string | null = null;
    let topics = 0;
    const run = `contract-${randomUUID()}`;
    const opened: EventLog[] = [];

    before(async () => {
      const answer = await driver.start();
      if (typeof answer === 'string') skip = answer;
      else started = answer;
      ({ openLog } = (await import(driver.fixture.href)) as { openLog: OpenLog<Target> });
    });
    after(async () => {
      await Promise.all(opened.map(async (log) => log.close()));
      if (skip === null) await started.stop();
    });

    const open = async (options: Partial<OpenOptions> & { topic: string }): Promise<EventLog> => {
      const log = await openLog(started.target, { ...defaults, ...options });
      opened.push(log);
      return log;
    };
    const check = (title: string, body: (topic: string) => Promise<void>): void => {
      test(title, { timeout: 60_000 }, async (context) => {
        if (skip === null) await body(`${run}-${topics++}`);
        else context.skip(skip);
      });
    };
    const child = (order: Pick<ChildOrder, 'action' | 'topic'>): Child =>
      startChild({ fixture: driver.fixture.href, target: started.target, partitions: 2, maxRecordBytes: MAX_RECORD_BYTES, ...order });

    const suite = { check, open, child, records: driver.records ?? 100_000 };
    appending(suite);
    reading(suite);
    signals(suite);
    living(suite);
    otherProcesses(suite);
  });
}

const defaults: Omit<OpenOptions, 'topic'> = { partitions: 2, maxRecordBytes: MAX_RECORD_BYTES, mode: 'write', clock: systemClock };
