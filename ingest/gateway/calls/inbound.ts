/** A request of a harness, read: its body as CBOR for the record, its meaning in neutral form, and a digest that knows it again. Pure. */
import { createHash } from 'node:crypto';
import { ByteWriter } from '../../../base/byte-writer.ts';
import { fail, ok, type Result } from '../../../base/result.ts';
import { jsonToCbor } from '../../../events/codec/json-to-cbor.ts';
import type { Ask, Dialect, JsonObject } from '../dialects/dialect.ts';
import { isObject, readStrict } from '../dialects/json.ts';
import { Encoded } from '../record/draft.ts';
import type { Endpoint } from './endpoints.ts';

export type Inbound = {
  readonly endpoint: Endpoint;
  readonly dialect: Dialect;
  /** The body as it came. */
  readonly text: string;
  readonly body: JsonObject;
  readonly ask: Ask;
  readonly recorded: Encoded;
  /** sha256 of the body's bytes, hexadecimal. */
  readonly digest: string;
};

/** Problems: those of JSON (`invalid_json`, `invalid_utf8`, `duplicate_key` …) and of the dialect, each naming its field. */
export function readInbound(bytes: Buffer, endpoint: Endpoint, dialect: Dialect): Result<Inbound> {
  const value = readStrict(bytes);
  if (!value.ok) return value;
  if (!isObject(value.value)) return fail('wrong_type', 'the body must be a JSON object');
  const ask = dialect.parseAsk(value.value);
  if (!ask.ok) return ask;
  const out = new ByteWriter(bytes.length + 64);
  jsonToCbor(bytes, 0, bytes.length, out, { streams: false });
  return ok({
    endpoint,
    dialect,
    text: bytes.toString('utf8'),
    body: value.value,
    ask: ask.value,
    recorded: new Encoded(out.view()),
    digest: createHash('sha256').update(bytes).digest('hex'),
  });
}
