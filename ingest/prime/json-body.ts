import type { FastifyRequest } from 'fastify';
import { TapedeckError } from '../../base/errors.ts';
import type { IngestPorts } from '../http/server.ts';
import { readBody, type ReceivedBody } from '../http/read-body.ts';
import { isRecord, type JsonRecord } from '../importers/json-value.ts';
import { jsonReader } from '../importers/read-json.ts';

/** Runs `work` on the bytes of a JSON body; their memory is counted until it settles. No body at all is `{}`. Errors: those of `readBody`. */
export async function withJsonBody<T>(
  request: FastifyRequest,
  ports: IngestPorts,
  maxBytes: number,
  work: (text: Buffer) => Promise<T>,
): Promise<T> {
  const { headers } = request;
  const isEmpty = headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;
  if (isEmpty) return work(Buffer.from('{}'));
  const received = await readBody(headers, request.raw, {
    ...ports,
    limits: { ...ports.limits, bodyBytes: maxBytes, inflatedBytes: maxBytes },
  });
  try {
    if (received.media !== 'json') throw new TapedeckError('unsupported_media_type', 'send application/json');
    return await work(received.bytes);
  } finally {
    release(received);
  }
}

function release(body: ReceivedBody): void {
  // what was made of it refers to copies only
  body.release(true);
}

/** A JSON object with exact numbers. Throws `invalid_json` and the like, `wrong_type`. */
export function objectOf(text: Buffer): JsonRecord {
  const read = jsonReader()(text);
  if (!read.ok) throw new TapedeckError(read.error.code, `the body: ${read.error.message}`);
  if (!isRecord(read.value)) throw new TapedeckError('wrong_type', 'the body must be a JSON object');
  return read.value;
}
