/** The edge of docker-compose.yml in a real nginx: which role gets which request. */
import assert from 'node:assert/strict';
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createServer as createSocket, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse } from 'yaml';
import { ROLES } from '../cli/config.ts';
import { temporaryFolder } from './server.ts';

const ROOT = join(import.meta.dirname, '..');

function nginxMissing(): string | false {
  try {
    execFileSync('nginx', ['-v'], { stdio: 'pipe' });
    return false;
  } catch {
    return 'nginx is not on the path';
  }
}

/** Requests and the role that must answer them. */
const ROUTES: readonly (readonly [method: string, path: string, role: string])[] = [
  ['POST', '/v1/events', 'ingest'],
  ['POST', '/v1/notes', 'ingest'],
  ['GET', '/v1/notes', 'query'],
  ['POST', '/v1/rewards', 'ingest'],
  ['GET', '/v1/rewards?limit=1', 'query'],
  ['POST', '/api/v1/traces', 'ingest'],
  ['POST', '/v1/dead-letters/retry', 'ingest'],
  ['GET', '/v1/dead-letters', 'query'],
  ['POST', '/v1/rollouts', 'gateway'],
  ['GET', '/v1/rollouts?limit=1', 'query'],
  ['GET', '/v1/rollouts/r1', 'query'],
  ['POST', '/v1/rollouts/r1/end', 'gateway'],
  ['POST', '/v1/rollouts/r1/traces', 'gateway'],
  ['GET', '/v1/rollouts/r1/events', 'query'],
  ['POST', '/v1/runs/run-1/keys', 'gateway'],
  ['GET', '/v1/runs', 'query'],
  ['POST', '/v1/chat/completions', 'gateway'],
  ['POST', '/k/key/v1/messages', 'gateway'],
  ['POST', '/inference/v1/generate', 'gateway'],
  ['GET', '/v1/models', 'gateway'],
  ['POST', '/v1/feeds/f/leases', 'feed'],
  ['POST', '/v1/rebuild', 'projector'],
  ['POST', '/v1/sql', 'query'],
  ['GET', '/v1/live', 'query'],
  ['GET', '/clickhouse/?query=SELECT%201', 'query'],
  ['GET', '/roles/feed/readyz', 'feed'],
];

describe('the edge of the compose file', { skip: nginxMissing() }, () => {
  const folder = temporaryFolder('edge');
  const servers: Server[] = [];
  let nginx: ChildProcess;
  let url = '';

  before(async () => {
    const { configs } = parse(readFileSync(join(ROOT, 'docker-compose.yml'), 'utf8'), { merge: true }) as {
      configs: { edge: { content: string } };
    };
    let content = configs.edge.content.replaceAll('$$', '$');
    for (const role of ROLES) {
      const server = createServer((_, reply) => reply.end(role)).listen(0, '127.0.0.1');
      await once(server, 'listening');
      servers.push(server);
      const { port } = server.address() as AddressInfo;
      content = content.replace(
        new RegExp(`upstream ${role} \\{ server 127\\.0\\.0\\.1:\\d+`),
        `upstream ${role} { server 127.0.0.1:${port}`,
      );
    }
    const probe = createSocket().listen(0, '127.0.0.1');
    await once(probe, 'listening');
    const { port } = probe.address() as AddressInfo;
    probe.close();
    url = `http://127.0.0.1:${port}`;
    const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${join(folder.path, name)};`).join(' '); // prettier-ignore
    const file = join(folder.path, 'nginx.conf');
    writeFileSync(file, `daemon off; pid ${join(folder.path, 'pid')}; error_log stderr; events {} http { access_log off; ${paths} ${content.replace('listen 8080', `listen 127.0.0.1:${port}`)} }`); // prettier-ignore
    nginx = spawn('nginx', ['-p', folder.path, '-c', file], { stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    nginx.stderr?.on('data', (chunk: Buffer) => (said += chunk.toString()));
    for (let tries = 0; ; tries++) {
      if (await fetch(`${url}/edge/healthz`).then((reply) => reply.ok, () => false)) return; // prettier-ignore
      assert.ok(tries < 300 && nginx.exitCode === null, `nginx does not answer: ${said}`);
      await sleep(100);
    }
  });
  after(async () => {
    nginx.kill('SIGTERM');
    for (const server of servers) server.close();
    if (nginx.exitCode === null) await once(nginx, 'exit');
    folder.remove();
  });

  for (const [method, path, role] of ROUTES) {
    test(`${method} ${path} goes to ${role}`, async () => {
      const reply = await fetch(url + path, { method });
      assert.deepEqual([reply.status, await reply.text()], [200, role]);
    });
  }
});
