/**
 * multipart/form-data as a stream of parts (RFC 7578, RFC 2046), pulled by the reader, in bounded memory. Strict: what a client would not send is refused,
 * never skipped. A parser of our own because the parts of an upload carry a Content-Encoding, and busboy and @fastify/multipart do not hand out a
 * part's own headers.
 */
import { TapedeckError } from '../../base/errors.ts';

export type Part = {
  readonly name: string;
  /** By lower-case name; each header once. */
  readonly headers: ReadonlyMap<string, string>;
  /** The content; what is not read of it is skipped when the next part is asked for. A piece is valid until the next one is asked for. */
  readonly bytes: AsyncGenerator<Buffer>;
};

const CRLF = Buffer.from('\r\n');
const HEADERS_END = Buffer.from('\r\n\r\n');
/** All headers of one part together. */
export const MAX_PART_HEADER_BYTES = 16 * 1024;
/** Parts of one body. */
export const MAX_PARTS = 16;
const BOUNDARY = /;\s*boundary=(?:"([^"\r\n]{1,70})"|([^\s";,]{1,70}))\s*(?:;|$)/i;

/** The boundary that a Content-Type header names. Throws `unsupported_media_type`. */
export function boundaryOf(contentType: string | undefined): string {
  const isMultipart = /^\s*multipart\/form-data\s*(;|$)/i.test(contentType ?? '');
  const found = isMultipart ? BOUNDARY.exec(contentType as string) : null;
  const boundary = found?.[1] ?? found?.[2];
  if (boundary === undefined)
    throw new TapedeckError('unsupported_media_type', 'send multipart/form-data with a boundary, with the parts metadata and traces');
  return boundary;
}

/** Yields the parts in order. Errors: `malformed_encoding` for anything that is no multipart body, and what `source` throws. */
export async function* multipartParts(source: AsyncIterable<Buffer>, boundary: string): AsyncGenerator<Part> {
  const input = inputOver(source);
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1');
  try {
    // the first delimiter may stand at the very beginning
    input.put(CRLF);
    for await (const _ of untilDelimiter(input, delimiter));
    for (let count = 1; !(await isLast(input)); count++) {
      if (count > MAX_PARTS) throw malformed(`more than ${MAX_PARTS} parts`);
      const headers = await readHeaders(input);
      const bytes = untilDelimiter(input, delimiter);
      yield { name: nameOf(headers), headers, bytes };
      for await (const _ of bytes);
    }
    for await (const _ of input.rest());
  } finally {
    await input.close();
  }
}

type Input = {
  /** Bytes that were read and not taken yet. */
  readonly have: Buffer;
  /** Appends bytes of our own. */
  put(bytes: Buffer): void;
  take(bytes: number): Buffer;
  /** Reads more; false at the end of the source. */
  more(): Promise<boolean>;
  rest(): AsyncGenerator<Buffer>;
  /** Lets go of the source. */
  close(): Promise<void>;
};

function inputOver(source: AsyncIterable<Buffer>): Input {
  const iterator = source[Symbol.asyncIterator]();
  let have: Buffer = Buffer.alloc(0);
  const more = async (): Promise<boolean> => {
    const next = await iterator.next();
    if (next.done === true) return false;
    have = have.length === 0 ? next.value : Buffer.concat([have, next.value]);
    return true;
  };
  return {
    get have() {
      return have;
    },
    put: (bytes) => void (have = Buffer.concat([have, bytes])),
    take: (bytes) => {
      const taken = have.subarray(0, bytes);
      have = have.subarray(bytes);
      return taken;
    },
    more,
    async *rest() {
      do {
        yield have;
        have = Buffer.alloc(0);
      } while (await more());
    },
    close: async () => void (await iterator.return?.()),
  };
}

/** What comes before the next delimiter, which is taken too. */
async function* untilDelimiter(input: Input, delimiter: Buffer): AsyncGenerator<Buffer> {
  for (;;) {
    const at = input.have.indexOf(delimiter);
    if (at >= 0) {
      const last = input.take(at);
      input.take(delimiter.length);
      if (last.length > 0) yield last;
      return;
    }
    const safe = input.have.length - delimiter.length + 1;
    if (safe > 0) yield input.take(safe);
    if (!(await input.more())) throw malformed('it ends before its closing boundary');
  }
}

/** After a delimiter: two dashes end the body, a line feed (after padding) begins a part. */
async function isLast(input: Input): Promise<boolean> {
  for (;;) {
    const text = input.have.toString('latin1', 0, 64);
    if (text.startsWith('--')) return true;
    const padding = /^[ \t]*\r\n/.exec(text);
    if (padding !== null) {
      input.take(padding[0].length);
      return false;
    }
    if (text.length >= 64 || !/^(-|[ \t]*\r?)$/.test(text)) throw malformed('a boundary is followed by something else than a line end');
    if (!(await input.more())) throw malformed('it ends inside a boundary');
  }
}

async function readHeaders(input: Input): Promise<Map<string, string>> {
  for (;;) {
    if (input.have.subarray(0, 2).equals(CRLF)) throw malformed('a part has no headers');
    const end = input.have.indexOf(HEADERS_END);
    if (end > MAX_PART_HEADER_BYTES || (end < 0 && input.have.length > MAX_PART_HEADER_BYTES)) {
      throw malformed(`the headers of a part have more than ${MAX_PART_HEADER_BYTES} bytes`);
    }
    if (end >= 0) {
      const text = input.take(end).toString('latin1');
      input.take(HEADERS_END.length);
      return headersOf(text);
    }
    if (!(await input.more())) throw malformed('it ends inside the headers of a part');
  }
}

function headersOf(text: string): Map<string, string> {
  const headers = new Map<string, string>();
  for (const line of text.split('\r\n')) {
    const found = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*$/.exec(line);
    if (found === null) throw malformed(`a header of a part cannot be read: ${JSON.stringify(line.slice(0, 80))}`);
    const name = (found[1] as string).toLowerCase();
    if (headers.has(name)) throw malformed(`a part has the header ${name} twice`);
    headers.set(name, found[2] as string);
  }
  return headers;
}

function nameOf(headers: ReadonlyMap<string, string>): string {
  const disposition = headers.get('content-disposition') ?? '';
  const found = /^form-data\s*(?=;)/i.test(disposition) ? /;\s*name=(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))/i.exec(disposition) : null;
  const name = found?.[1] ?? found?.[2];
  if (name === undefined) throw malformed('a part has no Content-Disposition: form-data with a name');
  return name;
}

function malformed(what: string): TapedeckError {
  return new TapedeckError('malformed_encoding', `the body is not valid multipart/form-data: ${what}; send it again as a whole`);
}
