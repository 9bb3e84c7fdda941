/** `tapedeck serve` as a process of its own, with the gateway in front of fake engines in this one. */
import { findFreePort } from './free-port.ts';
import type { FakeEngine } from '../fake-engine/engine.ts';
import { caughtUp, sql } from '../proof.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';

export type MadeTrace = {
  readonly rollout: string;
  readonly trace: string;
  readonly key: string;
  readonly baseUrls: {
    readonly openai: string;
    readonly anthropic: string;
    readonly withKey: { readonly openai: string; readonly anthropic: string };
  };
};

export type GatewayServer = {
  /** The same before and after a restart. */
  readonly url: string;
  server(): TestServer;
  /** Its data folder. */
  readonly folder: string;
  rollout(settings?: Record<string, unknown>): Promise<MadeTrace>;
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<{ status: number; json: unknown }>;
  /** Once everything in the log is in the tables. */
  sql<T>(query: string, params?: Record<string, unknown>): Promise<T[]>;
  /** SIGKILL to the server and its children (which may be gone already), then the same server again over the same folder, with other settings if given. */
  killAndRestart(env?: Readonly<Record<string, string>>): Promise<void>;
  /** At once: nothing is asked of it any more. */
  stop(): Promise<void>;
};

export type UpstreamSetting = Readonly<Record<string, unknown>>;

/** Upstreams by name; see docs/gateway.md for their settings. */
export async function startGatewayServer(
  upstreams: Readonly<Record<string, UpstreamSetting>>,
  env: Readonly<Record<string, string>> = {},
): Promise<GatewayServer> {
  const folder = temporaryFolder('gateway-e2e');
  const port = await findFreePort();
  const start = async (more: Readonly<Record<string, string>> = {}): Promise<TestServer> => {
    const started = await startServer({
      TAPEDECK_DATA: folder.path,
      TAPEDECK_PORT: String(port),
      TAPEDECK_UPSTREAMS: JSON.stringify(upstreams),
      TAPEDECK_BLOCK_WAIT_MS: '50',
      ...env,
      ...more,
    });
    try {
      await started.ready();
    } catch (error) {
      await started.kill('tree');
      throw error;
    }
    return started;
  };
  let server = await start();
  const url = `http://127.0.0.1:${port}`;
  const post: GatewayServer['post'] = async (path, body, headers = {}) => {
    const answer = await fetch(url + path, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json', ...headers },
    });
    return { status: answer.status, json: await answer.json() };
  };
  return {
    url,
    server: () => server,
    folder: env['TAPEDECK_DATA'] ?? folder.path,
    post,
    rollout: async (settings = {}) => {
      const made = await post('/v1/rollouts', { run: 'run-1', env: { id: 'toy' }, ...settings });
      if (made.status !== 201) throw new Error(JSON.stringify(made));
      return made.json as MadeTrace;
    },
    sql: async <T>(query: string, params: Record<string, unknown> = {}) => {
      await caughtUp(url);
      return sql<T>(url, query, params);
    },
    killAndRestart: async (more) => {
      await server.kill('tree');
      server = await start(more);
    },
    stop: async () => {
      await server.kill('tree');
      folder.remove();
    },
  };
}

/** The settings of an upstream for a fake engine of vLLM's kind. */
export function vllmUpstream(engine: FakeEngine, more: UpstreamSetting = {}): UpstreamSetting {
  return { kind: 'vllm', url: engine.url, ...more };
}
