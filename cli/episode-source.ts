/** Where an export reads from: the server's lists of rollouts and their original events. */
import { isTapedeckError, TapedeckError } from '../base/errors.ts';
import { decodeCbor } from '../events/codec/cbor-decode.ts';
import { cursorOver, readHead, takeBreak } from '../events/codec/cbor-head.ts';
import { skipItem } from '../events/codec/cbor-items.ts';
import type { EpisodeSource } from '../ingest/importers/export-file.ts';
import { request, requestJson } from './server-request.ts';

const PAGE = 1000;
/** Rollouts asked for in one request; the server may answer fewer. */
const AT_ONCE = 200;

/** Rollouts are read many at a time, and the next ones while the last are written. */
export async function openEpisodeSource(url: string): Promise<EpisodeSource & { close(): Promise<void> }> {
  /** Ids that will be asked for, in their order. */
  let ahead: string[] = [];
  let fetched = new Map<string, Uint8Array[]>();
  let coming: Promise<Map<string, Uint8Array[]>> | null = null;
  const fetchMany = (
    project: string,
    run: string,
    rollouts: readonly string[],
    signal: AbortSignal,
  ): Promise<Map<string, Uint8Array[]>> => {
    const made = eventsOf(url, { project, run, rollouts }, signal);
    made.catch(() => {}); // whoever waits for it hears of it
    return made;
  };
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
        ahead.push(...page.rollouts);
        yield* page.rollouts;
        after = page.next;
      }
    },
    async *rolloutEvents(project, run, rollout, signal) {
      if (!fetched.has(rollout) && coming !== null) {
        fetched = await coming;
        coming = null;
      }
      if (!fetched.has(rollout))
        fetched = await fetchMany(project, run, [rollout, ...ahead.filter((id) => id !== rollout)].slice(0, AT_ONCE), signal);
      ahead = ahead.filter((id) => !fetched.has(id));
      if (coming === null && ahead.length > 0) coming = fetchMany(project, run, ahead.slice(0, AT_ONCE), signal);
      const events = fetched.get(rollout) ?? [];
      if (events.length === 0)
        throw new TapedeckError('not_found', `rollout ${rollout} of run ${run} has no stored events in project ${project}`);
      yield* events;
      fetched.delete(rollout);
    },
    close: async () => {},
  };
}

async function eventsOf(
  url: string,
  wanted: { readonly project: string; readonly run: string; readonly rollouts: readonly string[] },
  signal: AbortSignal,
): Promise<Map<string, Uint8Array[]>> {
  const headers = { 'content-type': 'application/json' };
  const answer = await request(url, '/v1/rollouts/events', { method: 'POST', headers, body: JSON.stringify(wanted), signal });
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const found = new Map<string, Uint8Array[]>();
  try {
    const c = cursorOver(bytes, 0, bytes.length);
    while (c.at < c.end) {
      const start = c.at;
      skipItem(c, 1);
      const events: Uint8Array[] = [];
      found.set(decodeCbor(bytes, start, c.at) as string, events);
      // an array of indefinite length
      readHead(c);
      for (let at = c.at; !takeBreak(c); at = c.at) {
        skipItem(c, 2);
        events.push(bytes.subarray(at, c.at));
      }
    }
  } catch (error) {
    if (!isTapedeckError(error)) throw error;
    throw new TapedeckError('truncated_body', `the events of run ${wanted.run} broke off: ${error.message}`, { cause: error });
  }
  return found;
}
