/** A rollout of its own for what a replay does live: linked to the one it was forked from, which never changes. */
import type { Tape } from '../../../query/replay/tape/tape.ts';
import { postJson } from '../../server-request.ts';
import type { Server } from './rollout-source.ts';

export type ForkSettings = {
  /** Null = from the start. */
  readonly forkNode: { readonly trace: string; readonly index: number } | null;
  /** Default: the parent's. */
  readonly run?: string;
  readonly group?: { readonly id: string; readonly size: number };
  readonly model?: string;
  readonly sampling?: Readonly<Record<string, unknown>>;
  readonly upstream?: string;
  readonly agent?: string | null;
};

export type MintedFork = { readonly rollout: string; readonly trace: string; readonly key: string };

/** `POST /v1/rollouts` with the task and environment of the parent. Throws what the server refuses. */
export async function mintFork({ url, project }: Server, tape: Tape, settings: ForkSettings): Promise<MintedFork> {
  const { started } = tape;
  const { forkNode, group, model, sampling, upstream, agent } = settings;
  const name = agent ?? tape.traces.find(({ trace }) => trace === forkNode?.trace)?.agent ?? tape.traces[0]?.agent;
  return postJson<MintedFork>(url, '/v1/rollouts', {
    project,
    run: settings.run ?? tape.run,
    ...(started?.env != null && { env: started.env }),
    ...(started?.task != null && { task: started.task }),
    ...(started?.work != null && { work: started.work }),
    ...(name != null && { agent: { name } }),
    ...(group !== undefined && { group }),
    ...(model !== undefined && { model }),
    ...(sampling !== undefined && { sampling }),
    ...(upstream !== undefined && { upstream }),
    parentRollout: tape.rollout,
    ...(forkNode !== null && { forkNode }),
  });
}

export async function endFork({ url, project }: Server, rollout: string, ok: boolean): Promise<void> {
  await postJson(url, `/v1/rollouts/${encodeURIComponent(rollout)}/end`, { project, ok });
}
