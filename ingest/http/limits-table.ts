import { INGEST_LIMITS, type IngestLimits } from './limits.ts';

type Row = { readonly about: string; readonly setting: string; readonly code: string };

/** Those that a request can meet at this edge. */
type Name = Exclude<keyof IngestLimits, 'opaqueBytes'>;

const ROWS: Readonly<Record<Name, Row>> = {
  bodyBytes: { about: 'body as sent, bytes', setting: 'TAPEDECK_MAX_BODY_BYTES', code: 'body_too_large' },
  inflatedBytes: { about: 'body after decompression, bytes', setting: 'TAPEDECK_MAX_INFLATED_BYTES', code: 'inflated_too_large' },
  items: { about: 'events in one request', setting: 'TAPEDECK_MAX_ITEMS', code: 'too_many_items' },
  eventBytes: { about: 'one event as a log record, bytes', setting: 'TAPEDECK_MAX_EVENT_BYTES', code: 'event_too_large' },
  valueBytes: { about: 'one value that stays in its event, bytes', setting: 'TAPEDECK_INLINE_BYTES', code: '' },
  inFlightBytes: { about: 'bodies in memory together, bytes', setting: 'TAPEDECK_IN_FLIGHT_BYTES', code: 'overloaded' },
  bodyMs: { about: 'time for a whole body, ms', setting: 'TAPEDECK_BODY_TIMEOUT_MS', code: 'slow_body' },
  bodyIdleMs: { about: 'pause between two pieces of a body, ms', setting: '', code: 'slow_body' },
  storeMs: { about: 'time for the log or the blob store, ms', setting: '', code: 'append_unclear' },
  pooledBytes: { about: 'free body buffers kept, bytes', setting: '', code: '' },
  idempotencyBytes: { about: 'answers kept for Idempotency-Key, bytes', setting: '', code: '' },
  idempotencyMs: { about: 'how long they are kept, ms', setting: '', code: '' },
};

/** The table of limits in docs/http.md: what is limited, the default, the setting that changes it, the code that names it. */
export function limitsTable(): string {
  const rows = (Object.keys(ROWS) as Name[]).map((name) => {
    const { about, setting, code } = ROWS[name];
    return `| ${about} | ${INGEST_LIMITS[name].toLocaleString('en')} | ${ticked(setting)} | ${ticked(code)} |`;
  });
  return ['| limit | default | setting | code |', '|---|---|---|---|', ...rows].join('\n');
}

function ticked(text: string): string {
  return text === '' ? '' : `\`${text}\``;
}
