/** `tapedeck serve` with API keys, and the commands that make them, as an operator would use both. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';

const run = promisify(execFile);
const MAIN = join(import.meta.dirname, '../../cli/main.ts');

/** Runs a command; both outputs and the exit code. */
export async function tapedeck(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<{ readonly code: number; readonly out: string; readonly err: string }> {
  const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TAPEDECK_')));
  try {
    const { stdout, stderr } = await run(process.execPath, ['--disable-warning=ExperimentalWarning', MAIN, ...args], {
      env: { ...clean, ...env },
      maxBuffer: 64 * 1024 * 1024,
    });
    return { code: 0, out: stdout, err: stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, out: stdout, err: stderr };
  }
}

/** The text of a new key. */
export async function createKey(data: string, ...args: readonly string[]): Promise<string> {
  const { code, out, err } = await tapedeck(['keys', 'create', ...args], { TAPEDECK_DATA: data });
  if (code !== 0) throw new Error(err);
  return out.trim();
}

export type Reply = { readonly status: number; readonly headers: Headers; readonly text: string; readonly code: string | undefined };

export type KeyedServer = {
  readonly server: TestServer;
  readonly data: string;
  readonly keys: Readonly<Record<string, string>>;
  /** With `key` as the bearer, unless it is null. */
  ask(key: string | null, method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Reply>;
  stop(): Promise<void>;
};

/** Keys are made before the first start: `names` to the arguments of `tapedeck keys create`. */
export async function startKeyedServer(
  names: Readonly<Record<string, readonly string[]>>,
  env: Readonly<Record<string, string>> = {},
): Promise<KeyedServer> {
  const folder = temporaryFolder('security');
  const keys: Record<string, string> = {};
  for (const [name, args] of Object.entries(names)) keys[name] = await createKey(folder.path, ...args);
  const server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_BLOCK_WAIT_MS: '50', ...env });
  await server.ready();
  return {
    server,
    data: folder.path,
    keys,
    ask: async (key, method, path, body, headers = {}) => {
      const answer = await fetch(new URL(path, server.url), {
        method,
        headers: {
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(key === null ? {} : { authorization: `Bearer ${key}` }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      return replyOf(answer);
    },
    stop: async () => {
      await server.kill('tree');
      folder.remove();
    },
  };
}

export async function replyOf(answer: Response): Promise<Reply> {
  const text = await answer.text();
  let code: string | undefined;
  try {
    code = (JSON.parse(text) as { error?: { code?: string } }).error?.code;
  } catch {
    code = undefined;
  }
  return { status: answer.status, headers: answer.headers, text, code };
}
