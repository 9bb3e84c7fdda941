/** README.md is true: its console blocks, run one after the other against a real server, print what it shows. A line `…` stands for any lines, `…/` for a path. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { caughtUp } from './proof.ts';
import { startServer, temporaryFolder, type TestServer } from './server.ts';

const ROOT = join(import.meta.dirname, '..');
const page = readFileSync(join(ROOT, 'README.md'), 'utf8');
const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: Record<string, string> };

type Step = { readonly command: string; readonly shown: string };

function stepsOf(block: string): Step[] {
  return block.split(/^\$ /m).slice(1).map((step) => {
    const end = step.indexOf('\n');
    return { command: step.slice(0, end), shown: step.slice(end + 1) };
  }); // prettier-ignore
}

const steps = [...page.matchAll(/```console\n([\s\S]*?)```/g)].flatMap(([, block = '']) => stepsOf(block));

/** Whether the lines printed are the lines shown. */
function assertShown(printed: string, shown: string): void {
  const actual = printed.replaceAll(`${ROOT}/`, '…/');
  const pattern = shown.replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`).replaceAll(/^…$\n/gm, String.raw`(?:.*\n)*?`);
  if (!new RegExp(`^${pattern}$`).test(actual)) assert.equal(actual, shown);
}

describe('the worked example', () => {
  const folder = temporaryFolder('readme');
  let server: TestServer;
  const start = async (): Promise<void> => {
    server = await startServer({ TAPEDECK_DATA: folder.path });
    await server.ready();
  };

  /** As on a terminal, where tables are the default form of answers. */
  async function tapedeck(rest: string): Promise<string> {
    const form = rest.startsWith('sql ') ? ' --format table' : '';
    const command = `exec "$NODE" --disable-warning=ExperimentalWarning cli/main.ts ${rest}${form}`;
    const env = { PATH: process.env['PATH'], NODE: process.execPath, TAPEDECK_URL: server.url };
    const { stdout } = await promisify(execFile)('sh', ['-c', command], { cwd: ROOT, env });
    return stdout;
  }

  before(start);
  after(async () => {
    await server?.kill();
    folder.remove();
  });

  for (const { command, shown } of steps) {
    test(command, async () => {
      if (command === 'npm start') await start();
      else if (command === "pkill -9 -f 'cli/main.ts serve'") await server.kill('server');
      else {
        assert.match(command, /^npx tapedeck /);
        await caughtUp(server.url);
        assertShown(await tapedeck(command.replace('npx tapedeck ', '')), shown);
      }
    });
  }
});

test('every command of the example is one that was tried', () => {
  const words = steps.map(({ command }) => /^(?:npx tapedeck )?(\S+)/.exec(command)?.[1]);
  assert.deepEqual(words, ['import', 'sql', 'sql', 'trace', 'trace', 'pkill', 'npm', 'audit', 'rebuild']);
});

test('its scripts and links exist, and it is short', () => {
  for (const [, name = ''] of page.matchAll(/npm run ([a-z:]+)/g)) assert.ok(name in scripts, name);
  for (const name of ['start', 'test']) assert.ok(name in scripts, name);
  for (const [, target = ''] of page.matchAll(/\]\(([^)]+)\)/g)) assert.ok(existsSync(join(ROOT, target)), target);
  assert.ok(page.split('\n').length <= 120, 'README.md is longer than 120 lines');
});
