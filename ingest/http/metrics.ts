import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { ErrorCode } from '../../base/errors.ts';
import type { Accepted } from '../accept.ts';

/** What the edge counts. Labels are closed lists (types, codes, routes, statuses), so that a client cannot make series. */
export type IngestMetrics = {
  onAccepted(accepted: Accepted, bodyBytes: number): void;
  /** A whole request was refused. */
  onRefused(code: ErrorCode): void;
  onAppend(seconds: number, ok: boolean): void;
  onRequest(route: string, status: number): void;
};

export function createIngestMetrics(registry: Registry, bytesInFlight: () => number): IngestMetrics {
  const registers = [registry];
  const accepted = new Counter({
    name: 'tapedeck_events_accepted_total',
    help: 'Events made durable, by type',
    labelNames: ['type'],
    registers,
  });
  const duplicates = new Counter({ name: 'tapedeck_events_duplicate_total', help: 'Events recognised as already sent', registers });
  const rejected = new Counter({
    name: 'tapedeck_events_rejected_total',
    help: 'Events not taken, by code',
    labelNames: ['code'],
    registers,
  });
  const deadLettered = new Counter({
    name: 'tapedeck_events_unknown_type_total',
    help: 'Events accepted that this version cannot project',
    registers,
  });
  const refused = new Counter({
    name: 'tapedeck_ingest_refused_total',
    help: 'Requests refused as a whole, by code',
    labelNames: ['code'],
    registers,
  });
  const bodyBytes = new Counter({
    name: 'tapedeck_ingest_body_bytes_total',
    help: 'Bytes of accepted bodies, after decompression',
    registers,
  });
  const appendSeconds = new Histogram({
    name: 'tapedeck_log_append_seconds',
    help: 'Time until an append was durable or failed',
    labelNames: ['ok'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers,
  });
  const requests = new Counter({
    name: 'tapedeck_http_requests_total',
    help: 'Requests answered',
    labelNames: ['route', 'status'],
    registers,
  });
  new Gauge({
    name: 'tapedeck_ingest_bytes_in_flight',
    help: 'Bytes of bodies in memory',
    registers,
    collect() {
      this.set(bytesInFlight());
    },
  });
  return {
    onAccepted(result, bytes) {
      for (const [type, count] of result.types) accepted.inc({ type }, count);
      if (result.duplicates > 0) duplicates.inc(result.duplicates);
      for (const { code } of result.rejected) rejected.inc({ code });
      if (result.deadLettered.length > 0) deadLettered.inc(result.deadLettered.length);
      bodyBytes.inc(bytes);
    },
    onRefused: (code) => refused.inc({ code }),
    onAppend: (seconds, ok) => appendSeconds.observe({ ok: String(ok) }, seconds),
    onRequest: (route, status) => requests.inc({ route, status: String(status) }),
  };
}
