/** Where an export reads from: the server's lists of rollouts and their original events. */
import { splitCborItems } from '../events/codec/cbor-items.ts';
import { TapedeckError } from '../base/errors.ts';
import type { EpisodeSource } from '../ingest/importers/export-file.ts';
import { request, requestJson } from './server-request.ts';

const PAGE = 1000;

export async function openEpisodeSource(url: string): Promise<EpisodeSource & { close(): Promise<void> }> {
  return {
    async *rollouts(project, run, signal) {
      let after: string | null = '';
      while (after !== null) {
        const query = new URLSearchParams({ project, after, limit: String(PAGE) });
        const page: { rollouts: string[]; next: string | null } = await requestJson(
          url,
          `/v1/runs/${encodeURIComponent(run)}/rollouts?${query.toString()}`,
          { signal },
        );
        yield* page.rollouts;
        after = page.next;
      }
    },
    async *rolloutEvents(project, run, rollout, signal) {
      const query = new URLSearchParams({ project, run });
      const answer = await request(url, `/v1/rollouts/${encodeURIComponent(rollout)}/events?${query.toString()}`, { signal });
      const bytes = new Uint8Array(await answer.arrayBuffer());
      const items = splitCborItems(bytes);
      if (!items.ok) throw new TapedeckError('truncated_body', `the events of rollout ${rollout} broke off: ${items.error.message}`);
      for (const { start, end } of items.value) yield bytes.subarray(start, end);
    },
    close: async () => {},
  };
}
