/** A new feed over the same groups in the same batches as another: yesterday's run under another algorithm. */
import { TapedeckError } from '../../../base/errors.ts';
import { askServer } from '../../render/ask-server.ts';
import { readSpec } from '../feed/read-spec.ts';

export type DeriveOptions = {
  readonly url: string;
  readonly project: string;
  readonly as: string;
  readonly algorithm?: string;
  readonly spec?: string;
  readonly rewards: string;
};

/** Answers what to print. The spec is that of the other feed, then `--algorithm`, then what `--spec` says. Throws what the server refuses. */
export async function deriveFeed(feed: string, { url, project, as, algorithm, spec: file, rewards }: DeriveOptions): Promise<string> {
  if (rewards !== 'cut' && rewards !== 'latest') throw new TapedeckError('usage', '--rewards must be cut or latest');
  const query = `?project=${encodeURIComponent(project)}`;
  const { spec } = (await (await askServer(url, `/v1/feeds/${encodeURIComponent(feed)}${query}`)).json()) as {
    spec: Record<string, unknown>;
  };
  const own = file === undefined ? {} : await readSpec(file);
  const next = {
    ...spec,
    ...(algorithm !== undefined && { envs: {}, others: { score: { algorithm } } }),
    ...(own as object),
    membership: `as:${feed}`,
    rewardsAsOf: rewards,
  };
  const answer = await askServer(url, `/v1/feeds${query}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ feed: as, project, spec: next }),
  });
  const made = (await answer.json()) as { readonly feed: string; readonly specHash: string };
  return `feed ${made.feed} is there (spec ${made.specHash.slice(0, 12)}): the groups of ${feed} in the same batches, rewards as of ${rewards === 'cut' ? 'their cut' : 'now'}\n`;
}
