/** The embedded engine alone, as "the ClickHouse server" of a deployment test. Prints its address as one JSON line and runs until SIGTERM. */
import { parseArgs } from 'node:util';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { startEngine } from '../store/columns/engine/supervise.ts';

const { values } = parseArgs({ options: { data: { type: 'string' } } });
const silent = { info: () => {}, warn: () => {}, error: (fields: object, message: string) => console.error(message, fields) };
const engine = await startEngine({
  dataDir: values.data as string,
  nice: 10,
  slots: 12,
  log: silent,
  clock: systemClock,
  random: systemRandom,
});
console.log(JSON.stringify({ url: engine.url, user: engine.user, password: engine.password, pid: engine.pid() }));
process.once('SIGTERM', () => {
  void engine.close().then(() => process.exit(0));
});
