/** `POST /api/v1/traces`: lines of episodes or traces, all or nothing. The receipt is a function of the bytes, so the same bytes always get the same one. */
import { createHash, type Hash } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import { openClaim, type Claim } from '../http/claim.ts';
import type { IngestPorts } from '../http/server.ts';
import { makeEvent, type ImportedEvent, type Scope } from '../importers/event-maker.ts';
import { inflatedBytes } from '../importers/file-bytes.ts';
import { readLines, type Line } from '../importers/line-reader.ts';
import { UPLOAD_LABEL } from '../importers/note-labels.ts';
import { jsonReader } from '../importers/read-json.ts';
import { openDraft, type Draft } from './draft.ts';
import type { Evaluations } from './evaluations.ts';
import { boundaryOf, multipartParts, type Part } from './multipart.ts';
import { recent, type Recent } from './recent.ts';
import { requestBytes } from './request-bytes.ts';
import { lineEvents, lineFormatOf, type LineFormat } from './upload-line.ts';
import type { UploadLimits } from './upload-limits.ts';
import { readMetadata, type UploadMetadata } from './upload-metadata.ts';

export type UploadPorts = IngestPorts & { readonly evaluations: Evaluations; readonly uploads: UploadLimits };

/** The upload id is the sha256 of the uncompressed bytes. */
type Receipt = { readonly upload_id: string; readonly status: 'committed' };

/** Digests whose lines are durable, and the runs they belong to: the same bytes again need no second append. After a restart they are appended again, as duplicates. */
const REMEMBERED = 10_000;

export function registerUploads(app: FastifyInstance, ports: UploadPorts): void {
  const committed = recent<readonly string[]>(REMEMBERED);
  app.post('/api/v1/traces', { schema: { summary: 'Upload verifiers episodes or traces', tags: ['uploads'] } }, async (request, reply) => {
    const claim = openClaim(ports.budget);
    try {
      return await reply.send(await receiveUpload(request, claim, ports, committed));
    } finally {
      claim.release();
    }
  });
}

/** What one upload has said so far. */
type Upload = {
  readonly digest: string;
  readonly format: LineFormat;
  /** These bytes are durable already: they are only hashed. */
  readonly isKnown: boolean;
  readonly draft: Draft;
  readonly rollouts: { readonly scope: Scope; readonly time: number }[];
  readonly runs: Map<string, ImportedEvent>;
  readonly episodes: Set<string>;
  readonly traces: Set<string>;
  readonly hash: Hash;
  bytes: number;
  taken: number;
  lines: number;
};

async function receiveUpload(
  request: FastifyRequest,
  claim: Claim,
  ports: UploadPorts,
  committed: Recent<readonly string[]>,
): Promise<Receipt> {
  const { headers } = request;
  const digest = digestOf(headers['idempotency-key']);
  const format = lineFormatOf(textHeader(headers['x-prime-line-format']));
  if (!format.ok) throw new TapedeckError(format.error.code, format.error.message);
  const encoding = headers['content-encoding'] ?? 'identity';
  if (encoding !== 'identity')
    throw new TapedeckError('malformed_encoding', 'the request as a whole must not be compressed: compress the part traces (gzip)');
  const { uploads: limits } = ports;
  const maxBytes = limits.uploadBytes + limits.metadataBytes + 64 * 1024;
  if (Number(headers['content-length'] ?? 0) > maxBytes) throw tooLarge('the request', limits.uploadBytes);

  const key = `${format.value}:${digest}`;
  const known = committed.get(key);
  const draft = openDraft({
    accept: ports.accept,
    claim,
    maxEventBytes: limits.eventBytes,
    unit: 'line',
    onAccepted: (accepted, bytes) => ports.metrics.onAccepted(accepted, bytes),
  });
  const upload: Upload = {
    digest, format: format.value, isKnown: known !== undefined, draft, rollouts: [], runs: new Map(), episodes: new Set(), traces: new Set(),
    hash: createHash('sha256'), bytes: 0, taken: 0, lines: 0,
  }; // prettier-ignore
  const boundary = boundaryOf(headers['content-type']);
  const source = requestBytes(request.raw, { clock: ports.clock, idleMs: ports.limits.bodyIdleMs, totalMs: limits.uploadMs });
  const metadata = await readParts(multipartParts(upTo(source, maxBytes), boundary), upload, ports);
  if (upload.hash.digest('hex') !== digest)
    throw new TapedeckError(
      'digest_mismatch',
      'Idempotency-Key is not the sha256 of the uncompressed part traces; send the bytes that it was made of',
    );
  const runs = known ?? [...upload.runs.keys()];
  if (known === undefined) {
    await commit(upload, metadata, ports);
    committed.set(key, runs);
  } else refuseDeleted(runs, ports);
  return { upload_id: digest, status: 'committed' };
}

async function readParts(parts: AsyncGenerator<Part>, upload: Upload, ports: UploadPorts): Promise<UploadMetadata> {
  let metadata: UploadMetadata | null = null;
  let hasTraces = false;
  for await (const part of parts) {
    if (part.name === 'metadata') {
      if (metadata !== null) throw new TapedeckError('invalid_metadata', 'the part metadata came twice');
      metadata = readMetadata(await wholePart(part, ports.uploads.metadataBytes));
    } else if (part.name === 'traces') {
      if (hasTraces) throw new TapedeckError('malformed_encoding', 'the part traces came twice; send one part with all lines');
      hasTraces = true;
      await readTraces(part, upload, ports);
    } else {
      throw new TapedeckError(
        'malformed_encoding',
        `there is no part ${JSON.stringify(part.name.slice(0, 80))}; send the parts metadata and traces`,
      );
    }
  }
  if (metadata === null) throw new TapedeckError('invalid_metadata', 'the part metadata is missing');
  if (!hasTraces) throw new TapedeckError('malformed_encoding', 'the part traces is missing');
  if (upload.lines === 0 && !upload.isKnown) throw new TapedeckError('invalid_trace', 'the part traces has no line');
  return metadata;
}

/** Bytes of lines worked on before others may run. */
const STEP_BYTES = 1024 * 1024;

async function readTraces(part: Part, upload: Upload, ports: UploadPorts): Promise<void> {
  const { uploads: limits, clock } = ports;
  const counted = async function* (): AsyncGenerator<Buffer> {
    for await (const chunk of plainBytes(part)) {
      upload.bytes += chunk.length;
      if (upload.bytes > limits.uploadBytes) throw tooLarge('the part traces after decompression', limits.uploadBytes);
      upload.hash.update(chunk);
      if (!upload.isKnown) upload.draft.hold(upload.bytes - upload.taken);
      yield chunk;
    }
  };
  if (upload.isKnown) {
    for await (const _ of counted());
    return;
  }
  const read = jsonReader();
  let stepAt = STEP_BYTES;
  let last: Line | null = null;
  for await (const lines of readLines(counted(), limits.lineBytes)) {
    for (const line of lines) {
      // what a broken source leaves looks the same as a last line without its line feed
      if (!line.terminated) {
        last = line;
        continue;
      }
      await takeLine(line, upload, read, limits);
      if (upload.taken < stepAt) continue;
      stepAt = upload.taken + STEP_BYTES;
      await clock.sleep(0);
    }
  }
  if (last !== null) await takeLine(last, upload, read, limits);
  upload.draft.hold(0);
}

async function takeLine(line: Line, upload: Upload, read: ReturnType<typeof jsonReader>, limits: UploadLimits): Promise<void> {
  if (line.bytes === null) {
    const message = `line ${line.number} has ${line.length} bytes, the limit is ${limits.lineBytes}; nothing was stored`;
    throw new TapedeckError('trace_too_large', message, { details: { line: line.number, limit: limits.lineBytes } });
  }
  upload.lines++;
  const value = read(line.bytes);
  const mapped = value.ok ? lineEvents(value.value, upload.format, {}) : value;
  if (!mapped.ok) throw lineProblem(line.number, mapped.error.code, mapped.error.message, mapped.error.field);
  const { run, runEvent, rollout, group, time, events, traces } = mapped.value;
  once(upload.episodes, rollout, line.number, upload.format);
  for (const trace of traces) once(upload.traces, trace, line.number, 'trace');
  if (!upload.runs.has(run)) upload.runs.set(run, runEvent);
  await upload.draft.add(events, line.number);
  upload.rollouts.push({ scope: { run, group, rollout }, time });
  upload.taken += line.length + 1;
}

function once(seen: Set<string>, id: string, line: number, what: LineFormat): void {
  if (seen.has(id)) {
    const code = what === 'episode' ? 'duplicate_episode_id' : 'duplicate_trace_id';
    throw new TapedeckError(code, `line ${line}: the ${what} id ${JSON.stringify(id)} came before in this upload; nothing was stored`, {
      details: { line },
    });
  }
  seen.add(id);
}

function lineProblem(line: number, code: string, message: string, field?: string): TapedeckError {
  const own = code === 'line_format_mismatch' ? code : 'invalid_trace';
  return new TapedeckError(own, `line ${line}: ${message}; nothing was stored`, {
    details: { line, code, ...(field !== undefined && { field }) },
  });
}

/**
 * Adds what comes with the lines, then appends all: the start of runs that were not started yet, and a note per rollout that names the upload and its context. A run that
 * somebody else starts meanwhile has two starts, which complete each other.
 */
async function commit(upload: Upload, { context }: UploadMetadata, ports: UploadPorts): Promise<void> {
  const { draft, digest, format } = upload;
  for (const [run, event] of upload.runs) if ((await ports.evaluations.isStarted(run)) !== true) await draft.add([event], 0);
  const extra = { upload: digest, format, context };
  for (const { scope, time } of upload.rollouts) {
    await draft.add([makeEvent(scope, 'note.added', `upload/${digest}`, time, { scope: 'rollout', label: UPLOAD_LABEL, extra })], 0);
  }
  await draft.commit();
  for (const run of upload.runs.keys()) ports.evaluations.started(run);
}

function refuseDeleted(runs: readonly string[], { accept }: UploadPorts): void {
  const deleted = runs.find((run) => accept.tombstones.has(undefined, run));
  if (deleted !== undefined) throw new TapedeckError('run_deleted', `run ${JSON.stringify(deleted)} was deleted; upload to another run`);
}

const LINE_TYPES = /^application\/(x-ndjson|ndjson|jsonl|x-jsonlines|json|octet-stream)\s*(;|$)/i;

/** The content of the part traces without its compression. */
async function* plainBytes(part: Part): AsyncGenerator<Buffer> {
  const type = part.headers.get('content-type');
  if (type !== undefined && !LINE_TYPES.test(type))
    throw new TapedeckError('malformed_encoding', `the part traces is ${JSON.stringify(type.slice(0, 80))}; send application/x-ndjson`);
  const encoding = (part.headers.get('content-encoding') ?? 'identity').trim().toLowerCase();
  if (encoding === 'identity' || encoding === '') return yield* part.bytes;
  if (encoding !== 'gzip')
    throw new TapedeckError(
      'malformed_encoding',
      `Content-Encoding ${JSON.stringify(encoding.slice(0, 40))} of the part traces is not known; send gzip or none`,
    );
  try {
    yield* inflatedBytes(part.bytes, 'gzip');
  } catch (error) {
    // the source's own errors go on; those of the decompressor become one of this endpoint
    const cause = error instanceof Error ? error.cause : undefined;
    if (isTapedeckError(error, 'broken_compression') || (isTapedeckError(error, 'truncated_body') && isZlib(cause)))
      throw new TapedeckError('malformed_encoding', 'the part traces is not valid gzip: it is cut off or damaged; compress it again', {
        cause: error,
      });
    if (isTapedeckError(error, 'inflated_too_large')) throw new TapedeckError('upload_too_large', error.message, { cause: error });
    throw error;
  }
}

function isZlib(cause: unknown): boolean {
  return typeof cause === 'object' && cause !== null && String((cause as { code?: unknown }).code).startsWith('Z_');
}

async function wholePart(part: Part, limit: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of part.bytes) {
    length += piece.length;
    if (length > limit)
      throw new TapedeckError('invalid_metadata', `the part ${part.name} has more than ${limit} bytes`, { details: { limit } });
    pieces.push(Buffer.from(piece));
  }
  return Buffer.concat(pieces);
}

async function* upTo(source: AsyncIterable<Buffer>, limit: number): AsyncGenerator<Buffer> {
  let length = 0;
  for await (const piece of source) {
    length += piece.length;
    if (length > limit) throw tooLarge('the request', limit);
    yield piece;
  }
}

function tooLarge(what: string, limit: number): TapedeckError {
  return new TapedeckError('upload_too_large', `${what} has more than ${limit} bytes; send smaller uploads`, { details: { limit } });
}

function digestOf(key: string | string[] | undefined): string {
  const found = /^sha256:([0-9a-f]{64})$/.exec(textHeader(key) ?? '');
  if (found === null)
    throw new TapedeckError(
      'invalid_idempotency_key',
      'Idempotency-Key must be sha256: and 64 lower-case hexadecimal digits, over the uncompressed lines',
    );
  return found[1] as string;
}

function textHeader(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(',') : value;
}
