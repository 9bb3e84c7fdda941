/** Changes of a request by path: `messages[0].content=Be brief.` Pure. */
import { TapedeckError } from '../../../base/errors.ts';
import { toJson } from '../../../events/codec/cbor-to-json.ts';
import { isMap } from '../../../events/fields.ts';
import { readRequest, type Fields } from './canonical-request.ts';
import { ANY, ANY_DEPTH, pathText, readPath, type Path } from './path.ts';

export type Edit = { readonly path: Path; readonly value: unknown };

/** `path=value`; the value is JSON where it can be read as such, else a text. Throws `usage`. */
export function readEdit(text: string): Edit {
  const at = text.indexOf('=');
  if (at < 0) throw new TapedeckError('usage', `"${text}" is no edit: write path=value, like messages[0].content=Be brief.`);
  const path = readPath(text.slice(0, at)).map((step) => {
    if (step === ANY || step === ANY_DEPTH) throw new TapedeckError('usage', `"${text}": an edit names one place, without *`);
    return step;
  });
  return { path, value: valueOf(text.slice(at + 1)) };
}

function valueOf(text: string): unknown {
  const read = readRequest(Buffer.from(`{"value":${text}}`));
  return read.ok && Object.keys(read.value).length === 1 ? read.value['value'] : text;
}

/** The body of a request with the edits made, as JSON. Throws `usage` where a place is not there, the problem of the JSON where it is none. */
export function editedBody(body: Uint8Array, edits: readonly Edit[]): Buffer {
  if (edits.length === 0) return Buffer.from(body);
  const read = readRequest(body);
  if (!read.ok) throw new TapedeckError(read.error.code, read.error.message);
  return Buffer.from(toJson(edits.reduce<unknown>((value, { path, value: to }) => withValue(value, path, to, []), read.value)));
}

function withValue(at: unknown, path: Path, value: unknown, done: Path): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return value;
  const inner = (old: unknown): unknown => withValue(old, rest, value, [...done, step]);
  if (Array.isArray(at) && typeof step === 'number' && step <= at.length)
    return [...at.slice(0, step), inner(at[step]), ...at.slice(step + 1)];
  if ((isMap(at) || at === undefined) && typeof step === 'string') {
    const fields: Fields = at ?? {};
    return { ...fields, [step]: inner(fields[step]) };
  }
  throw new TapedeckError('usage', `the request has no ${pathText([...done, step])} to edit`);
}
