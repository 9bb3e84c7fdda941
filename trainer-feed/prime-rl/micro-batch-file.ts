/**
 * A slice as prime-rl's filesystem transport expects it (`rollouts/step_N/rank_R.bin`, msgspec structs as arrays; prime-rl 559b44772e, src/prime_rl/transports/rollouts/types.py), so
 * that an unmodified prime-rl trainer can be fed. Conventions of its packer: padding lengthens the last sequence, has id 1 and temperature 1, and nothing in it is trained.
 */
import { TapedeckError } from '../../base/errors.ts';
import { readSlice, type ReadMicroBatch } from '../planner/read-slice.ts';
import { MsgpackWriter } from './msgpack.ts';

/** Fields of a MicroBatch up to `seq_lens`, which are always there; of those behind, trailing ones that are absent are left out. */
const REQUIRED_FIELDS = 9;
const PADDING_ID = 1;
const PADDING_TEMPERATURE = 1;

/** The bytes of `rank_R.bin` for an Arrow slice. Errors: `invalid_value` (a temperature was not recorded, which this transport cannot say). */
export function microBatchFile(slice: Uint8Array): Uint8Array {
  const microBatches = readSlice(slice);
  const writer = new MsgpackWriter();
  writer.array(microBatches.length);
  for (const microBatch of microBatches) writeMicroBatch(writer, microBatch);
  return writer.bytes().slice();
}

function writeMicroBatch(writer: MsgpackWriter, microBatch: ReadMicroBatch): void {
  const { offsets, padding, stream, envs } = microBatch;
  const tokens = offsets.at(-1) as number;
  const padded = padding > 0 ? tokens - padding : tokens;
  const ids = (stream('token_ids') as Int32Array).slice();
  const temperatures = temperaturesOf(microBatch, padded);
  ids.fill(PADDING_ID, padded);
  const positions = new Int32Array(tokens);
  for (let row = 0; row + 1 < offsets.length; row++) {
    const start = offsets[row] as number;
    for (let i = start; i < (offsets[row + 1] as number); i++) positions[i] = i - start;
  }
  const lengths = lengthsOf(offsets, padding);
  const optional = ['ref_logprobs', null, null, null, 'rl_weights', 'ce_weights', 'ref_kl_weights'] as const;
  const present = optional.map((name) => (name === null ? null : (stream(name) as Float32Array | null)));
  const last = present.findLastIndex((values) => values !== null);
  writer.array(REQUIRED_FIELDS + last + 1);
  writer.integers(ids);
  writer.booleans(stream('loss_mask') as Uint8Array);
  writer.float32s(microBatch.advantages());
  writer.float32s(stream('logprobs') as Float32Array);
  writer.integers(positions);
  writer.integers(lengths);
  writer.float32s(temperatures);
  writer.array(tokens);
  for (let row = 0; row + 1 < offsets.length; row++) {
    for (let i = offsets[row] as number; i < (offsets[row + 1] as number); i++) writer.text(i < padded ? (envs[row] as string) : '');
  }
  writer.integers(lengths);
  for (const values of present.slice(0, last + 1)) {
    if (values === null) writer.nil();
    else writer.float32s(values);
  }
}

function temperaturesOf({ temperatures }: ReadMicroBatch, padded: number): Float32Array {
  const values = temperatures();
  for (let i = 0; i < padded; i++) {
    if (Number.isNaN(values[i]))
      throw new TapedeckError(
        'invalid_value',
        'a row has no recorded temperature, and prime-rl divides by it: record the sampling of each call',
      );
  }
  values.fill(PADDING_TEMPERATURE, padded);
  return values;
}

/** Lengths of the sequences; the padding row is part of the last one, and one of its own where there is no other. */
function lengthsOf(offsets: Int32Array, padding: number): number[] {
  const lengths = Array.from({ length: offsets.length - 1 }, (_, i) => (offsets[i + 1] as number) - (offsets[i] as number));
  if (padding === 0 || lengths.length < 2) return lengths;
  const last = lengths.pop() as number;
  lengths[lengths.length - 1] = (lengths.at(-1) as number) + last;
  return lengths;
}
