/** A process that starts an engine in the directory of its argument, prints the engine's process id, and waits to be killed. */
import { systemClock } from '../../../base/clock.ts';
import { systemRandom } from '../../../base/random.ts';
import { startEngine } from './supervise.ts';

const silent = (): void => {};
const engine = await startEngine({
  dataDir: process.argv[2] as string,
  nice: 10,
  slots: 2,
  log: { info: silent, warn: silent, error: silent },
  clock: systemClock,
  random: systemRandom,
});
process.stdout.write(`${engine.pid()}\n`);
