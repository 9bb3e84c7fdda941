import { parseException, storeError } from './clickhouse-http-errors.ts';
import { TapedeckError } from '../../base/errors.ts';

/**
 * The bytes of a result, checked for the exception that ClickHouse writes behind the rows when a query fails after its first byte:
 * `\r\n__exception__\r\n<tag>\r\n<text>\n<size> <tag>\r\n__exception__\r\n`, where `<tag>` is given by the header `X-ClickHouse-Exception-Tag`.
 * Rows before it are passed on, then the error is thrown. Nothing is buffered but a possible beginning of the marker.
 */
export async function* checkedBody(source: AsyncIterable<Uint8Array>, tag: string | undefined): AsyncGenerator<Uint8Array> {
  if (tag === undefined) {
    yield* source;
    return;
  }
  const marker = Buffer.from(`\r\n__exception__\r\n${tag}\r\n`);
  let held: Buffer = Buffer.alloc(0);
  let exception: Buffer[] | null = null;
  for await (const chunk of source) {
    if (exception) {
      exception.push(Buffer.from(chunk));
      continue;
    }
    const bytes = held.length === 0 ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength) : Buffer.concat([held, chunk]);
    const at = bytes.indexOf(marker);
    const keep = at >= 0 ? at : bytes.length - possibleStart(bytes, marker);
    if (keep > 0) yield bytes.subarray(0, keep);
    if (at >= 0) exception = [bytes.subarray(at + marker.length)];
    held = at >= 0 ? Buffer.alloc(0) : Buffer.from(bytes.subarray(keep));
  }
  if (exception) throw exceptionOf(Buffer.concat(exception).toString('utf8'));
  if (held.length > 0) yield held;
}

/** Length of the longest end of `bytes` that is a beginning of `marker`. */
function possibleStart(bytes: Buffer, marker: Buffer): number {
  for (let length = Math.min(marker.length - 1, bytes.length); length > 0; length--) {
    if (bytes.subarray(bytes.length - length).equals(marker.subarray(0, length))) return length;
  }
  return 0;
}

function exceptionOf(trailer: string): TapedeckError {
  const text = trailer.replace(/\n\d+ \S+\r\n__exception__\r\n$/, '');
  const parsed = parseException(text);
  return parsed ? storeError(parsed, 'read') : new TapedeckError('sql_error', `the query failed after its first rows: ${text}`);
}
