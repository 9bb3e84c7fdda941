import { ERROR_CODES, type ErrorCode } from '../../base/errors.ts';

/** What codes mean at this edge and what to do; codes of other parts stand in the table without. */
const MEANINGS: Partial<Readonly<Record<ErrorCode, string>>> = {
  invalid_event: 'the item is no event: send an object',
  invalid_json: 'the text is not JSON: for a body of NDJSON only that line is refused',
  invalid_cbor: 'the bytes are not CBOR, or hold what an event may not hold',
  invalid_utf8: 'text that is not UTF-8',
  duplicate_key: 'a key stands twice in one object',
  too_deep: 'nested deeper than 256 levels',
  number_out_of_range: 'a number that its field cannot hold',
  missing_field: 'a field that this type needs is missing',
  wrong_type: 'a field of another kind than the schema says',
  invalid_value: 'a value outside the list or pattern of its field',
  field_too_long: 'a field longer than its limit',
  unsupported_version: '`v` is not known here',
  unknown_type: 'listed under `deadLettered`: in the log, not projected until a server that knows the type retries it',
  invalid_id: 'not a UUID, or an empty id',
  id_too_long: 'an id over 256 bytes',
  id_mismatch: 'two fields name the same entity differently',
  mask_length: '`mask` and `ids` differ in length',
  is_content_length: '`isContent` and `ids` differ in length',
  logprobs_length: '`logprobs` must have one element per masked token',
  stream_length: 'a token stream of the wrong length',
  token_id_range: 'token ids go up to 2^31 - 1',
  parent_not_before: '`parent` must be smaller than `index`',
  time_range: 'integer microseconds since 1970, up to the year 2200',
  event_too_large: 'still over the record limit after large values left it: split it',
  producer_gap: 'a number was left out: send again from the number that the message names, or start a new epoch',
  producer_fenced: 'a newer epoch of this producer is at work: stop this writer',
  run_deleted: 'the run was deleted for ever: use another run id',
  id_reused: 'the id of an earlier item with other content: every event needs an id of its own',
  body_too_large: 'send smaller batches',
  inflated_too_large: 'send smaller batches',
  truncated_body: 'the body ended early: send it whole',
  broken_compression: 'not valid gzip or zstd',
  unsupported_media_type: 'send JSON, NDJSON or CBOR',
  unsupported_encoding: 'send gzip, zstd or none',
  too_many_items: 'send smaller batches',
  slow_body: 'the body came too slowly',
  idempotency_mismatch: 'the key was used with another body',
  bad_request: 'see the message',
  not_found: 'no such endpoint',
  method_not_allowed: 'see the Allow header',
  unauthorized: 'the key is missing, wrong, expired, revoked or made with another secret',
  forbidden: 'the key is for another project or a lesser role; or the request comes from a page of another site',
  rate_limited: 'the key asks more often than it may: send again after Retry-After',
  rollout_ended: 'the rollout was ended: start another one',
  rollout_exists: 'the id is taken: choose another one, or none',
  limit_reached: 'a limit of the rollout was reached: the message names it',
  model_unknown: 'no upstream serves this model: see TAPEDECK_UPSTREAMS',
  upstream_unavailable: 'no upstream could be reached',
  upstream_timeout: 'the upstream took too long',
  upstream_malformed: 'the upstream answered what cannot be read',
  overloaded: 'too many bytes in flight: send again after Retry-After',
  log_unavailable: 'nothing was sent to the log: send again',
  store_unavailable: 'the blob store, or the states of producers, are not there yet: send again',
  deadline_exceeded: 'earlier requests of the same producer took too long: send again',
  append_unclear: 'the events may or may not be in the log: send the same events again',
  closed: 'the server is closing: send again',
  not_ready: '`/readyz`: `details.checks` says what is waited for',
  disk_full: 'no space for the log or the blobs: send again when there is',
  not_writable: 'the log or the blobs cannot be written: send again when that is mended',
  internal: 'a bug: the server log has it',
};

/** The table of docs/http.md: every code of base/errors.ts with its status and whether sending the same again can help. */
export function codesTable(): string {
  const rows = (Object.keys(ERROR_CODES) as ErrorCode[]).map((code) => {
    const { status, retry } = ERROR_CODES[code];
    return `| \`${code}\` | ${status} | ${retry ? 'yes' : ''} | ${MEANINGS[code] ?? ''} |`;
  });
  return ['| code | status | send again | meaning |', '|---|---|---|---|', ...rows].join('\n');
}
