import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import type { ByteBudget } from '../../base/byte-budget.ts';
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { Result } from '../../base/result.ts';
import { mediaOf, type Media } from '../accept-media.ts';
import { openBody, type BodyBuffer, type SizeLimit } from './body-buffer.ts';
import type { BufferPool } from './buffer-pool.ts';
import { openClaim, type Claim } from './claim.ts';
import { encodingOf, inflate, type Encoding } from './inflate.ts';
import type { IngestLimits } from './limits.ts';
import { receive } from './receive.ts';

export type BodyPorts = { readonly pool: BufferPool; readonly budget: ByteBudget; readonly clock: Clock; readonly limits: IngestLimits };

/** A whole body, inflated, in memory that is counted until `release`. */
export type ReceivedBody = { readonly media: Media; readonly bytes: Buffer; readonly claim: Claim; release(isUnread: boolean): void };

/**
 * Reads a request's body. What the headers tell is judged before a byte is read: type, encoding, Content-Length against the limit and the bytes in flight.
 * Errors: `unsupported_media_type`, `unsupported_encoding`, `body_too_large`, `inflated_too_large`, `overloaded`, `slow_body`, `truncated_body`, `broken_compression`.
 */
export async function readBody(headers: IncomingHttpHeaders, source: Readable, ports: BodyPorts): Promise<ReceivedBody> {
  const media = valueOf(mediaOf(headers['content-type']));
  const encoding = valueOf(encodingOf(headers['content-encoding']));
  const { limits, pool } = ports;
  const claim = openClaim(ports.budget);
  const sent: SizeLimit = { bytes: limits.bodyBytes, code: 'body_too_large', what: 'the body' };
  const buffer = openBody(pool, claim, encoding === 'identity' ? sent : { ...sent, what: 'the compressed body' }, contentLength(headers));
  try {
    await receive(source, buffer, { clock: ports.clock, bodyIdleMs: limits.bodyIdleMs, bodyMs: limits.bodyMs });
  } catch (error) {
    buffer.release(true);
    throw error;
  }
  const body = encoding === 'identity' ? buffer : await inflated(buffer, encoding, claim, ports);
  return { media, bytes: body.view(), claim, release: (isUnread) => (body.release(isUnread), claim.release()) };
}

async function inflated(packed: BodyBuffer, encoding: Exclude<Encoding, 'identity'>, claim: Claim, ports: BodyPorts): Promise<BodyBuffer> {
  const { pool, limits } = ports;
  let target: BodyBuffer | null = null;
  try {
    target = openBody(pool, claim, { bytes: limits.inflatedBytes, code: 'inflated_too_large', what: 'the body after decompression' }, null);
    await inflate(packed.view(), encoding, target);
    return target;
  } catch (error) {
    target?.release(true);
    throw error;
  } finally {
    packed.release(true);
  }
}

/** Node's parser has made sure that it is a number and that no transfer coding stands beside it. */
function contentLength(headers: IncomingHttpHeaders): number | null {
  const text = headers['content-length'];
  return text === undefined ? null : Number(text);
}

function valueOf<T>(result: Result<T>): T {
  if (result.ok) return result.value;
  const { code, message, field } = result.error;
  throw new TapedeckError(code, message, field === undefined ? {} : { details: { field } });
}
