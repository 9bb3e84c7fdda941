import { refusal } from './wire-error.ts';

/** One part of a multipart/form-data body: a field, or, with a file name, a file. */
export type Part = { readonly name: string; readonly isFile: boolean; readonly bytes: Buffer };

/** Fields and external tables are held in memory; more belongs into a table. */
export const MAX_FORM_BYTES = 64 * 1024 * 1024;

export function boundaryOf(contentType: string): string | null {
  const match = /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]+)"|([^;\s]+))/i.exec(contentType);
  return match ? (match[1] ?? match[2] ?? null) : null;
}

export async function readForm(body: AsyncIterable<Uint8Array>, boundary: string): Promise<Part[]> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > MAX_FORM_BYTES)
      throw refusal(307, 'TOO_MANY_BYTES', `A form may have ${MAX_FORM_BYTES} bytes: insert larger data into a table`);
    chunks.push(chunk);
  }
  return splitForm(Buffer.concat(chunks, size), boundary);
}

/** The parts of a whole form (RFC 7578). A form without its closing boundary was cut off, and is refused. */
export function splitForm(form: Buffer, boundary: string): Part[] {
  const parts: Part[] = [];
  const mark = Buffer.from(`\r\n--${boundary}`);
  // The first boundary may stand at the very beginning.
  const whole = Buffer.concat([Buffer.from('\r\n'), form]);
  let at = whole.indexOf(mark);
  for (;;) {
    if (at < 0) throw broken('it has no closing boundary');
    const after = at + mark.length;
    if (whole.toString('latin1', after, after + 2) === '--') return parts;
    const head = whole.indexOf('\r\n', after);
    const blank = whole.indexOf('\r\n\r\n', after);
    const next = whole.indexOf(mark, Math.max(head, after));
    if (head < 0 || blank < 0 || next < 0 || blank > next) throw broken('a part has no end');
    parts.push(readPart(whole.toString('utf8', head, blank), whole.subarray(Math.min(blank + 4, next), next)));
    at = next;
  }
}

function readPart(head: string, bytes: Buffer): Part {
  const disposition = /^content-disposition:\s*form-data\s*;(.*)$/im.exec(head)?.[1] ?? '';
  const name = /(?:^|[;\s])name=(?:"([^"]*)"|([^;\s]+))/i.exec(disposition);
  if (!name) throw broken('a part has no name');
  return { name: name[1] ?? name[2] ?? '', isFile: /(?:^|[;\s])filename=/i.test(disposition), bytes };
}

function broken(why: string): Error {
  return refusal(36, 'BAD_ARGUMENTS', `The form cannot be read: ${why}`);
}
