/**
 * Realistic `node.appended` events for benchmarks and load: English-like text, token ids with a natural frequency curve, a mask of prompt and completion, log-
 * probabilities as a sampler gives them. A batch is encoded once; stamping it with a number makes all its ids new without encoding again.
 */
import { seededRandom, type Random } from '../base/random.ts';
import { encodeEvent } from '../events/codec/cbor-encode.ts';
import { PackedArray } from '../events/packed-array.ts';

export type PayloadOptions = {
  /** Events in a batch. */
  readonly events: number;
  /** Bytes of message text per event. */
  readonly textBytes: number;
  /** Tokens per event; the last `sampled` of them are the model's. */
  readonly tokens: number;
  readonly sampled: number;
  /** Nodes of one trace in a batch; every trace is a rollout of its own. */
  readonly nodesPerTrace: number;
  readonly seed: number;
};

/** The event of issue-sized benchmarks: 6.6 KB as CBOR. */
export const NODE_PAYLOAD: PayloadOptions = { events: 100, textBytes: 2048, tokens: 512, sampled: 400, nodesPerTrace: 25, seed: 7 };

export type PayloadEvent = {
  v: 1; id: string; type: 'node.appended'; run: string; group: string; rollout: string; trace: string; time: number;
  data: {
    index: number; parent: number | null; role: string; sampled: boolean; policyVersion: number;
    message: { role: string; content: string };
    tokens: { ids: Uint32Array; mask: Uint8Array; logprobs: Float32Array };
  };
}; // prettier-ignore

/** Body of one request whose ids can be made new in place. */
export type BatchTemplate = {
  readonly events: number;
  readonly bytes: Buffer;
  /** Writes the ids of batch `number` (0 to 2^32) of writer `writer` (0 to 255) into `bytes`. */
  stamp(number: number, writer?: number): void;
};

const WORDS =
  'the of and to in is that for it as with was on be by this are from or which one would all will there can has more if no out so what up about who time people other than then now only its could over also after two first because how any these our work well way even new want give most day find think answer question number because each model value step result check total count line case part point write read table list sum equals therefore assume given second third between under minus plus times divided equal'.split(
    ' ',
  );

export function payloadEvents(options: PayloadOptions): PayloadEvent[] {
  const random = seededRandom(options.seed);
  return Array.from({ length: options.events }, (_, i) => payloadEvent(i, options, random));
}

function payloadEvent(i: number, options: PayloadOptions, random: Random): PayloadEvent {
  const { tokens, sampled, nodesPerTrace, textBytes } = options;
  const index = i % nodesPerTrace;
  const role = 'assistant';
  const trace = hex(Math.floor(i / nodesPerTrace), 4);
  return {
    v: 1,
    id: `0198c0de-0000-7000-80${hex(0, 2)}-${hex(i, 12)}`,
    type: 'node.appended',
    run: 'bench-run',
    group: 'bench-group',
    rollout: `rollout-${hex(0, 2)}-${hex(0, 10)}-${trace}`,
    trace: `trace-${hex(0, 2)}-${hex(0, 10)}-${trace}`,
    time: 1_760_000_000_000_000 + i * 1000,
    data: {
      index,
      parent: index === 0 ? null : index - 1,
      role,
      sampled: true,
      policyVersion: 12,
      message: { role, content: prose(textBytes, random) },
      tokens: {
        ids: Uint32Array.from({ length: tokens }, () => Math.floor(200_000 ** random.next())),
        mask: Uint8Array.from({ length: tokens }, (_, t) => (t < tokens - sampled ? 0 : 1)),
        logprobs: Float32Array.from({ length: sampled }, () => -(random.next() ** 6) * 8),
      },
    },
  };
}

/** Words with a natural frequency curve, cut to `bytes`. */
function prose(bytes: number, random: Random): string {
  let text = '';
  while (text.length < bytes) text += `${WORDS[Math.floor(WORDS.length ** random.next()) - 1] ?? 'the'}${random.next() < 0.1 ? ', ' : ' '}`;
  return text.slice(0, bytes);
}

export function cborTemplate(options: PayloadOptions = NODE_PAYLOAD): BatchTemplate {
  const events = payloadEvents(options).map((event) => {
    const { ids, mask, logprobs } = event.data.tokens;
    const tokens = { ids: PackedArray.of(ids), mask: PackedArray.of(mask), logprobs: PackedArray.of(logprobs) };
    return encodeEvent({ ...event, data: { ...event.data, tokens } });
  });
  const head = Buffer.from([0x99, events.length >> 8, events.length & 255]);
  return template(Buffer.concat([head, ...events]), options);
}

/** Streams as number arrays, or as base64 text. */
export function jsonTemplate(streams: 'numbers' | 'base64', options: PayloadOptions = NODE_PAYLOAD): BatchTemplate {
  const form = (array: Uint32Array | Uint8Array | Float32Array): unknown =>
    streams === 'numbers' ? Array.from(array, (x) => (array instanceof Float32Array ? Number(x.toPrecision(7)) : x)) : base64(array);
  const events = payloadEvents(options).map((event) => {
    const { ids, mask, logprobs } = event.data.tokens;
    return { ...event, data: { ...event.data, tokens: { ids: form(ids), mask: form(mask), logprobs: form(logprobs) } } };
  });
  return template(Buffer.from(JSON.stringify(events)), options);
}

function base64(array: Uint32Array | Uint8Array | Float32Array): string {
  return Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString('base64');
}

/** Finds the places of all ids once; they have fixed lengths in both encodings. */
function template(bytes: Buffer, options: PayloadOptions): BatchTemplate {
  const ids = placesOf(bytes, '0198c0de-0000-7000-80');
  const scopes = [...placesOf(bytes, 'rollout-00-'), ...placesOf(bytes, 'trace-00-')].map((at) => bytes.indexOf('-', at) + 1);
  if (ids.length !== options.events || scopes.length !== 2 * options.events) throw new Error('the ids of the batch were not all found');
  return {
    events: options.events,
    bytes,
    stamp(number, writer = 0) {
      const low = number * 65_536;
      ids.forEach((at, i) => bytes.write(`${hex(writer, 2)}-${hex(low + i, 12)}`, at + 21, 'latin1'));
      const scope = `${hex(writer, 2)}-${hex(number, 10)}`;
      for (const at of scopes) bytes.write(scope, at, 'latin1');
    },
  };
}

function placesOf(bytes: Buffer, text: string): number[] {
  const places: number[] = [];
  for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1)) places.push(at);
  return places;
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}
