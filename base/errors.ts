/**
 * The one list of error codes. Callers switch on `code`, never on message text.
 * `status` is the HTTP status that carries the code over the wire; `retry` says whether sending the same thing again can help.
 */
export const ERROR_CODES = {
  // input: one item of a batch
  invalid_event: { status: 422, retry: false },
  invalid_json: { status: 400, retry: false },
  invalid_cbor: { status: 400, retry: false },
  invalid_utf8: { status: 400, retry: false },
  duplicate_key: { status: 400, retry: false },
  too_deep: { status: 400, retry: false },
  number_out_of_range: { status: 422, retry: false },
  missing_field: { status: 422, retry: false },
  wrong_type: { status: 422, retry: false },
  invalid_value: { status: 422, retry: false },
  field_too_long: { status: 422, retry: false },
  unsupported_version: { status: 422, retry: false },
  unknown_type: { status: 422, retry: false },
  invalid_id: { status: 422, retry: false },
  id_too_long: { status: 422, retry: false },
  id_mismatch: { status: 422, retry: false },
  mask_length: { status: 422, retry: false },
  is_content_length: { status: 422, retry: false },
  logprobs_length: { status: 422, retry: false },
  stream_length: { status: 422, retry: false },
  token_id_range: { status: 422, retry: false },
  parent_not_before: { status: 422, retry: false },
  time_range: { status: 422, retry: false },
  event_too_large: { status: 413, retry: false },
  producer_gap: { status: 409, retry: false },
  producer_fenced: { status: 409, retry: false },
  run_deleted: { status: 410, retry: false },
  id_reused: { status: 409, retry: false },
  entity_conflict: { status: 409, retry: false },
  // input: the whole request
  body_too_large: { status: 413, retry: false },
  inflated_too_large: { status: 413, retry: false },
  truncated_body: { status: 400, retry: true },
  broken_compression: { status: 400, retry: false },
  unsupported_media_type: { status: 415, retry: false },
  unsupported_encoding: { status: 415, retry: false },
  too_many_items: { status: 413, retry: false },
  slow_body: { status: 408, retry: true },
  idempotency_mismatch: { status: 422, retry: false },
  bad_request: { status: 400, retry: false },
  not_found: { status: 404, retry: false },
  method_not_allowed: { status: 405, retry: false },
  // input: who asks
  unauthorized: { status: 401, retry: false },
  forbidden: { status: 403, retry: false },
  rate_limited: { status: 429, retry: true },
  // input: a call through the gateway
  rollout_ended: { status: 409, retry: false },
  rollout_exists: { status: 409, retry: false },
  limit_reached: { status: 400, retry: false },
  model_unknown: { status: 404, retry: false },
  upstream_unavailable: { status: 502, retry: true },
  upstream_timeout: { status: 504, retry: true },
  upstream_malformed: { status: 502, retry: true },
  // uploads in the shape of another service (docs/uploads.md): its clients stop at 400
  invalid_idempotency_key: { status: 400, retry: false },
  digest_mismatch: { status: 400, retry: false },
  line_format_mismatch: { status: 400, retry: false },
  malformed_encoding: { status: 400, retry: false },
  invalid_metadata: { status: 400, retry: false },
  unsupported_schema_version: { status: 400, retry: false },
  invalid_trace: { status: 400, retry: false },
  trace_too_large: { status: 400, retry: false },
  upload_too_large: { status: 400, retry: false },
  duplicate_episode_id: { status: 400, retry: false },
  duplicate_trace_id: { status: 400, retry: false },
  invalid_filter: { status: 400, retry: false },
  invalid_cursor: { status: 400, retry: false },
  evaluation_closed: { status: 409, retry: false },
  // trainer feeds
  feed_exists: { status: 409, retry: false },
  feed_deleted: { status: 410, retry: false },
  step_mismatch: { status: 409, retry: false },
  plan_mismatch: { status: 409, retry: false },
  chain_mismatch: { status: 409, retry: false },
  lease_held: { status: 409, retry: true },
  lease_lost: { status: 409, retry: false },
  out_of_order: { status: 409, retry: false },
  report_conflict: { status: 409, retry: false },
  row_exceeds_max_tokens: { status: 422, retry: false },
  column_unknown: { status: 422, retry: false },
  cache_corrupt: { status: 500, retry: true },
  // load and life
  overloaded: { status: 429, retry: true },
  log_unavailable: { status: 503, retry: true },
  store_unavailable: { status: 503, retry: true },
  store_locked: { status: 503, retry: true },
  append_unclear: { status: 503, retry: true },
  deadline_exceeded: { status: 504, retry: true },
  aborted: { status: 499, retry: true },
  closed: { status: 503, retry: true },
  not_ready: { status: 503, retry: true },
  // log, store, blobs
  record_too_large: { status: 413, retry: false },
  log_corrupt: { status: 500, retry: false },
  log_locked: { status: 503, retry: true },
  partition_count_changed: { status: 500, retry: false },
  topic_misconfigured: { status: 500, retry: false },
  position_out_of_range: { status: 416, retry: false },
  blob_missing: { status: 404, retry: true },
  blob_corrupt: { status: 500, retry: false },
  disk_full: { status: 503, retry: true },
  not_writable: { status: 503, retry: true },
  schema_unknown: { status: 500, retry: false },
  store_error: { status: 500, retry: false },
  // engines and dialects
  cannot_translate: { status: 400, retry: false },
  malformed_stream: { status: 502, retry: true },
  sse_event_too_large: { status: 502, retry: false },
  sse_truncated: { status: 502, retry: true },
  token_identity: { status: 500, retry: false },
  // replays
  replay_diverged: { status: 409, retry: false },
  replay_exhausted: { status: 409, retry: false },
  replay_unavailable: { status: 422, retry: false },
  rollout_running: { status: 409, retry: false },
  // questions
  sql_refused: { status: 400, retry: false },
  sql_error: { status: 400, retry: false },
  result_too_large: { status: 413, retry: false },
  query_timeout: { status: 408, retry: false },
  // configuration and use
  config_invalid: { status: 500, retry: false },
  address_refused: { status: 500, retry: false },
  usage: { status: 400, retry: false },
  internal: { status: 500, retry: false },
} as const satisfies Record<string, { status: number; retry: boolean }>;

export type ErrorCode = keyof typeof ERROR_CODES;

/** What every failure looks like: a code from the list, a sentence for people, and fields for programs. */
export class TapedeckError extends Error {
  override readonly name = 'TapedeckError';
  readonly code: ErrorCode;
  /** Machine-readable facts: the field, the limit, the position. Never user payloads. */
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; details?: Record<string, unknown> } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.details = options.details ?? {};
  }

  get status(): number {
    return ERROR_CODES[this.code].status;
  }

  get retriable(): boolean {
    return ERROR_CODES[this.code].retry;
  }
}

/** True when `error` is ours and carries one of `codes` (any code when none is given). */
export function isTapedeckError(error: unknown, ...codes: ErrorCode[]): error is TapedeckError {
  return error instanceof TapedeckError && (codes.length === 0 || codes.includes(error.code));
}
