/** Token streams of a verifiers v1 node, both ways. In files they are lists of numbers and booleans, in events typed arrays. */
import { WholeFloat } from '../../events/codec/whole-float.ts';
import { PackedArray, type Dtype } from '../../events/packed-array.ts';
import { shortestFloat32 } from './float32-text.ts';
import { isList, isRecord, type Json, type JsonRecord } from './json-value.ts';

/** Compact float streams (one value per sampled token): name in the file, name in the event. */
const COMPACT = [
  ['logprobs', 'logprobs'],
  ['advantages', 'advantages'],
  ['reference_logprobs', 'referenceLogprobs'],
] as const;
/** What upstream always writes, as an empty list when there is nothing. */
const ALWAYS = ['token_ids', 'mask', 'is_content', 'logprobs'] as const;
export const STREAM_FIELDS: ReadonlySet<string> = new Set([...ALWAYS, 'advantages', 'reference_logprobs', 'loss_weights']);

/** One line of text per stream that could not become a typed array: it is kept as it was, in `extra`. */
type Streams = { readonly tokens: Record<string, unknown> | null; readonly extra: JsonRecord; readonly problems: readonly string[] };

/**
 * The `tokens` of an event. Without `token_ids` in the record there are none (null); with an empty list they are known to be empty. Floats become float32;
 * `extra.doubles` names the streams whose decimals spell that float32 out as a double; streams with more precision than float32 stay in `extra` whole.
 */
export function tokensFromRecord(node: JsonRecord): Streams {
  const given = [...STREAM_FIELDS].filter((field) => Object.hasOwn(node, field));
  if (given.length === 0) return { tokens: null, extra: {}, problems: [] };
  const keepAll = (problem: string | null): Streams => ({
    tokens: null,
    extra: { verifiers: Object.fromEntries(given.map((field) => [field, node[field] as Json])) },
    problems: problem === null ? [] : [problem],
  });
  if (!Object.hasOwn(node, 'token_ids')) return keepAll(null);
  const ids = idsOf(node['token_ids']);
  if (ids === null) return keepAll('token_ids: not a list of integers from 0 to 2^31 - 1');
  const mask = flagsOf(node['mask']);
  if (mask === null || mask.length !== ids.length) return keepAll('mask: not a list of booleans, one per token id');
  return readStreams(node, ids, mask);
}

/** What is kept aside while the streams of a node are read. */
type Aside = { readonly kept: Record<string, Json>; readonly doubles: string[]; readonly problems: string[] };

function readStreams(node: JsonRecord, ids: Uint32Array, mask: Uint8Array): Streams {
  const aside: Aside = { kept: {}, doubles: [], problems: [] };
  const sampled = mask.reduce((sum, flag) => sum + flag, 0);
  const tokens: Record<string, unknown> = { ids: packed('u32', ids), mask: packed('u8', mask) };
  const isContent = contentOf(node['is_content'], ids.length, aside);
  if (isContent !== null) tokens['isContent'] = packed('u8', isContent);
  for (const [field, key] of COMPACT) {
    const value = node[field];
    // logprobs that were not asked for: an empty list beside sampled tokens
    if (value === undefined || (field === 'logprobs' && isList(value) && value.length === 0 && sampled > 0)) continue;
    const stream = compactStream(field, value, sampled, aside);
    if (stream !== null) tokens[key] = stream;
  }
  const weights = lossWeightsOf(node['loss_weights'], ids.length, aside);
  if (weights !== null) tokens['lossWeights'] = weights;
  const absent = ALWAYS.filter((field) => !Object.hasOwn(node, field));
  const extra = {
    ...(Object.keys(aside.kept).length > 0 && { verifiers: aside.kept }),
    ...(absent.length > 0 && { absent }),
    ...(aside.doubles.length > 0 && { doubles: aside.doubles }),
  };
  return { tokens, extra, problems: aside.problems };
}

function keep(field: string, value: Json, problem: string, aside: Aside): null {
  aside.kept[field] = value;
  aside.problems.push(`${field}: ${problem}`);
  return null;
}

function contentOf(value: Json | undefined, count: number, aside: Aside): Uint8Array | null {
  if (value === undefined || (isList(value) && value.length === 0)) return null;
  const flags = flagsOf(value);
  if (flags !== null && flags.length === count) return flags;
  return keep('is_content', value, 'not a list of booleans, one per token id', aside);
}

function compactStream(field: string, value: Json, count: number, aside: Aside): PackedArray<'f32'> | null {
  const floats = float32Of(value);
  if (floats === null) return keep(field, value, 'not a list of floats', aside);
  if (floats.values.length !== count) return keep(field, value, 'not one value per sampled token', aside);
  if (floats.spelled === 'double') aside.doubles.push(field);
  if (floats.spelled === 'beyond') aside.kept[field] = packed('f64', floats.doubles);
  return packed('f32', floats.values);
}

function lossWeightsOf(value: Json | undefined, count: number, aside: Aside): Record<string, PackedArray> | null {
  if (value === undefined) return null;
  if (!isRecord(value)) return keep('loss_weights', value, 'not an object of lists', aside);
  const weights: Record<string, PackedArray> = {};
  for (const [name, list] of Object.entries(value)) {
    const floats = float32Of(list);
    if (floats === null || floats.values.length !== count || floats.spelled !== 'short' || name === '__proto__') {
      return keep('loss_weights', value, 'not lists of one float32 per token id', aside);
    }
    weights[name] = packed('f32', floats.values);
  }
  return weights;
}

function packed<D extends Dtype>(dtype: D, array: Uint8Array | Uint32Array | Float32Array | Float64Array): PackedArray<D> {
  return new PackedArray(dtype, new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
}

function idsOf(value: Json | undefined): Uint32Array | null {
  if (!isList(value)) return null;
  const ids = new Uint32Array(value.length);
  for (let i = 0; i < ids.length; i++) {
    const id = value[i];
    if (typeof id !== 'number' || !(id >= 0 && id < 2 ** 31) || !Number.isInteger(id) || Object.is(id, -0)) return null;
    ids[i] = id;
  }
  return ids;
}

function flagsOf(value: Json | undefined): Uint8Array | null {
  if (!isList(value)) return null;
  const flags = new Uint8Array(value.length);
  for (let i = 0; i < flags.length; i++) {
    const flag = value[i];
    if (typeof flag !== 'boolean') return null;
    flags[i] = flag ? 1 : 0;
  }
  return flags;
}

type Floats = { readonly values: Float32Array; readonly doubles: Float64Array; readonly spelled: 'short' | 'double' | 'beyond' };

/**
 * Floats as float32, and how the file spelled them: `short`, the shortest decimal of that float32; `double`, the float32 printed as the double it equals;
 * `beyond`, at least one value that float32 cannot hold. Integers in the list are not floats: null.
 */
function float32Of(value: Json | undefined): Floats | null {
  if (!isList(value)) return null;
  const doubles = new Float64Array(value.length);
  for (let i = 0; i < doubles.length; i++) {
    const item = value[i];
    if (item instanceof WholeFloat) doubles[i] = item.value;
    else if (typeof item === 'number' && !Number.isInteger(item)) doubles[i] = item;
    else return null;
  }
  const values = Float32Array.from(doubles);
  if (values.every((f, i) => Object.is(shortestFloat32(f), doubles[i]))) return { values, doubles, spelled: 'short' };
  return { values, doubles, spelled: values.every((f, i) => Object.is(f, doubles[i])) ? 'double' : 'beyond' };
}

/** The stream fields of a record from the `tokens` of an event; `doubles` as in `extra`. */
export function tokensToRecord(tokens: Readonly<Record<string, unknown>> | null | undefined, doubles: ReadonlySet<string>): JsonRecord {
  if (tokens === null || tokens === undefined) return {};
  const record: Record<string, Json> = {
    token_ids: [...((tokens['ids'] as PackedArray<'u32'>).typed() as Uint32Array)],
    mask: flagList(tokens['mask']),
    is_content: flagList(tokens['isContent']),
    logprobs: [],
  };
  for (const [field, key] of COMPACT) {
    const stream = tokens[key];
    if (stream instanceof PackedArray) record[field] = floatList(stream as PackedArray<'f32'>, doubles.has(field));
  }
  const weights = tokens['lossWeights'];
  if (typeof weights === 'object' && weights !== null) {
    const lists = Object.entries(weights as Record<string, PackedArray<'f32'>>).map(([name, w]) => [name, floatList(w, false)] as const);
    record['loss_weights'] = Object.fromEntries(lists);
  }
  return record;
}

function flagList(flags: unknown): boolean[] {
  return flags instanceof PackedArray ? Array.from(flags.bytes, (flag) => flag === 1) : [];
}

function floatList(stream: PackedArray<'f32'>, doubles: boolean): Json[] {
  return Array.from(stream.typed(), (f) => WholeFloat.box(doubles ? f : shortestFloat32(f)));
}
