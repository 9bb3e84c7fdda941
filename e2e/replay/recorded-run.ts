/** A run of three rollouts that one program recorded through the gateway, for tests that replay it. */
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import { startGatewayServer, vllmUpstream, type GatewayServer, type MadeTrace } from '../gateway/gateway-server.ts';
import { temporaryFolder } from '../server.ts';
import { join } from 'node:path';
import { record } from './recorded-program.ts';

const TASKS = ['iron', 'tin', 'lead'];

export type RecordedRun = {
  readonly engine: FakeEngine;
  readonly gateway: GatewayServer;
  /** The rollouts of run-1, one group, in the order in which they were recorded; at least one. */
  readonly made: readonly MadeTrace[];
  readonly first: MadeTrace;
  /** A path in a folder of the run's own. */
  file(name: string): string;
  close(): Promise<void>;
};

/** `name` is a part of the folder's name. */
export async function startRecordedRun(name: string): Promise<RecordedRun> {
  const folder = temporaryFolder(name);
  const engine = await startFakeEngine({ seed: 9 });
  const gateway = await startGatewayServer({ vllm: vllmUpstream(engine) });
  const made: MadeTrace[] = [];
  for (const key of TASKS) {
    const settings = { task: { key }, group: { id: 'g', size: TASKS.length }, agent: { name: 'solver' } };
    made.push(await record(gateway, 'tool-agent', [], settings, { REPLAY_TASK: JSON.stringify({ key }) }));
  }
  return {
    engine,
    gateway,
    made,
    first: made[0] as MadeTrace,
    file: (file) => join(folder.path, file),
    close: async () => {
      await gateway.stop();
      await engine.close();
      folder.remove();
    },
  };
}
