/** A harness that ends in one of many ways. It says "recorded" when it has recorded `count` metrics named `<prefix>0`, `<prefix>1`, … */
import cluster from 'node:cluster';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { createRecorder, type Recorder } from '../../harness-sdk/index.ts';

export type ExitOptions = {
  readonly url: string;
  readonly spool?: string;
  readonly prefix: string;
  readonly count: number;
  readonly how:
    | 'falls off the end' | 'exits' | 'throws' | 'waits' | 'waits with a handler' | 'forks' | 'starts threads' | 'drains'; // prettier-ignore
};

/** `process.env` would do for a fork, and arguments for the rest; a worker of a cluster has the arguments of its primary. */
const options = (isMainThread ? JSON.parse(process.argv[2] as string) : workerData) as ExitOptions;

function record(recorder: Recorder, prefix: string): void {
  const run = recorder.run({ id: 'exits' });
  for (let i = 0; i < options.count; i++) run.metric(`${prefix}${i}`, i);
}

const recorder = createRecorder({ url: options.url, spool: options.spool, closeMs: 2_000, lingerMs: 50, requestMs: 1_000 });
const own = cluster.isWorker
  ? `${options.prefix}worker${cluster.worker?.id ?? 0}-`
  : isMainThread
    ? options.prefix
    : `${options.prefix}thread-`;
if (options.how !== 'drains') record(recorder, own);

switch (options.how) {
  case 'exits':
    process.exit(3);
  // eslint-disable-next-line no-fallthrough -- process.exit does not return
  case 'throws':
    throw new Error('says the test');
  case 'waits with a handler':
    process.on('SIGTERM', () => {
      process.stdout.write('handled\n');
      recorder.run({ id: 'exits' }).metric(`${own}after`, 1);
      void sleep(50).then(() => process.exit(7));
    });
    setInterval(() => {}, 1_000);
    break;
  case 'waits':
    if (options.spool !== undefined) await recorder.persist();
    setInterval(() => {}, 1_000);
    break;
  case 'forks':
    if (cluster.isPrimary) {
      cluster.fork();
      cluster.fork();
    } else {
      await recorder.close();
      process.exit(0);
    }
    break;
  case 'starts threads':
    if (isMainThread) new Worker(new URL(import.meta.url), { workerData: options });
    break;
  case 'drains':
    while (recorder.drained.length < options.count) await sleep(20);
    await recorder.close();
    break;
  case 'falls off the end':
}
process.stdout.write('recorded\n');
