import { accessSync, constants, mkdirSync } from 'node:fs';
import { Command } from 'commander';
import { systemClock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import { systemRandom } from '../../base/random.ts';
import { ROLES, type Config, type Role } from '../config.ts';
import { playsDemo, startDemo } from '../serve/demo-child.ts';
import { openLogger } from '../serve/open-logger.ts';
import { startServer } from '../serve/serve.ts';

/** `tapedeck serve`: runs until SIGINT or SIGTERM; exit code 0 after a clean stop, 1 when it cannot start or go on. */
export function serveCommand(config: Config): Command {
  return new Command()
    .option('--roles <list>', `what this process does: ${ROLES.join(', ')}`, config.roles.join(','))
    .option('--port <n>', 'TCP port', String(config.port))
    .option('--no-demo', 'do not play a small training run on an empty store')
    .action(async (options: { roles: string; port: string; demo: boolean }) => {
      const roles = options.roles.split(',').filter((role): role is Role => (ROLES as readonly string[]).includes(role));
      if (roles.length !== options.roles.split(',').length) throw new Error(`--roles takes ${ROLES.join(', ')}`);
      await serve({ ...config, roles, port: Number(options.port), demo: config.demo && options.demo });
    });
}

async function serve(config: Config): Promise<void> {
  makeDataFolder(config.data);
  const logger = openLogger(config.logLevel, process.stderr.isTTY);
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {}); // it may fail before anybody waits for it
  const stopped = new Promise<void>((resolve) => {
    process.once('SIGINT', () => resolve());
    process.once('SIGTERM', () => resolve());
  });
  const server = await startServer(config, { clock: systemClock, random: systemRandom, logger, fatal: failed.reject });
  const demo = playsDemo(config, server) ? startDemo(config, server.url, { clock: systemClock, logger }) : null;
  console.log(greeting(server.url, config, demo !== null));
  try {
    await Promise.race([stopped, failed.promise]);
  } finally {
    await demo?.close();
    await server.close();
  }
}

function makeDataFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true });
    accessSync(path, constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new TapedeckError(
      'not_writable',
      `the data folder ${path} cannot be used: make it a folder this user may write, or set TAPEDECK_DATA`,
      { cause },
    );
  }
}

/** Where commands look when nothing else is said. */
const USUAL_URL = 'http://127.0.0.1:7070';

function greeting(url: string, config: Config, demo: boolean): string {
  const at = url === USUAL_URL ? '' : ` --url ${url}`;
  return [
    `tapedeck is listening on ${url} (${config.roles.join(', ')}; data in ${config.data})`,
    ...(demo
      ? ['a demo plays in the background (docs/learning.md): a tiny policy that learns, run "demo"; to start without it: --no-demo']
      : []),
    'try next:',
    `  npx tapedeck import <traces.jsonl>${at}`,
    `  npx tapedeck sql "SELECT run, count() AS rollouts, avg(reward) FROM rollouts GROUP BY run"${at}`,
    `  npx tapedeck audit${at}`,
  ].join('\n');
}
