/**
 * `X-ClickHouse-Progress`: what a query has read so far, as header lines while it runs, for clients that ask for them (`send_progress_in_http_headers`): a screen can
 * show it, and a connection that a proxy would give up as idle stays open. As with ClickHouse itself the status is sent with the first of them, so that an error which
 * comes later has status 200 and is known by its header `X-ClickHouse-Exception-Code`.
 */
import type { ServerResponse } from 'node:http';
import type { Clock } from '../../base/clock.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';

export type ProgressPorts = { readonly store: ColumnStore; readonly clock: Clock };

type Process = { readonly read_rows: string; readonly read_bytes: string; readonly total_rows: string; readonly elapsed_ns: string };

const DEFAULT_INTERVAL_MS = 100;
const LEAST_INTERVAL_MS = 10;
const MOST_INTERVAL_MS = 600_000;
/** After so many lines the interval doubles, and in the end there are no more: clients take 16 KiB of headers. */
const LINES_AT_A_PACE = 16;
const MAX_LINES = 96;
const POLL_TIMEOUT_MS = 5_000;

/** A server knows a query by its id; the embedded engine carries the id as a comment. */
const PROCESS =
  'SELECT toString(read_rows) AS read_rows, toString(read_bytes) AS read_bytes, toString(total_rows_approx) AS total_rows, toString(toUInt64(elapsed * 1e9)) AS elapsed_ns ' +
  "FROM system.processes WHERE query_id = {id:String} OR Settings['log_comment'] = {id:String} LIMIT 1";

/** How often a request wants progress, milliseconds; null: it wants none. */
export function progressInterval(parameters: URLSearchParams): number | null {
  if (!['1', 'true'].includes(parameters.get('send_progress_in_http_headers') ?? '')) return null;
  const asked = Number(parameters.get('http_headers_progress_interval_ms') ?? DEFAULT_INTERVAL_MS);
  return Number.isFinite(asked) ? Math.min(Math.max(asked, LEAST_INTERVAL_MS), MOST_INTERVAL_MS) : DEFAULT_INTERVAL_MS;
}

/** Writes a line every `intervalMs` until `over` aborts or the answer begins. A question that the store does not answer is left out. */
export async function sendProgress(
  response: ServerResponse,
  { queryId, intervalMs }: { readonly queryId: string; readonly intervalMs: number },
  { store, clock }: ProgressPorts,
  over: AbortSignal,
): Promise<void> {
  let pace = intervalMs;
  for (let lines = 0; lines < MAX_LINES;) {
    await clock.sleep(pace, over).catch(() => undefined);
    if (over.aborted) return;
    const found = await processOf(store, queryId, over);
    if (over.aborted || response.headersSent || response.destroyed) return;
    if (found === null) continue;
    writeLine(response, found);
    lines++;
    if (lines % LINES_AT_A_PACE === 0) pace *= 2;
  }
}

async function processOf(store: ColumnStore, queryId: string, signal: AbortSignal): Promise<Process | null> {
  try {
    const [row] = await store.rows<Process>(PROCESS, { params: { id: queryId }, timeoutMs: POLL_TIMEOUT_MS, signal });
    return row ?? null;
  } catch {
    return null; // the query itself says what is wrong
  }
}

const STARTED = new WeakSet<ServerResponse>();

function writeLine(response: ServerResponse, { read_rows, read_bytes, total_rows, elapsed_ns }: Process): void {
  const { socket } = response;
  if (socket === null || socket.destroyed) return;
  const said = JSON.stringify({ read_rows, read_bytes, total_rows_to_read: total_rows, elapsed_ns });
  if (!STARTED.has(response)) {
    STARTED.add(response);
    continueHead(response);
    socket.write('HTTP/1.1 200 OK\r\n');
  }
  socket.write(`X-ClickHouse-Progress: ${said}\r\n`);
}

/** The status line is out: what Node writes later begins with the header behind it. Node has no call for this, so the text that it made is cut. */
function continueHead(response: ServerResponse): void {
  const writeHead = response.writeHead.bind(response) as (...given: unknown[]) => ServerResponse;
  response.writeHead = (...given: unknown[]) => {
    writeHead(...given);
    const made = response as unknown as { _header: string };
    made._header = made._header.slice(made._header.indexOf('\r\n') + 2);
    return response;
  };
}
