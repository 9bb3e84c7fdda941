/** Starts moto's S3-compatible server for tests. */
import { spawn } from 'node:child_process';
import { createServer, type AddressInfo } from 'node:net';
import { systemClock } from '../base/clock.ts';
import { findPython } from './python.ts';

export interface Moto {
  readonly endpoint: string;
  close(): Promise<void>;
}

/** The server, or why there is none (to skip with). */
export async function startMoto(): Promise<Moto | { missing: string }> {
  const found = await findPython({ packages: ['moto[server]==5.2.1'], imports: ['moto.server', 'flask', 'flask_cors'] });
  if ('missing' in found) return found;
  const port = await freePort();
  const child = spawn(found.python, ['-m', 'moto.server', '-H', '127.0.0.1', '-p', String(port)], { stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  child.stderr.on('data', (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-4_000);
  });
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const endpoint = `http://127.0.0.1:${port}`;
  for (let tries = 0; ; tries++) {
    const up = await fetch(endpoint, { signal: AbortSignal.timeout(1_000) }).then(
      (r) => r.ok,
      () => false,
    );
    if (up) break;
    if (child.exitCode !== null || tries > 300) throw new Error(`moto did not start: ${output}`);
    await systemClock.sleep(100);
  }
  return {
    endpoint,
    close: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
