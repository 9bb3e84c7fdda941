import type { EngineRequest } from './request.ts';
import type { Statement } from './statement.ts';
import { readStatement } from './statement.ts';
import { refusal } from './wire-error.ts';

/** Bytes of a statement without its data; ClickHouse's own limit (max_query_size) is 256 KiB. */
const MAX_STATEMENT_BYTES = 16 * 1024 * 1024;
const FIRST_LOOK_BYTES = 64 * 1024;

export type Query = {
  readonly statement: Statement;
  readonly data: { readonly first: Uint8Array; readonly rest: AsyncIterable<Uint8Array> };
};

/** The statement is the URL's `query`, a line feed, and the body, as if they were one text; an INSERT's data may begin anywhere in it. */
export async function readQuery(request: EngineRequest, body: AsyncIterable<Uint8Array>): Promise<Query> {
  const source = body[Symbol.asyncIterator]();
  let text: Buffer = request.query === '' ? Buffer.alloc(0) : Buffer.from(`${request.query}\n`);
  let look = 0;
  for (let isWhole = false; !isWhole;) {
    const next = await source.next();
    isWhole = next.done === true;
    if (!isWhole) text = text.length === 0 ? Buffer.from(next.value as Uint8Array) : Buffer.concat([text, next.value as Uint8Array]);
    if (!isWhole && text.length < look) continue;
    const statement = readStatement(text, isWhole);
    if (statement !== null) {
      if (!statement.ok) throw refusal(statement.error.code, statement.error.name, statement.error.text);
      const first = statement.value.kind === 'insert' ? text.subarray(statement.value.dataAt) : Buffer.alloc(0);
      return { statement: statement.value, data: { first, rest: { [Symbol.asyncIterator]: () => source } } };
    }
    if (text.length > MAX_STATEMENT_BYTES)
      throw refusal(191, 'QUERY_IS_TOO_LARGE', `The statement is longer than ${MAX_STATEMENT_BYTES} bytes`);
    // Each further look costs a pass over the text: double the distance.
    look = Math.max(FIRST_LOOK_BYTES, text.length * 2);
  }
  throw refusal(62, 'SYNTAX_ERROR', 'Empty query');
}
