/** LZ4 blocks (format: lz4_Block_format.md of the LZ4 project): read fully, written as literals only, since the engine's clients are on this machine. */

const MIN_MATCH = 4;

/** Thrown for bytes that are not an LZ4 block. */
export class Lz4Error extends Error {}

/**
 * Decodes `block` into `target` from `at` on and returns the end. Matches may reach back before `at`, into what `target` holds already.
 * Never writes beyond `target`.
 */
export function decodeLz4Block(block: Uint8Array, target: Buffer, at: number): number {
  let from = 0;
  let to = at;
  while (from < block.length) {
    const token = block[from++] as number;
    let literals = token >> 4;
    if (literals === 15) [literals, from] = longLength(block, from, literals);
    if (from + literals > block.length || to + literals > target.length) throw new Lz4Error('literals reach beyond the block');
    target.set(block.subarray(from, from + literals), to);
    from += literals;
    to += literals;
    if (from === block.length) return to;
    if (from + 2 > block.length) throw new Lz4Error('the block ends inside an offset');
    const offset = (block[from] as number) | ((block[from + 1] as number) << 8);
    from += 2;
    let match = token & 15;
    if (match === 15) [match, from] = longLength(block, from, match);
    match += MIN_MATCH;
    if (offset === 0 || offset > to || to + match > target.length) throw new Lz4Error('a match reaches beyond the data');
    // An overlapping match repeats what it has just written: that must go byte by byte.
    if (offset >= match) target.copyWithin(to, to - offset, to - offset + match);
    else for (let i = 0; i < match; i++) target[to + i] = target[to - offset + i] as number;
    to += match;
  }
  if (block.length > 0) throw new Lz4Error('the block does not end with literals');
  return to;
}

function longLength(block: Uint8Array, start: number, base: number): [number, number] {
  let length = base;
  for (let at = start; at < block.length; at++) {
    const byte = block[at] as number;
    length += byte;
    if (byte !== 255) return [length, at + 1];
  }
  throw new Lz4Error('the block ends inside a length');
}

/** `data` as one block of literals. */
export function encodeLz4Literals(data: Uint8Array): Buffer {
  const rest = data.length - 15;
  const extra = rest < 0 ? 0 : Math.floor(rest / 255) + 1;
  const block = Buffer.allocUnsafe(1 + extra + data.length);
  block[0] = Math.min(data.length, 15) << 4;
  if (extra > 0) {
    block.fill(255, 1, extra);
    block[extra] = rest % 255;
  }
  block.set(data, 1 + extra);
  return block;
}
