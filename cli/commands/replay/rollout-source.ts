/** Finds a rollout on a server and brings its events here. */
import { TapedeckError } from '../../../base/errors.ts';
import { splitCborItems } from '../../../events/codec/cbor-items.ts';
import { readEvent } from '../../../events/read-event.ts';
import type { TapedeckEvent } from '../../../events/registry.ts';
import { tapeOf, type Tape, type TapeOptions } from '../../../query/replay/tape/tape.ts';
import { askServer } from '../../render/ask-server.ts';

export type Server = { readonly url: string; readonly project: string };
export type Found = { readonly run: string; readonly rollout: string; readonly trace: string | null };

/** `id` is a rollout or a trace. Throws `not_found`, and `usage` when several runs have one of that name and none is named. */
export async function findRollout(server: Server, id: string, run?: string): Promise<Found> {
  const rows = await rowsOf<{ kind: string; run: string; rollout: string }>(
    server,
    "SELECT DISTINCT kind, run, rollout FROM ids WHERE id = {id:String} AND kind IN ('rollout', 'trace')",
    { id },
  );
  const matching = rows.filter((row) => run === undefined || row.run === run);
  // a rollout and its trace may share a name
  const [found] = matching.toSorted((a, b) => (a.kind < b.kind ? -1 : 1));
  if (found === undefined) {
    const where = run === undefined ? '' : ` in run ${run}`;
    throw new TapedeckError('not_found', `there is no rollout or trace ${id}${where}; what was sent a moment ago may not be stored yet`);
  }
  const runs = [...new Set(matching.map((row) => row.run))];
  if (runs.length > 1) throw new TapedeckError('usage', `${id} is in the runs ${runs.join(', ')}: name one with --run`);
  return { run: found.run, rollout: found.rollout === '' ? id : found.rollout, trace: found.kind === 'trace' ? id : null };
}

export async function eventsOf(server: Server, { run, rollout }: Pick<Found, 'run' | 'rollout'>): Promise<TapedeckEvent[]> {
  const query = new URLSearchParams({ project: server.project, run });
  const answer = await askServer(server.url, `/v1/rollouts/${encodeURIComponent(rollout)}/events?${query.toString()}`);
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const ranges = splitCborItems(bytes);
  if (!ranges.ok) throw new TapedeckError('truncated_body', `the events of rollout ${rollout} broke off: ${ranges.error.message}`);
  return ranges.value.map(({ start, end }) => {
    const event = readEvent(bytes.subarray(start, end));
    if (!event.ok) throw new TapedeckError(event.error.code, `an event of rollout ${rollout} cannot be read: ${event.error.message}`);
    return event.value;
  });
}

export async function loadTape(server: Server, found: Pick<Found, 'run' | 'rollout'>, options: TapeOptions): Promise<Tape> {
  return tapeOf(await eventsOf(server, found), options);
}

/** Rows of a question in SQL. */
export async function rowsOf<T>({ url, project }: Server, query: string, params: Record<string, unknown> = {}): Promise<T[]> {
  const answer = await askServer(url, '/v1/sql', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query, params, project, format: 'ndjson' }),
  });
  return (await answer.text()).split('\n').filter(Boolean).map((line) => JSON.parse(line) as T); // prettier-ignore
}
